"""DynamoDB's own exports, full and incremental, into a table that exists."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from ddbload import errors
from tests.fakes.dynamodb_faults import nothing_processed
from tests.unit.steps.exports import exported
from tests.unit.steps.world import BUCKET, TABLE
from tests.unit.steps.worlds import ManyObjects


def change(key: str, new: str | None) -> dict[str, Any]:
    """A line of an incremental export."""
    line: dict[str, Any] = {
        "Metadata": {"WriteTimestampMicros": {"N": "1680109764000000"}},
        "Keys": {"id": {"S": key}},
    }
    return line if new is None else {**line, "NewImage": {"id": {"S": key}, "a": {"S": new}}}


PLACE = {"prefix": "many/AWSDynamoDB/01/", "format": "auto"}


@pytest.mark.parametrize("engine", ["sync", "threads"])
def test_incremental_export_updates_table_of_full_export(engine):
    items = [{"Item": {"id": {"S": f"{n}"}, "a": {"N": "1.10"}}} for n in range(30)]
    world = ManyObjects(files=exported(items), source=PLACE, options={"engine": engine})
    assert world.run().rows.written == 30
    later = [change("0", None), change("1", "new"), change("99", None), change("new", "x")]
    files = exported(later, incremental=True)
    second = ManyObjects(files=files, source=PLACE, options={"engine": engine})
    second.dynamodb = world.dynamodb
    report = second.run()
    assert (report.rows.read, report.rows.written, report.status) == (4, 4, "SUCCEEDED")
    found = {item["id"]["S"]: item.get("a") for item in world.items}
    assert len(found) == 30
    assert "0" not in found
    assert (found["1"], found["new"], found["2"]) == ({"S": "new"}, {"S": "x"}, {"N": "1.1"})


def test_unprocessed_deletions_are_sent_again():
    world = ManyObjects(
        files=exported([change(str(n), None) for n in range(5)], incremental=True), source=PLACE
    )
    for n in range(5):
        world.dynamodb.put_item(TableName=TABLE, Item={"id": {"S": str(n)}})
    world.dynamodb.faults.add("batch_write_item", nothing_processed())
    report = world.run()
    assert report.rows.written == 5
    assert report.work.retries > 0
    assert world.items == []


@pytest.mark.parametrize("mode", ["insert", "last-wins"])
def test_conditional_modes_reject_deletions(mode):
    options = {"mode": mode, **({"position_attribute": "at"} if mode == "last-wins" else {})}
    files = exported([change("1", None), change("2", "x")], incremental=True)
    world = ManyObjects(files=files, source=PLACE, options=options)
    assert world.run().rows.written == 1
    (reject,) = world.rejects()
    assert reject["cause"] == "deletion"


def test_file_with_fewer_items_than_exported_is_refused_before_any_write():
    files = exported([{"Item": {"id": {"S": "1"}}}], items=2)
    world = ManyObjects(files=files, source=PLACE)
    with pytest.raises(errors.DamagedExport, match="has 1 items, and 2 were exported"):
        world.preflight()
    assert world.items == []


def test_incomplete_export_is_refused():
    files = exported([{"Item": {"id": {"S": "1"}}}])
    del files["AWSDynamoDB/01/manifest-summary.json"]
    world = ManyObjects(files=files, source={**PLACE, "format": "dynamodb-export"})
    with pytest.raises(errors.DamagedExport, match=r"has no manifest-summary\.json"):
        world.preflight()


def test_copied_export_is_read_anywhere():
    world = ManyObjects(files=exported([{"Item": {"id": {"S": "1"}}}]), source=PLACE)
    data = world.s3.get_object(Bucket=BUCKET, Key="many/AWSDynamoDB/01/data/x.json.gz")
    assert gzip.decompress(data["Body"].read()).startswith(b'{"Item"')
    assert world.run().rows.written == 1
