"""Mode `update`, and conditions of users: what is in the table, and how rows are counted."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.rows import blocks
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.client import read_timeout
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.chaos import Chaos, Event, Plan
from tests.unit.steps.world import TABLE, World

UPDATE = {"mode": "update"}
NEWER = "attribute_not_exists(id) OR v < {v}"
LOST = Fault(raises=read_timeout(), landed=True)


def s(text: str) -> dict[str, str]:
    return {"S": text}


def n(text: str) -> dict[str, str]:
    return {"N": text}


def there(world: World, **item: dict[str, Any]) -> None:
    world.dynamodb.put_item(TableName=TABLE, Item=item)


def run(world: World) -> Report:
    report = world.run()
    assert report.rows.conserved
    assert world.dynamodb.overlaps == []
    return report


def calls(world: World, *operations: str) -> int:
    return sum(call.operation in operations for call in world.dynamodb.calls)


# Updates.


def test_only_existing_items_are_updated():
    it = World(b"id,a\nk1,x\nk2,y\n", options={**UPDATE, "only_existing": True})
    there(it, id=s("k1"), b=s("kept"))
    # The second answer is lost: nothing was written, and nothing is there.
    it.dynamodb.faults.add("update_item", LOST, Fault(raises=read_timeout()))
    assert run(it).rows == RowCounts(read=2, written=1, skipped=1)
    assert it.items == [{"id": s("k1"), "a": s("x"), "b": s("kept")}]


# Conditions.

MODES = ("put", "update", "delete")


def world(mode: str, condition: str = NEWER, data: bytes = b"", **more: Any) -> World:
    data = data or b"id,v,a\nk1,5,x\nk2,5,y\nk3,5,z\n"
    options = {"mode": mode, "condition": condition, **more.pop("options", {})}
    return World(data, types={"v": "N"}, options=options, **more)


@pytest.mark.parametrize("mode", MODES)
def test_rows_with_a_false_condition_are_skipped_and_billed(mode):
    it = world(mode)
    there(it, id=s("k1"), v=n("4"), b=s("old"))
    there(it, id=s("k2"), v=n("6"), b={"B": b"x" * 3000})
    report = run(it)
    assert report.rows == RowCounts(read=3, written=2, skipped=1)
    items = {item["id"]["S"]: item for item in it.items}
    assert items["k2"]["v"] == n("6")
    # The item that was kept takes three units.
    assert report.work.consumed_wcu == 3 + 1 + 1
    wanted: dict[str, Any] = {
        "put": {"id": s("k1"), "v": n("5"), "a": s("x")},
        "update": {"id": s("k1"), "v": n("5"), "a": s("x"), "b": s("old")},
        "delete": None,
    }
    assert items.get("k1") == wanted[mode]
    assert ("k3" in items) is (mode != "delete")


@pytest.mark.parametrize("mode", MODES)
def test_lost_answer_to_own_write_counts_as_written(mode):
    it = world(mode, "attribute_exists(id) AND v < {v}" if mode == "delete" else NEWER)
    for key in ("k1", "k2", "k3"):
        there(it, id=s(key), v=n("1"))
    it.dynamodb.faults.add("update_item", LOST, LOST)
    it.dynamodb.faults.add("delete_item", LOST, LOST)
    it.dynamodb.faults.add("put_item", LOST, LOST)
    assert run(it).rows == RowCounts(read=3, written=3)


@pytest.fixture
def _small_steps(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 14)
    monkeypatch.setattr(Scheduler, "READY_ROWS", 2)


@pytest.mark.usefixtures("_small_steps")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE, Event.FAIL])
def test_own_writes_are_never_skipped_when_killed_at_any_moment(mode, event):
    happened = 0
    for moment in range(0, 60, 3):
        it = world(mode, "attribute_exists(id) AND v < {v}")
        for key in ("k1", "k2", "k3"):
            there(it, id=s(key), v=n("1"), b=s("kept"))
        how = 3 if event is Event.FAIL else 0
        plan = Plan(((moment, event, how),), backwards=False, spares_preflight=True)
        chaos = Chaos(it, plan)
        report = chaos.conclude()
        assert report.rows == RowCounts(read=3, written=3), moment
        assert len(it.items) == (0 if mode == "delete" else 3)
        happened += len(chaos.happened)
    assert happened >= 4


def test_dropped_columns_serve_the_condition_alone():
    it = world(
        "update",
        "#{a b} = {want}",
        b"id,want,c,v\nk1,1,x,\nk2,2,y,\n",
        more={"mapping": {"drop": ["want"]}},
    )
    there(it, **{"id": s("k1"), "a b": s("1")})
    there(it, **{"id": s("k2"), "a b": s("1")})
    assert run(it).rows == RowCounts(read=2, written=1, skipped=1)
    assert sorted(it.items, key=repr) == [
        {"id": s("k1"), "a b": s("1"), "c": s("x")},
        {"id": s("k2"), "a b": s("1")},
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("line_format", ["csv", "json"])
@pytest.mark.parametrize("empty", ["keep", "remove", "null"])
def test_row_without_a_value_for_the_condition_is_rejected(mode, line_format, empty):
    data = b"id,v,a\nk1,5,x\nk2,,y\n"
    source = {}
    if line_format == "json":
        source = {"format": "json"}
        data = b'{"id":"k1","v":5,"a":"x"}\n{"id":"k2","v":null,"a":"y"}\n{"id":"k3"}\n'
    more: dict[str, Any] = {"nulls": {"policy": "null"}} if empty == "null" else {}
    options = {"on_empty": "remove"} if empty == "remove" and mode == "update" else {}
    it = world(mode, data=data, source=source, options=options, more=more)
    report = run(it)
    rejected = 1 if line_format == "csv" else 2
    assert report.rows == RowCounts(read=1 + rejected, written=1, rejected=rejected)
    assert {(each["cause"], each["column"]) for each in it.rejects()} == {
        ("no_condition_value", "v")
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ["sync", "threads"])
@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("attribute_not_exists(id", "Syntax error"),
        ("nonsense(id, {a})", "function: nonsense"),
        ("status = {a}", "reserved keyword: status"),
        ("begins_with(a, {v})", "begins_with, operand type: N"),
    ],
)
def test_refused_condition_ends_the_run_after_one_request(mode, engine, condition, words):
    rows = b"".join(b"k%d,5,secret\n" % row for row in range(200))
    it = world(mode, condition, b"id,v,a\n" + rows, options={"engine": engine})
    it.preflight()
    (chunk,) = it.manifest
    with pytest.raises(errors.ConditionRefused, match=words) as raised:
        it.import_step(chunk)
    assert "secret" not in raised.value.message
    assert calls(it, "put_item", "update_item", "delete_item") == 1
    assert it.items == []


# Refused beforehand.


@pytest.mark.parametrize(
    ("options", "types", "error", "words"),
    [
        ({"add": ["a"]}, {"a": "N"}, errors.InvalidPayload, "is a number"),
        ({"add": ["a"]}, {"a": "epoch"}, errors.InvalidPayload, "is a number"),
        ({"add": ["a"]}, {}, errors.InvalidPayload, "declare --types a=SS"),
        ({"add": ["id"]}, {}, errors.InvalidPayload, "key attribute"),
        ({"add": ["x"]}, {}, errors.UnknownColumn, "'x'"),
        ({"condition": "v < {x}"}, {}, errors.UnknownColumn, "'x'"),
        ({"condition": "v < :v"}, {}, errors.InvalidPayload, "{column}"),
        ({"condition": "v < {a"}, {}, errors.InvalidPayload, "single"),
        ({"condition": "# = {a}"}, {}, errors.InvalidPayload, "#name"),
        ({"condition": " "}, {}, errors.InvalidPayload, "empty"),
        ({"condition": "a" * 4097}, {}, errors.InvalidPayload, "4097 bytes"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(options, types, error, words):
    it = World(b"id,a\nk,1\n", types=types, options={**UPDATE, **options})
    with pytest.raises(error, match=words.replace("{", r"\{")):
        it.preflight()
    assert calls(it, "put_item", "update_item") == 0


def test_too_many_columns_for_an_update_are_refused():
    names = ",".join(f"c{place}" for place in range(500))
    it = World(f"id,{names}\nk{',1' * 500}\n".encode(), options=UPDATE)
    with pytest.raises(errors.InvalidPayload, match="--drop"):
        it.preflight()


def test_condition_that_fits_some_rows_only_rejects_the_others():
    """DynamoDB's message quotes the bounds: it is for the rejects, not for an error."""
    data = b"id,v,a,b\nk1,1,z,a\nk2,1,a,z\n"
    it = world("put", "attribute_not_exists(id) OR id BETWEEN {a} AND {b}", data)
    report = run(it)
    assert report.rows == RowCounts(read=2, written=1, rejected=1)
    assert [each["cause"] for each in it.rejects()] == ["refused_by_dynamodb"]
