"""Whole imports in each mode, cut and taken up again, into tables where something is."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import position
from tests.fakes.client import read_timeout
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.world import TABLE, World, by_value

AT = "loaded at"
INSERT = {"mode": "insert"}
LAST_WINS = {"mode": "last-wins", "position_attribute": AT}
DELETE = {"mode": "delete"}
FILE = b"id,a\nk1,x\nk2,y\nk3,z\n"


def world(data: bytes, mode: dict[str, Any], **more: Any) -> World:
    return World(data, options={**mode, **more.pop("options", {})}, **more)


def there(world: World, **item: dict[str, Any]) -> None:
    world.dynamodb.put_item(TableName=TABLE, Item=item)


def s(text: str) -> dict[str, str]:
    return {"S": text}


def table(world: World) -> list[dict[str, Any]]:
    return sorted(({k: v for k, v in i.items() if k != AT} for i in world.items), key=repr)


def file(*rows: str) -> list[dict[str, Any]]:
    return [dict(zip(("id", "a"), map(s, row.split(",")), strict=True)) for row in rows]


def run(world: World) -> Report:
    report = world.run()
    assert report.rows.conserved
    return report


# insert


def test_insert_keeps_existing_items():
    it = world(FILE, INSERT)
    there(it, id=s("k1"), a=s("theirs"))
    there(it, id=s("k2"), a=s("y"))
    report = run(it)
    assert report.status == "SUCCEEDED"
    assert (report.rows, report.identical) == (RowCounts(read=3, written=1, skipped=2), 1)
    assert table(it) == file("k1,theirs", "k2,y", "k3,z")


def test_insert_keeps_first_row_of_key():
    it = world(b"id,a\nk1,x\nk1,y\nk2,z\nk1,x\nk1,w\n", INSERT)
    report = run(it)
    assert table(it) == file("k1,x", "k2,z")
    # The fourth row is what is there.
    assert (report.rows, report.identical) == (RowCounts(read=5, written=2, skipped=3), 1)


def test_insert_treats_equal_numbers_as_one_key():
    it = world(b"id,a\n1,1\n1.0,1.00\n1e0,2\n", INSERT, keys=[("id", "N")], types={"a": "N"})
    report = run(it)
    assert (report.rows, report.identical) == (RowCounts(read=3, written=1, skipped=2), 1)
    assert [by_value(item)["a"] for item in it.items] == [("N", 1)]


def test_insert_counts_row_as_written_when_answer_was_lost():
    it = world(FILE, INSERT)
    it.dynamodb.faults.add("put_item", *[Fault(raises=read_timeout(), landed=True)] * 3)
    assert run(it).rows == RowCounts(read=3, written=3)
    assert table(it) == file("k1,x", "k2,y", "k3,z")


def test_insert_counts_own_rows_when_resumed():
    it = world(FILE, INSERT, request_seconds=1.0)
    # Each invocation sends a row or two, and counts what was answered.
    assert it.run(1.5).rows == RowCounts(read=3, written=3)


def test_insert_writes_items_of_keys_only():
    it = world(b"id\nk1\nk2\nk1\n", INSERT)
    there(it, id=s("k2"), a=s("theirs"))
    report = run(it)
    # The third row finds the first one's item, which is like its own.
    assert (report.rows, report.identical) == (RowCounts(read=3, written=1, skipped=2), 1)


# last-wins


def test_last_wins_keeps_last_row_in_any_order_of_chunks():
    data = b"id,a\nk1,x\nk2,y\nk1,z\nk2,w\n"
    for backwards in (False, True):
        it = world(data, LAST_WINS, options={"chunk_bytes": 1})
        it.preflight()
        chunks = it.manifest
        assert len(chunks) == 4
        for chunk in reversed(chunks) if backwards else chunks:
            it.import_one(chunk)
        report = it.report()
        assert report.status == "SUCCEEDED"
        written = 2 if backwards else 4
        assert report.rows == RowCounts(read=4, written=written, superseded=4 - written)
        assert table(it) == file("k1,z", "k2,w")


def test_last_wins_stores_positions():
    it = world(FILE, LAST_WINS)
    run(it)
    started = it.ledger.record().created
    positions = {item["id"]["S"]: item[AT]["S"] for item in it.items}
    assert positions == {f"k{row + 1}": position(started, 5 + 5 * row) for row in range(3)}
    assert positions["k1"] == "1970-01-01T00:16:40.000000Z/0000000000000005"


@pytest.mark.parametrize("later_is_first", [True, False])
def test_last_wins_keeps_item_of_later_run(later_is_first):
    earlier = world(b"id,a\nk1,x\nk2,y\n", LAST_WINS)
    later = world(b"id,a\nk3,z\nk1,w\n", LAST_WINS)
    later.dynamodb = earlier.dynamodb
    earlier.preflight()
    later.clock.sleep(60)
    later.preflight()
    for it in (later, earlier) if later_is_first else (earlier, later):
        for chunk in it.manifest:
            it.import_one(chunk)
    assert table(earlier) == file("k1,w", "k2,y", "k3,z")
    kept_out = int(later_is_first)
    assert earlier.report().rows == RowCounts(read=2, written=2 - kept_out, superseded=kept_out)
    assert later.report().rows == RowCounts(read=2, written=2)


def test_last_wins_compares_beginnings_of_runs():
    earlier = world(FILE, LAST_WINS)
    later = world(b"id,a\nk1,w\n", LAST_WINS)
    later.dynamodb = earlier.dynamodb
    earlier.preflight()
    later.clock.sleep(60)
    run(later)
    earlier.clock.sleep(3600)
    # Its preflight again, as resume does it; its record keeps when it began.
    earlier.preflight()
    run(earlier)
    assert table(earlier) == file("k1,w", "k2,y", "k3,z")


def test_last_wins_replaces_item_without_position():
    it = world(FILE, LAST_WINS)
    there(it, id=s("k1"), a=s("theirs"))
    assert run(it).rows == RowCounts(read=3, written=3)
    assert table(it) == file("k1,x", "k2,y", "k3,z")


def test_last_wins_rejects_row_when_position_attribute_holds_other_value():
    it = world(FILE, LAST_WINS)
    it.dynamodb.put_item(TableName=TABLE, Item={"id": s("k2"), AT: {"N": "7"}})
    report = run(it)
    assert report.rows == RowCounts(read=3, written=2, rejected=1)
    (reject,) = it.rejects()
    assert (reject["line"], reject["cause"]) == (3, "foreign_position")
    assert AT in reject["detail"]
    assert reject["raw"] == "k2,y"
    assert {"id": s("k2"), AT: {"N": "7"}} in it.items


def test_last_wins_fails_when_too_many_rows_are_rejected():
    it = world(FILE, LAST_WINS, options={"max_rejects": 0})
    it.dynamodb.put_item(TableName=TABLE, Item={"id": s("k2"), AT: {"N": "7"}})
    it.preflight()
    with pytest.raises(errors.TooManyRejects):
        it.import_one(it.manifest[0])
    assert it.report().status == "FAILED"


def test_last_wins_counts_position_in_item_size():
    space = 400 * 1024 - len("idk1a") - len(AT) - len(position(0, 0))
    fits, not_quite = b"k1," + b"x" * space, b"k2," + b"x" * (space + 1)
    it = world(b"id,a\n" + fits + b"\n" + not_quite + b"\n", LAST_WINS)
    assert run(it).rows == RowCounts(read=2, written=1, rejected=1)
    (reject,) = it.rejects()
    assert reject["cause"] == "item_too_large"


def test_last_wins_rejects_have_same_causes_and_columns():
    data = b"id,a\nk1,7\nk2,x\nk3\n,8\nk5,\xff\n"
    it = world(data, LAST_WINS, types={"a": "N"})
    assert run(it).rows == RowCounts(read=5, written=1, rejected=4)
    assert [(each["cause"], each["column"]) for each in it.rejects()] == [
        ("not_a_number", "a"),
        ("field_count", None),
        ("empty_key", "id"),
        ("bad_encoding", "a"),
    ]
    assert it.rejects()[1]["detail"] == "1 fields; the file has 2 columns"


# delete


def test_delete_uses_keys_only():
    data = b"a,id,n\nx,k1,1\n,k2,not a number\nz,k4,\n"
    it = world(data, DELETE, types={"n": "N"})
    for key in ("k1", "k2", "k3"):
        there(it, id=s(key), a=s("theirs"))
    report = run(it)
    assert report.status == "SUCCEEDED"
    # DynamoDB does not say whether there was anything to delete.
    assert report.rows == RowCounts(read=3, written=3)
    assert [item["id"] for item in it.items] == [s("k3")]


def test_delete_uses_partition_and_sort_key():
    keys = [("id", "S"), ("sort", "N")]
    it = world(b"x,sort,id\n,1.0,k1\n,2,k1\n,1,k1\n", DELETE, keys=keys)
    for number in "123":
        there(it, id=s("k1"), sort={"N": number})
    report = run(it)
    assert report.rows == RowCounts(read=3, written=2, superseded=1)
    assert it.items == [{"id": s("k1"), "sort": {"N": "3"}}]


def test_delete_rejects_name_columns_of_file():
    it = world(b"x,id\n,1\n,one\n,\ny\n", DELETE, keys=[("id", "N")])
    assert run(it).rows == RowCounts(read=4, written=1, rejected=3)
    assert [(each["cause"], each["column"]) for each in it.rejects()] == [
        ("not_a_number", "id"),
        ("empty_key", "id"),
        ("field_count", None),
    ]


def test_delete_ignores_index_keys():
    it = world(b"id,x\nk1,\n", DELETE, indexes=[[("x", "B")]])
    there(it, id=s("k1"))
    assert run(it).rows == RowCounts(read=1, written=1)
    assert it.items == []


# Which mode


@pytest.mark.parametrize("mode", [INSERT, LAST_WINS, DELETE])
def test_run_cannot_resume_in_other_mode(mode):
    it = world(FILE, mode)
    it.preflight()
    it.options = {"engine": "sync"}
    with pytest.raises(errors.RunMismatch, match="began with another mode"):
        it.preflight()


def test_run_cannot_resume_with_other_position_attribute():
    it = world(FILE, LAST_WINS)
    it.preflight()
    it.options = {"engine": "sync", **LAST_WINS, "position_attribute": "other"}
    with pytest.raises(errors.RunMismatch, match="began with another position attribute;"):
        it.preflight()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("id", "is a column of the file"),
        ("a", "is a column of the file"),
        ("i", "is a key attribute of table books or of one of its indexes"),
        ("é" * 32768, "is longer than an attribute's name may be"),
    ],
)
def test_preflight_refuses_invalid_position_attribute(name, words):
    it = World(FILE, indexes=[[("i", "S")]], options={**LAST_WINS, "position_attribute": name})
    with pytest.raises(errors.InvalidPayload, match=r"'options\.position_attribute'") as raised:
        it.preflight()
    assert words in raised.value.message
    assert it.beyond_request == {}
