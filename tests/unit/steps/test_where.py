"""Rows that `where` leaves out, and columns that a template filters, over a whole import."""

from __future__ import annotations

import json
import logging
import traceback
from decimal import Decimal
from typing import Any

import pytest

from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import ALL_FILTERED
from ddbload.errors import DdbloadError, InvalidPayload, RunMismatch, UnknownColumn
from ddbload.steps import row_feeder
from tests.unit.steps.expected import counted
from tests.unit.steps.generated import Sizes
from tests.unit.steps.world import World

KEY = "DDBLOAD_HMAC_KEY"


def world_of(text: str, where: list[Any] | None = None, **more: Any) -> World:
    fields = {"where": where} if where is not None else {}
    mapping = more.pop("mapping", None)
    if mapping is not None:
        fields["mapping"] = mapping
    options = {"max_rejects": 1000, **more.pop("options", {})}
    return World(text.encode(), more=fields, options=options, **more)


def ids(world: World) -> list[str]:
    return sorted(item["id"]["S"] for item in world.items)


def outcome(report: Report) -> tuple[int, int, int, int]:
    rows = report.rows
    assert rows.conserved
    return rows.read, rows.written, rows.rejected, rows.filtered


def test_columns_are_those_of_the_source():
    text = "id,year,kind\na,1999,x\nb,2000,x\nc,2001,y\n"
    mapping = {"rename": {"kind": "sort"}, "drop": ["year"], "set": {}}
    world = world_of(text, ["year>=2000", "kind=x"], types={"year": "N"}, mapping=mapping)
    assert outcome(world.run()) == (3, 1, 0, 2)
    assert world.items == [{"id": {"S": "b"}, "sort": {"S": "x"}}]


@pytest.mark.parametrize("text", ["id,n\n" + "k,5\n" * 500, "id,n\n" + "k,x\nk,5\n" * 9])
def test_source_without_a_row_that_matches_succeeds_with_a_warning(monkeypatch, text):
    # Many reads without a row to offer.
    monkeypatch.setattr(row_feeder, "READ_AHEAD_BYTES", 10)
    world = world_of(text, ["id=none"], options={"chunk_bytes": 1000})
    with Sizes(10, 2**23, 2, 5, 1)():
        report = world.run()
    assert report.status == "SUCCEEDED"
    assert report.rows.filtered == report.rows.read == text.count("\n") - 1
    assert report.rows.warning == ALL_FILTERED
    assert world.items == []
    assert report.work.requests == 0
    assert all(segment.proven for segment in counted(world))


def test_segment_counts_filtered_and_rejected_rows_before_its_end_only():
    text = "id,n\n" + "".join(f"k{n},{'x' if n % 3 == 2 else n % 2}\n" for n in range(30))
    world = world_of(text, ["n=1"], types={"n": "N"}, request_seconds=1.0)
    with Sizes(2**20, 2**23, 1, 2000, 2000)():
        assert outcome(world.run(2.5)) == (30, 10, 10, 10)
    assert [segment.rows.filtered for segment in counted(world)] == [3, 4, 2, 1]


@pytest.mark.parametrize(
    ("where", "types", "error", "words"),
    [
        ("yaer>=2000", {}, UnknownColumn, "'year' is one"),
        ("year>=2000", {}, InvalidPayload, "--types year=N"),
        ("year>=new", {"year": "N"}, InvalidPayload, "not a number"),
        ("year<yes", {"year": "BOOL"}, InvalidPayload, "and BOOL with = and !="),
        ("year=x", {"year": "M"}, InvalidPayload, "of type M: S and N can be compared"),
        ({"column": "year", "op": "~", "value": "1"}, {}, InvalidPayload, "where"),
        ({"column": "year", "op": "<", "value": ""}, {}, InvalidPayload, "no value"),
    ],
)
def test_comparison_without_sense_is_refused_before_anything_is_written(where, types, error, words):
    world = world_of("id,year\na,1\n", [where], types=types)
    with pytest.raises(error, match="(?s)" + words.replace("(", r"\(")) as caught:
        world.run()
    assert world.in_ledger() == [] or "run.json" not in world.in_ledger()
    assert caught.value.permanent


def test_types_of_json_rows_decide_and_others_are_rejected():
    lines = [
        {"id": "a", "n": Decimal(5)}, {"id": "b", "n": "5"}, {"id": "c"}, {"id": "d", "n": None},
        {"id": "e", "n": [1]}, {"id": "f", "n": Decimal(4)}, {"id": "g", "n": ""},
    ]  # fmt: skip
    text = "".join(json.dumps(line, default=int) + "\n" for line in lines)
    world = world_of(text, ["n>=5"], source={"format": "json"})
    assert outcome(world.run()) == (7, 1, 2, 4)
    assert [(line["line"], line["column"]) for line in world.rejects()] == [(2, "n"), (5, "n")]
    assert ids(world) == ["a"]
    declared = world_of(text, ["n>=5"], source={"format": "json"}, types={"n": "N"})
    assert outcome(declared.run()) == (7, 2, 1, 4)
    assert ids(declared) == ["a", "b"]


# Filters in templates


def composed(template: str, cells: list[str], header: str = "id,name") -> list[str | None]:
    text = header + "\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells))
    world = world_of(text, mapping={"rename": {}, "drop": [], "set": {"made": template}})
    world.run()
    items = sorted(world.items, key=lambda item: int(item["id"]["S"]))
    return [item.get("made", {}).get("S") for item in items]


def test_filters_follow_python_rules_for_unicode():
    cells = ["  Ä b ", "STRASSE", "", "   ", "İ"]
    assert composed("<{name|trim|lower}>", cells) == ["<ä b>", "<strasse>", None, None, "<i̇>"]
    assert composed("{name|upper}", ["straße"]) == ["STRASSE"]


@pytest.mark.parametrize(
    ("key", "text", "digest"),
    [
        # RFC 4231, test cases 2 and 6.
        (b"Jefe", "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (b"k" * 3, "é", None),
    ],
)  # fmt: skip
def test_hmac_is_that_of_the_rfc(monkeypatch, key, text, digest):
    import hashlib
    import hmac

    monkeypatch.setenv(KEY, key.decode())
    wanted = digest or hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    assert composed("{name|hmac}", [text]) == [wanted]


CANARY = "cAnArY-hMaC-kEy-0815"


def test_hmac_key_is_nowhere_but_in_the_environment(monkeypatch, caplog):
    monkeypatch.setenv(KEY, CANARY)
    mapping = {"rename": {}, "drop": [], "set": {"id": "{name|hmac}"}}
    world = world_of("name\na\nb\n\xff\n", mapping=mapping)
    with caplog.at_level(logging.DEBUG):
        report = world.run()
    assert len(world.items) == report.rows.written == 3
    said = [caplog.text, repr(world.ledger.record()), repr(report), repr(world.__dict__)]
    said += [repr(found) for found in world.store.objects.items()]
    said += [repr(item) for item in world.items]
    monkeypatch.setenv(KEY, "another")
    with pytest.raises(RunMismatch, match=KEY) as caught:
        world.preflight()
    said += traceback.format_exception(caught.value)
    assert not [text for text in said if CANARY in text]


def test_key_is_asked_for_before_anything_is_written(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    mapping = {"rename": {}, "drop": [], "set": {"id": "{name|hmac}"}}
    world = world_of("name\na\n", mapping=mapping)
    with pytest.raises(DdbloadError, match=f"{KEY} is not set"):
        world.run()
    assert world.beyond_request == {}
    monkeypatch.setenv(KEY, "one")
    world.run()
    # The same key takes the run up.
    assert world.preflight().chunks == 1
