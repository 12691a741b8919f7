"""Mode `update`, and conditions of users: what is in the table, and how rows are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.rows import blocks
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.client import ServiceError, read_timeout
from tests.fakes.dynamodb_faults import Fault, fails
from tests.unit.steps.chaos import Chaos, Event, Killed, Plan
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


def test_update_sets_what_the_row_has_and_keeps_the_rest():
    it = World(b"id,a,b\nk1,x,\nk2,y,z\nk3,,\n", options=UPDATE)
    there(it, id=s("k1"), a=s("old"), b=s("kept"), c=s("kept"))
    assert run(it).rows == RowCounts(read=3, written=3)
    assert it.dynamodb.items(TABLE) != []
    assert sorted(it.items, key=lambda item: item["id"]["S"]) == [
        {"id": s("k1"), "a": s("x"), "b": s("kept"), "c": s("kept")},
        {"id": s("k2"), "a": s("y"), "b": s("z")},
        {"id": s("k3")},
    ]


@pytest.mark.parametrize("on_empty", [None, "keep", "remove"])
def test_empty_cells_keep_or_remove_the_attribute(on_empty):
    it = World(b"id,a,b\nk1,,x\n", options={**UPDATE, "on_empty": on_empty})
    there(it, id=s("k1"), a=s("old"), c=s("kept"))
    assert run(it).rows == RowCounts(read=1, written=1)
    kept = {} if on_empty == "remove" else {"a": s("old")}
    assert it.items == [{"id": s("k1"), "b": s("x"), "c": s("kept"), **kept}]


@pytest.mark.parametrize("line_format", ["json", "dynamodb-json"])
@pytest.mark.parametrize("on_empty", ["keep", "remove"])
@pytest.mark.parametrize("rows", [1, 6])
def test_json_members_are_set_and_nulls_kept_or_removed(line_format, on_empty, rows):
    if line_format == "json":
        values: dict[str, Any] = {"a": None, "b": [1, "%s"], "it's %": "é"}
    else:
        typed = {"b": {"L": [n("1"), s("%s")]}, "it's %": s("é")}
        values = {"a": {"NULL": True}, **typed}
    lines = [
        json.dumps({"id": f"k{row}" if line_format == "json" else s(f"k{row}"), **values})
        for row in range(rows)
    ]
    source = {"format": line_format, "key": "in/file.csv"}
    it = World("\n".join(lines).encode(), source=source, options={**UPDATE, "on_empty": on_empty})
    there(it, id=s("k0"), a=s("old"), c=s("kept"))
    assert run(it).rows == RowCounts(read=rows, written=rows)
    first = min(it.items, key=lambda item: item["id"]["S"])
    # In DynamoDB's own data a null is a value, unless the run removes what is empty.
    kept = s("old") if line_format == "json" else {"NULL": True}
    wanted = {} if on_empty == "remove" else {"a": kept}
    assert first == {
        "id": s("k0"),
        "b": {"L": [n("1"), s("%s")]},
        "it's %": s("é"),
        "c": s("kept"),
        **wanted,
    }


def test_removing_an_index_key_takes_the_item_out_of_the_index():
    it = World(
        b"id,g\nk1,\n",
        indexes=[[("g", "S")]],
        options={**UPDATE, "on_empty": "remove"},
    )
    there(it, id=s("k1"), g=s("old"))
    assert run(it).rows == RowCounts(read=1, written=1)
    assert it.items == [{"id": s("k1")}]


ONE_KEY = b"id,a,b\nk,1,\nk,,2\nj,5,\nk,3,\nk,,4\nk,9,\n"
FAULTS = [None, LOST, Fault(raises=ServiceError("SlowDown", 503))]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("merged", [True, False])
def test_rows_of_one_key_do_what_they_do_in_their_order(fault, merged):
    # A condition may be true for one of two rows only, so they are not merged.
    more = {} if merged else {"condition": "attribute_exists(id)"}
    it = World(ONE_KEY, types={"a": "N"}, options={**UPDATE, **more})
    there(it, id=s("j"))
    there(it, id=s("k"))
    if fault is not None:
        it.dynamodb.faults.add("update_item", fault, None, fault, fault)
    written = 2 if merged else 6
    assert run(it).rows == RowCounts(read=6, written=written, superseded=6 - written)
    values = [w.item for w in it.dynamodb.writes if w.item and w.item["id"] == s("k")]
    seen = [item["a"] for item in values if "a" in item]
    changes = [a for a, b in zip(seen, [None, *seen], strict=False) if a != b]
    assert changes == ([n("9")] if merged else [n("1"), n("3"), n("9")])
    assert {item["id"]["S"]: item for item in it.items} == {
        "j": {"id": s("j"), "a": n("5")},
        "k": {"id": s("k"), "a": n("9"), "b": s("4")},
    }


def test_sets_are_added_to_once_only():
    it = World(
        b'id,tags,nums\nk1,"[""b"",""c""]",[1]\nk2,"[""x""]",\nk1,"[""a""]",[2]\n',
        types={"tags": "SS", "nums": "NS"},
        options={**UPDATE, "add": ["tags", "nums"], "on_empty": "remove"},
    )
    there(it, id=s("k1"), tags={"SS": ["a", "b"]})
    there(it, id=s("k2"), nums={"NS": ["7"]})
    it.dynamodb.faults.add("update_item", LOST, LOST)
    assert run(it).rows == RowCounts(read=3, written=2, superseded=1)
    items = {item["id"]["S"]: item for item in it.items}
    assert sorted(items["k1"]["tags"]["SS"]) == ["a", "b", "c"]
    assert sorted(items["k1"]["nums"]["NS"]) == ["1", "2"]
    # Nothing is added for an empty cell, and nothing is removed.
    assert items["k2"] == {"id": s("k2"), "tags": {"SS": ["x"]}, "nums": {"NS": ["7"]}}


def test_json_lists_are_added_where_sets_are_declared():
    data = b'{"id":"k","tags":["b"]}\n{"id":"j","tags":null}\n{"id":"i","tags":"b"}\n'
    it = World(
        data,
        source={"format": "json"},
        types={"tags": "SS"},
        options={**UPDATE, "add": ["tags"]},
    )
    there(it, id=s("k"), tags={"SS": ["a"]})
    assert run(it).rows == RowCounts(read=3, written=2, rejected=1)
    assert [each["cause"] for each in it.rejects()] == ["bad_json"]
    assert {item["id"]["S"]: item.get("tags") for item in it.items} == {
        "k": {"SS": ["a", "b"]},
        "j": None,
    }


def test_typed_rows_add_sets_alone():
    data = b'{"id":{"S":"k"},"t":{"NS":["1"]}}\n{"id":{"S":"j"},"t":{"N":"1"}}\n'
    it = World(data, source={"format": "dynamodb-json"}, options={**UPDATE, "add": ["t"]})
    assert run(it).rows == RowCounts(read=2, written=1, rejected=1)
    assert [(each["cause"], each["column"]) for each in it.rejects()] == [("not_a_set", "t")]


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


@pytest.mark.parametrize("mode", MODES)
def test_lost_answer_to_a_false_condition_counts_as_skipped(mode):
    it = world(mode, "attribute_exists(id) AND v < {v}")
    for key in ("k1", "k2", "k3"):
        there(it, id=s(key), v=n("9"), a=s("theirs"))
    for operation in ("put_item", "update_item", "delete_item"):
        it.dynamodb.faults.add(operation, Fault(raises=read_timeout()), times=3)
    report = run(it)
    assert report.rows == RowCounts(read=3, skipped=3)
    assert len(it.items) == 3


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
        chaos.run()
        chaos.finish()
        report = it.report()
        assert report.rows == RowCounts(read=3, written=3), moment
        assert len(it.items) == (0 if mode == "delete" else 3)
        happened += len(chaos.happened)
    assert happened >= 4


def test_rows_of_one_key_are_conditioned_in_order():
    data = b"id,v,a\nk,2,x\nk,1,y\nk,3,z\n"
    it = world("put", data=data)
    assert run(it).rows == RowCounts(read=3, written=2, skipped=1)
    assert it.items == [{"id": s("k"), "v": n("3"), "a": s("z")}]


def test_lost_answer_to_a_later_row_of_a_key_counts_as_written():
    it = world("update", data=b"id,v,a\nk,1,x\nk,2,y\n")
    it.dynamodb.faults.add("update_item", None, LOST)
    assert run(it).rows == RowCounts(read=2, written=2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seconds", [1.5, 1000.0])
def test_rows_that_are_there_already_are_skipped(mode, seconds):
    """Equal items of somebody else are not this run's, wherever invocations end."""
    it = world(mode, "attribute_exists(id) AND v < {v}", request_seconds=1.0)
    if mode != "delete":
        for key, text in (("k1", "x"), ("k2", "y"), ("k3", "z")):
            there(it, id=s(key), v=n("5"), a=s(text))
    report = it.run(seconds)
    assert report.rows == RowCounts(read=3, skipped=3)
    assert report.identical is None


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


@pytest.mark.parametrize("source", [{}, {"format": "json"}])
def test_dropped_columns_do_not_count_in_the_size_of_the_item(source):
    row = {"id": "k", "v": 1, "b": "x" * 404_000, "a": "y" * 6_000}
    data = json.dumps(row) if source else ",".join(row) + "\n" + ",".join(map(str, row.values()))
    more = {"mapping": {"drop": ["a"]}}
    it = world("put", "b <> {a}", data.encode(), source=source, more=more)
    assert run(it).rows == RowCounts(read=1, written=1)


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


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("attribute_not_exists(id) OR attribute_type(a, {a})", ["N", "secret"]),
        ("attribute_not_exists(id) OR begins_with(a, {a})", ["N", 5]),
    ],
)
def test_value_that_a_function_does_not_take_rejects_its_row(condition, rows):
    """It comes first, so that it might be taken for a fault of the condition."""
    lines = [{"id": f"k{place}", "a": value} for place, value in enumerate(reversed(rows))]
    data = "\n".join(map(json.dumps, lines)).encode()
    it = world("put", condition, data, source={"format": "json"})
    assert run(it).rows == RowCounts(read=2, written=1, rejected=1)


def test_condition_that_fits_some_rows_only_rejects_the_others():
    """DynamoDB's message quotes the bounds: it is for the rejects, not for an error."""
    data = b"id,v,a,b\nk1,1,z,a\nk2,1,a,z\n"
    it = world("put", "attribute_not_exists(id) OR id BETWEEN {a} AND {b}", data)
    report = run(it)
    assert report.rows == RowCounts(read=2, written=1, rejected=1)
    assert [each["cause"] for each in it.rejects()] == ["refused_by_dynamodb"]


def test_denied_update_is_a_named_error():
    it = World(b"id,a\nk,x\n", options=UPDATE)
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("update_item", fails("AccessDeniedException"), times=3)
    with pytest.raises(errors.AccessDenied):
        it.import_step(chunk)


def test_updates_are_resumed_after_a_kill():
    it = World(b"id,a\n" + b"".join(b"k%03d,x\n" % row for row in range(40)), options=UPDATE)
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("update_item", *[None] * 9, Fault(raises=Killed(), landed=True))
    with pytest.raises(Killed):
        it.import_step(chunk)
    it.import_one(chunk)
    assert it.report().rows == RowCounts(read=40, written=40)


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


def test_json_sets_must_be_declared():
    it = World(b'{"id":"k"}\n', source={"format": "json"}, options={**UPDATE, "add": ["tags"]})
    with pytest.raises(errors.InvalidPayload, match="--types tags=SS"):
        it.preflight()


def test_too_many_columns_for_an_update_are_refused():
    names = ",".join(f"c{place}" for place in range(500))
    it = World(f"id,{names}\nk{',1' * 500}\n".encode(), options=UPDATE)
    with pytest.raises(errors.InvalidPayload, match="--drop"):
        it.preflight()
