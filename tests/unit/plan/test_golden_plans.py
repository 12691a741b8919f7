"""Plans of the golden files have the known number of rows and positions of bad rows."""

from __future__ import annotations

import pytest

from ddbload.plan.make_plan import make_plan
from tests.golden.cases import Golden, load_all
from tests.unit.steps.world import World

CASES = [case for case in load_all() if case.rows and case.rows[0].defect is None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plan_of_golden_file(case: Golden):
    header, *rows = case.rows
    columns = [f"c{place}" for place in range(len(header.fields))]
    if any(row.defect == "unterminated_quote" for row in rows):
        rows = rows[:-1]
    bad = [row for row in rows if row.defect or len(row.fields) != len(columns)]
    world = World(
        case.data,
        keys=[("c0", "S")],
        source={
            "format": "csv",
            "delimiter": case.delimiter,
            "quote": case.quote,
            "columns": columns,
            "header": True,
        },
    )
    plan = make_plan(world.payload, world.context()).to_json()
    keyless = [row for row in rows if row not in bad and not row.fields[0]]
    cut = len(rows) < len(case.rows) - 1
    none = not cut and rows and len(bad) + len(keyless) == len(rows)
    fails = "UnterminatedQuote" if cut else "NothingWritten" if none else None
    assert (plan["error"] or {}).get("name") == fails
    assert plan["rows"]["read"] == len(rows)
    assert plan["rows"]["rejected"] == len(bad) + len(keyless)
    told = [
        (each["first"]["line"], each["first"]["byte"])
        for each in plan["rejects"]
        if each["cause"] != "empty_key"
    ]
    places = [(row.line, row.byte) for row in bad]
    assert set(told) <= set(places)
    assert min(told, default=None) == min(places, default=None)


def test_golden_files_are_many():
    assert len(CASES) > 40
