"""Counts, positions and refusals of each mode over whole imports."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import position
from tests.fakes.client import read_timeout
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.world import TABLE, World

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


def test_insert_counts_row_as_written_when_answer_was_lost():
    it = world(FILE, INSERT)
    it.dynamodb.faults.add("put_item", *[Fault(raises=read_timeout(), landed=True)] * 3)
    assert run(it).rows == RowCounts(read=3, written=3)
    assert table(it) == file("k1,x", "k2,y", "k3,z")


# last-wins


def test_last_wins_stores_positions():
    it = world(FILE, LAST_WINS)
    run(it)
    started = it.ledger.record().created
    positions = {item["id"]["S"]: item[AT]["S"] for item in it.items}
    assert positions == {f"k{row + 1}": position(started, 5 + 5 * row) for row in range(3)}
    assert positions["k1"] == "1970-01-01T00:16:40.000000Z/0000000000000005"


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


def test_last_wins_counts_position_in_item_size():
    space = 400 * 1024 - len("idk1a") - len(AT) - len(position(0, 0))
    fits, not_quite = b"k1," + b"x" * space, b"k2," + b"x" * (space + 1)
    it = world(b"id,a\n" + fits + b"\n" + not_quite + b"\n", LAST_WINS)
    assert run(it).rows == RowCounts(read=2, written=1, rejected=1)
    (reject,) = it.rejects()
    assert reject["cause"] == "item_too_large"


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


# Which mode


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
