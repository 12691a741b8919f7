"""Tests of messages: they survive JSON, and wrong fields are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk, ObjectSlice, PreflightCursor, SeekPoint
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import Failure, Heartbeat, Report, Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import Cursor, RunRecord, Table
from ddbload.contracts.source import Source
from ddbload.errors import InvalidPayload
from tests.unit.contracts.message_samples import PAYLOAD, RECORD, REPORT, SEGMENT, SOURCE, TABLE

INPUT: dict[str, Any] = {
    "run": {"id": None, "resume_of": None, "force": False},
    "source": {
        "bucket": "b",
        "key": "in/books.csv",
        "version_id": None,
        "etag": None,
        "format": "csv",
        "delimiter": ",",
        "quote": '"',
        "escape": None,
        "comment": None,
        "skip_lines": 0,
        "header": True,
        "columns": None,
        "encoding": "utf-8",
        "compression": "auto",
        "max_expansion": 200,
    },
    "target": {"table": "books"},
    "types": {"book_id": "N"},
    "infer_types": False,
    "mapping": {"rename": {}, "drop": [], "set": {}},
    "nulls": {"policy": "omit", "markers": []},
    "options": {
        "mode": "put",
        "position_attribute": None,
        "engine": "async",
        "workers": "auto",
        "concurrency": 16,
        "chunk_bytes": 16777216,
        "max_wcu": None,
        "max_rejects": 1000,
        "max_row_bytes": None,
    },
}
MESSAGES: list[tuple[Any, Callable[[object], Any]]] = [
    (Cursor(5, 2), Cursor.from_json),
    (SOURCE, Source.from_json),
    (Source(path="a.csv", columns=("a",)), Source.from_json),
    (Options(), Options.from_json),
    (PAYLOAD, Payload.from_json),
    (TABLE, Table.from_json),
    (RECORD, RunRecord.from_json),
    (Chunk(0, 3, 90, 2), Chunk.from_json),
    (RowCounts(15, 1, 2, 4, 8), RowCounts.from_json),
    (WriteStats(1, 2, 3, 4.5), WriteStats.from_json),
    (SEGMENT, Segment.from_json),
    (replace(SEGMENT, identical=0), Segment.from_json),
    (PreflightCursor(9, 2, 1), PreflightCursor.from_json),
    (Failure("RowTooLong", "so", 3), Failure.from_json),
    (Failure("RowTooLong", "so"), Failure.from_json),
    (REPORT, Report.from_json),
    (replace(REPORT, identical=7), Report.from_json),
    (replace(REPORT, error=None, failures=()), Report.from_json),
    (ObjectSlice({"etag": "e"}, 0, 3, 1, 90), ObjectSlice.from_json),
    (SeekPoint(1000, 3000, 3, 255, 2**32 - 1, 500, b"window", 2000), SeekPoint.from_json),
    (
        Heartbeat("running", "import", "host", "", 1, 2.5, 5.0, RowCounts(1, 1), 9, 90),
        Heartbeat.from_json,
    ),
]
each_message = pytest.mark.parametrize(
    ("message", "read"), MESSAGES, ids=[type(message).__name__ for message, _ in MESSAGES]
)


def _changed(value: object, change: Callable[[dict[str, Any], str], None]) -> Iterator[Any]:
    """Yield copies of `value`, each with `change` applied to another field."""
    whole = json.dumps(value)

    def visit(path: list[Any], at: object) -> Iterator[Any]:
        if isinstance(at, dict):
            for name in at:
                copy = inner = json.loads(whole)
                for step in path:
                    inner = inner[step]
                change(inner, name)
                yield copy
        steps = (
            at.items() if isinstance(at, dict) else enumerate(at if isinstance(at, list) else [])
        )
        for step, below in steps:
            # These two have no fixed field names.
            if step not in ("types", "pinned"):
                yield from visit([*path, step], below)

    yield from visit([], json.loads(whole))


@each_message
def test_message_survives_json(message: Any, read: Callable[[object], Any]) -> None:
    assert read(json.loads(json.dumps(message.to_json()))) == message


@each_message
def test_unknown_field_is_refused_at_any_depth(message: Any, read: Callable[[object], Any]) -> None:
    def add(inner: dict[str, Any], _: str) -> None:
        inner["surprise"] = 1

    for changed in _changed(message.to_json(), add):
        with pytest.raises(InvalidPayload, match=r"unknown field '.*surprise'.*; known here: "):
            read(changed)


@each_message
@pytest.mark.parametrize("wrong", [{"a": {}}, [[]], [1]], ids=["object", "list", "numbers"])
def test_wrong_type_is_refused_at_any_depth(
    message: Any, read: Callable[[object], Any], wrong: object
) -> None:
    def spoil(inner: dict[str, Any], name: str) -> None:
        # This object may have any fields.
        inner[name] = [wrong] if name == "pinned" else wrong

    for changed in _changed(message.to_json(), spoil):
        with pytest.raises(InvalidPayload):
            read(changed)


@each_message
@pytest.mark.parametrize("wrong", [None, True, 1, 1.5, "text", []])
def test_message_must_be_an_object(
    message: Any, read: Callable[[object], Any], wrong: object
) -> None:
    with pytest.raises(InvalidPayload, match="must be a JSON object, not "):
        read(wrong)


def _input(**changes: Any) -> dict[str, Any]:
    """Return the input with fields set by path, such as `source__key`; ABSENT removes one."""
    value: dict[str, Any] = json.loads(json.dumps(INPUT))
    for path, new in changes.items():
        *outer, name = path.split("__")
        inner = value
        for step in outer:
            inner = inner[step]
        if new is ABSENT:
            del inner[name]
        else:
            inner[name] = new
    return value


ABSENT = object()


def test_minimal_input_equals_the_written_defaults() -> None:
    least = {"source": {"bucket": "b", "key": "in/books.csv"}, "target": {"table": "books"}}
    whole = Payload.from_json(INPUT)
    assert Payload.from_json(least) == replace(whole, types={})
    assert whole == Payload(Source(bucket="b", key="in/books.csv"), "books", {"book_id": "N"})
    assert whole.to_json() == INPUT


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"source__format": "tsv", "source__delimiter": ABSENT}, {"delimiter": "\t"}),
        ({"source__format": "tsv", "source__delimiter": "|"}, {"delimiter": "|"}),
        ({"source__quote": None}, {"quote": None}),
        ({"source__quote": ""}, {"quote": None}),
        ({"source__quote": ABSENT}, {"quote": '"'}),
        ({"source__columns": ["a"], "source__header": ABSENT}, {"header": False}),
        ({"source__columns": ["a"], "source__header": True}, {"header": True}),
        ({"source__header": ABSENT}, {"header": True}),
        ({"source__encoding": "UTF8"}, {"encoding": "utf-8"}),
        ({"source__encoding": "utf_8_sig"}, {"encoding": "utf-8"}),
    ],
)
def test_source_defaults_depend_on_other_fields(
    changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    source = Payload.from_json(_input(**changes)).source
    assert {name: getattr(source, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sauce": 1},
            "unknown field 'sauce' (did you mean 'source'?); known here: add, chunk_bytes, ",
        ),
        ({"source": ABSENT}, "'source' is missing"),
        ({"target": ABSENT, "table": "t"}, "'target' is missing: write 'table' within it"),
        ({"source__bucket": ABSENT}, "'source.bucket' is missing"),
        ({"source__key": ""}, "'source.key' must be a string that is not empty, not \"\""),
        (
            {"source__format": "xml"},
            "'source.format' must be one of csv, tsv, json, ",
        ),
        ({"source__header": "yes"}, "'source.header' must be true or false, not \"yes\""),
        ({"source__columns": []}, "'source.columns' must be a list of at least one name, not []"),
        ({"source__path": "a.csv"}, "'source.key' and 'source.path' are two sources; give one"),
        ({"source__prefix": "in/"}, "'source.key' and 'source.prefix' are two sources; give one"),
        ({"source__key": None}, "'source.key' is missing"),
        ({"mapping": {"keep": []}}, "unknown field 'mapping.keep'; known here: drop, rename, set"),
        ({"nulls": {"policy": "zero"}}, "'nulls.policy' must be one of omit, null, empty, reject"),
        ({"target__table": "no such"}, "'target.table' must be "),
        ({"target__index": "i"}, "unknown field 'target.index'; known here: table"),
        ({"types__year": "I"}, "'types.year' must be one of S, N, BOOL, B, SS,"),
        ({"options__mode": "upsert"}, "'options.mode' must be one of "),
        (
            {"options__mode": "last-wins"},
            "'options.position_attribute' is missing: mode last-wins ",
        ),
        (
            {"options__position_attribute": "at"},
            "'options.position_attribute' is for mode last-wins, and the mode is put",
        ),
        ({"options__on_empty": "drop"}, "'options.on_empty' must be one of keep, remove"),
        (
            {"options__on_empty": "keep"},
            "'options.on_empty' is for mode update, and the mode is put",
        ),
        ({"options__only_existing": True}, "'options.only_existing' is for mode update, and "),
        (
            {"options__mode": "insert", "options__condition": "x = {year}"},
            "'options.condition' is for mode put, update, delete, and the mode is insert, which",
        ),
        ({"options__condition": "x = :y"}, "'options.condition' has a ':': values come from "),
        (
            {
                "options__mode": "update",
                "options__on_empty": "remove",
                "nulls": {"policy": "null", "markers": []},
            },
            "'options.on_empty' is remove, and 'nulls.policy' is null",
        ),
        (
            {"options__workers": 0},
            "'options.workers' must be a whole number from 1 to 10000, or 'auto', not 0",
        ),
        ({"options__max_rejects": -1}, "'options.max_rejects' must be a whole number at least 0"),
        ({"options__max_wcu": 0.5}, "'options.max_wcu' must be a number of at least 1, not 0.5"),
        ({"options__max_wcu": "101%"}, "'options.max_wcu' must be a number, or a share of the"),
        ({"options__max_cost": 0}, "'options.max_cost' must be a number above 0, not 0"),
        ({"options__unit_price": -1}, "'options.unit_price' must be a number of at least 0"),
        ({"run__id": "../../etc"}, "a run id has 1 to 80 letters"),
        ({"run__once": True, "run__force": True}, "'run.once' refuses what was loaded before"),
        ({"run__retry_of": "../etc"}, "a run id has 1 to 80 letters"),
        ({"run__resume_of": "earlier"}, "'run.resume_of' is for the deployed state machine"),
    ],
)
def test_input_error_names_the_path(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Payload.from_json(_input(**changes))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("text", ["", ".", "..", "-a", "_a", "a/b", "a b", "a\n", "é", "a" * 81])
def test_run_id_is_refused_when_unsafe_as_a_folder_name(text: str) -> None:
    with pytest.raises(InvalidPayload):
        check_run_id(text)


@pytest.mark.parametrize("version", [None, 2, 4, "3"])
def test_record_is_refused_when_its_ledger_has_another_version(version: Any) -> None:
    value = json.loads(json.dumps(RECORD.to_json()))
    with pytest.raises(InvalidPayload, match=r"ledger_version"):
        RunRecord.from_json({**value, "ledger_version": version})
