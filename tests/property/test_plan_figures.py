"""Figures of plans, compared with those of a slow program that shares no code with ddbload."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.planning import make_plan as planning
from tests.unit.steps.world import World

TEXTS = st.one_of(
    st.sampled_from(
        ["a", "B 2", "größe", "日本", 'say "no"', "line\nend", "\t", "\x01", "x" * 1100]
    ),
    st.sampled_from(["\\", "{", ":{", '":{"', "}", '{"S":"', "[]", "false", "007", "1e5"]),
    st.sampled_from(["BOOL", "NULL", "M", "L", "S", "N", "B", "SS"]),
)
NUMBERS = st.one_of(
    st.sampled_from(["0", "-0", "0.0", "10", "12e4", "2.5E-3", "100", "0.001", "-120.50", "1e125"]),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
)
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS.map(Decimal), st.booleans(), st.none()),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3),
    max_leaves=6,
)


def number_size(number: Decimal) -> int:
    """Count pairs of decimal digits, aligned at the point, without outer zeros."""
    sign, digits, exponent = number.normalize().as_tuple()
    if not number:
        return 1
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * (exponent % 2)
    text = "0" * (len(text) % 2) + text
    pairs = [text[place : place + 2] for place in range(0, len(text), 2)]
    return 1 + sign + len(pairs)


def size(value: Any) -> int:
    match value:
        case str():
            return len(value.encode())
        case bool() | None:
            return 1
        case Decimal():
            return number_size(value)
        case list():
            return 3 + sum(1 + size(each) for each in value)
        case _:
            return 3 + sum(1 + len(name.encode()) + size(each) for name, each in value.items())


def kind(value: Any) -> str:
    names = {str: "S", bool: "BOOL", type(None): "NULL", Decimal: "N", list: "L", dict: "M"}
    return names[type(value)]


def check(plan: dict[str, Any], items: list[dict[str, Any]], rejected: int) -> None:
    """Compare a plan with the items of the file's good rows. Raises `AssertionError`."""
    sizes = [sum(len(name.encode()) + size(v) for name, v in each.items()) for each in items]
    keys, hot = Counter(each["id"] for each in items), Counter(each["id"] for each in items)
    assert (plan["rows"]["good"], plan["rows"]["rejected"]) == (len(items), rejected)
    if not items:
        return
    found = plan["items"]
    assert (found["count"], found["bytes"]) == (len(items), sum(sizes))
    assert (found["smallest"], found["largest"]) == (min(sizes), max(sizes))
    assert plan["write_units"]["table"] == sum(-(-each // 1024) for each in sizes)
    assert plan["keys"]["distinct"] == plan["keys"]["partitions"] == len(keys)
    assert plan["keys"]["repeated"] == sum(count > 1 for count in keys.values())
    hottest = plan["keys"]["hottest"]
    assert (hottest["rows"] if hottest else 1) == max(hot.values())


def plan_of(data: bytes, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    # Several batches of rows.
    monkeypatch.setattr(planning, "SURVEY_READ_BYTES", 3000)
    world = World(data, options={"max_rejects": 10**6}, **options)
    return planning.make_plan(world.payload, world.context()).to_json()


@given(
    st.lists(st.tuples(TEXTS | st.just(""), NUMBERS | st.sampled_from(["", "none"]), TEXTS)),
    st.sampled_from(["\n", "\r\n"]),
)
def test_figures_of_csv(rows, line_end):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=line_end)
    writer.writerow(["id", "number", "größe"])
    writer.writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        plan = plan_of(out.getvalue().encode(), patch, types={"number": "N"})
    good = [row for row in rows if row[0] and row[1] != "none"]
    items: list[dict[str, Any]] = [
        {"id": key, **({"number": Decimal(number)} if number else {}), "größe": text}
        for key, number, text in good
    ]
    check(plan, items, len(rows) - len(good))
    for column, cells in zip(plan["columns"], zip(*rows, strict=True), strict=False):
        filled = [cell for cell in cells if cell]
        assert (column["filled"], column["empty"]) == (len(filled), len(cells) - len(filled))
        assert column["longest_bytes"] == max((len(cell.encode()) for cell in filled), default=0)


@given(st.lists(st.tuples(TEXTS, st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4))))
def test_figures_of_json_lines(rows):
    # A number without a key stands for a bad row.
    lines = [{"id": key, **members} for key, members in rows]
    for line in lines[::7]:
        del line["id"]
    text = "".join(json.dumps(line, default=lambda number: f"<{number}>") + "\n" for line in lines)
    text = text.replace('"<', "").replace('>"', "")
    with pytest.MonkeyPatch.context() as patch:
        plan = plan_of(text.encode(), patch, source={"format": "json"})
    items = [
        {name: value for name, value in line.items() if value is not None}
        for line in lines
        if "id" in line
    ]
    check(plan, items, len(lines) - len(items))
    types: dict[str, Counter[str]] = {}
    for item in items:
        for name, value in item.items():
            types.setdefault(name, Counter())[kind(value)] += 1
    assert [each["name"] for each in plan["columns"]] == list(types)
    for each in plan["columns"]:
        counts = types[each["name"]]
        mixed = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        why = f"mixed: {mixed}" if len(counts) > 1 else "in every row that has it"
        assert (each["inferred"]["why"], each["filled"]) == (why, counts.total())
        assert each["inferred"]["type"] in dict(counts.most_common(1)) or len(counts) > 1
