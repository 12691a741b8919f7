"""JSON that is not one object a line, in chunks, and chunks in many invocations."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.source import ARRAY, OBJECT, VALUES
from tests.unit.steps.world import World
from tests.unit.steps.worlds import ManyObjects

ROWS = [
    {"id": f"{number}", "s": '] }, {"é\U0001f600\\"' * (number % 4), "n": {"a": [number, {}]}}
    for number in range(40)
]
ARRAY_TEXT = json.dumps(ROWS, ensure_ascii=False)
TEXTS = {
    "array": (ARRAY, ARRAY_TEXT),
    "indented": (ARRAY, json.dumps(ROWS, indent=3).replace("\n", "\r\n")),
    "page": (OBJECT, json.dumps({"Count": 40, "Items": ROWS, "LastEvaluatedKey": {"id": "9"}})),
    "values": (VALUES, "\n\n".join(json.dumps(row, indent=1) for row in ROWS)),
}
SMALL = {"chunk_bytes": 1, "workers": 4}


JSON_SOURCE = {"format": "json", "compression": "auto"}


def loaded(data: bytes, **options: Any) -> World:
    world = World(data, source=JSON_SOURCE, options=options)
    report = world.run()
    assert report.status == "SUCCEEDED"
    assert report.rows.read == report.rows.written == len(ROWS)
    return world


def by_id(world: World) -> list[Any]:
    return sorted(world.items, key=lambda item: item["id"]["S"])


@pytest.fixture(scope="module")
def items() -> list[Any]:
    return by_id(loaded("\n".join(map(json.dumps, ROWS)).encode()))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("scan", ["whole", "edges"])
def test_chunks_of_any_layout_hold_each_value_once(
    monkeypatch: pytest.MonkeyPatch, items: list[Any], name: str, packed: bool, scan: str
) -> None:
    monkeypatch.setattr("ddbload.contracts.run_record.INDEX_BYTES", 0)
    layout, text = TEXTS[name]
    data = gzip.compress(text.encode(), 1) if packed else text.encode()
    world = loaded(data, scan=scan, **SMALL)
    assert by_id(world) == items
    assert world.ledger.record().payload.source.layout == layout
    assert len(world.manifest) == (1 if packed else len(ROWS))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
def test_invocations_go_on_between_values(items: list[Any], name: str, packed: bool) -> None:
    data = TEXTS[name][1].encode()
    world = World(
        gzip.compress(data, 1) if packed else data,
        source=JSON_SOURCE,
        options={"concurrency": 1, "max_row_bytes": 300},
        request_seconds=1.0,
    )
    world.preflight(0.0)
    count = sum(world.import_one(chunk, seconds=0.5) for chunk in world.manifest)
    report = world.report()
    assert (report.status, report.rows.read, report.rows.written) == ("SUCCEEDED", 40, 40)
    assert by_id(world) == items
    assert count > 1


def test_broken_array_that_preflight_did_not_read_fails_the_run() -> None:
    data = gzip.compress(ARRAY_TEXT[:-1].encode(), 1)
    world = World(data, source=JSON_SOURCE, options={"scan": "edges"})
    world.preflight()
    (chunk,) = world.manifest
    with pytest.raises(errors.InvalidJson, match="not closed"):
        world.import_one(chunk)
    assert world.report().status == "FAILED"


def test_objects_of_one_layout_are_one_run(items: list[Any]) -> None:
    tens = (ROWS[begin : begin + 10] for begin in range(0, 40, 10))
    parts = [json.dumps({"Items": ten}).encode() for ten in tens]
    files = {f"{number}.json": part for number, part in enumerate(parts)}
    files |= {"e.json": b'{"Items": []}', "f.json": b""}
    for options in (SMALL, {"chunk_bytes": 1, "scan": "edges"}, {}):
        world = ManyObjects(files=files, source=JSON_SOURCE, options=options)
        assert world.run().rows.written == len(ROWS)
        assert by_id(world) == items
    files["g.json"] = ARRAY_TEXT.encode()
    world = ManyObjects(files=files, source=JSON_SOURCE)
    with pytest.raises(errors.UnsupportedFormat, match=r"many/g\.json: byte 0: .* themselves"):
        world.preflight()


def test_scan_with_more_items_is_warned_of() -> None:
    world = World(TEXTS["page"][1].encode(), source=JSON_SOURCE)
    context, notices = world.context(), []
    context.notice = notices.append
    world.preflight_step(None, context)
    assert len(notices) == 1
    assert notices[0].startswith("s3://bucket/in/file.csv: LastEvaluatedKey says that")
    assert "incomplete_scan" in notices[0]
