"""Whole imports in each mode and by each engine, over real sockets with scripted faults."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.context import Context
from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import position
from tests.faults.catalogue import SURVIVABLE
from tests.faults.request_helpers import ShortPauses
from tests.faults.server import FaultServer
from tests.unit.steps.expected import status_for
from tests.unit.steps.world import TABLE, World

ENGINES = ("sync", "threads", "async")
AT = "at"
MODES: dict[str, dict[str, Any]] = {
    "put": {},
    "insert": {"mode": "insert"},
    "last-wins": {"mode": "last-wins", "position_attribute": AT},
    "delete": {"mode": "delete"},
}
OPERATIONS = ("BatchExecuteStatement", "BatchWriteItem", "PutItem")
FIRST_OPERATION = {
    "insert": "BatchExecuteStatement",
    "last-wins": "PutItem",
    "delete": "BatchWriteItem",
}
FAULTS = [name for name in SURVIVABLE if not name.startswith("unprocessed")]
ROWS = 60
_runs = itertools.count()


@dataclass
class WireClients:
    """Clients of a DynamoDB over real sockets, and of the in-memory S3."""

    dynamodb: Any
    dynamodb_signer: Any
    s3: Any


@dataclass
class Wired(World):
    """A `World` whose table is behind a server."""

    server: FaultServer = field(kw_only=True)
    made: Clients = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dynamodb = self.server.dynamodb
        if TABLE in self.dynamodb._tables:
            self.dynamodb.delete_table(TableName=TABLE)
        self.create_table()

    def context(self, *given: Any, **more: Any) -> Context:
        return replace(
            super().context(*given, **more),
            clients=WireClients(self.made.dynamodb, self.made.dynamodb_signer, self.s3),
            clock=time.monotonic,
            deadline=float("inf"),
            sleep=time.sleep,
            rng=ShortPauses(next(_runs)),
        )


@pytest.fixture(autouse=True)
def credentials(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    # Real pauses would take too long here.
    name = "ddbload.write.pacing.pacing.AdaptiveRate"
    monkeypatch.setattr(f"{name}.ready_at", lambda _rate, now: now)
    monkeypatch.setattr(f"{name}.request_units", lambda *_given: float("inf"))
    monkeypatch.setattr(f"{name}.answered", lambda *_given: None)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer(drip_seconds=0.03, stall_seconds=0.03) as running:
        yield running


@pytest.fixture(scope="module")
def made(server) -> Clients:
    return Clients(AwsSettings(region="us-east-1", endpoint_url=server.endpoint), connections=6)


@pytest.fixture(params=ENGINES)
def world(request, server, made) -> Iterator[Callable[..., Wired]]:
    """Make a world for one engine."""

    def make(data: bytes, mode: str, **options: Any) -> Wired:
        given = {
            "engine": request.param,
            "concurrency": 6,
            **MODES.get(mode, {"mode": mode}),
            **options,
        }
        return Wired(data, options=given, server=server, made=made)

    yield make
    server.faults.decide = None
    assert server.faults.left() == {}
    assert server.dynamodb.overlaps == []


def file(*keys: int) -> bytes:
    return b"id,row\n" + b"".join(b"k%d,%d\n" % (key, row) for row, key in enumerate(keys))


def stored(world: World) -> dict[str, str]:
    return {item["id"]["S"]: item["row"]["S"] for item in world.items}


def there(world: World, key: int, row: str, **more: Any) -> None:
    item = {"id": {"S": f"k{key}"}, "row": {"S": row}, **more}
    world.dynamodb.put_item(TableName=TABLE, Item=item)


def last(*keys: int) -> dict[str, str]:
    return {f"k{key}": str(row) for row, key in enumerate(keys)}


def first(*keys: int) -> dict[str, str]:
    return {f"k{key}": str(row) for row, key in reversed(list(enumerate(keys)))}


# Each engine meets each fault in one of the modes; test_drivers.py has them all in mode put.
FAULTS_BY_MODE = [
    (ENGINES[(number + shift) % len(ENGINES)], mode, fault)
    for number, fault in enumerate(FAULTS)
    for shift, mode in enumerate(FIRST_OPERATION)
]


@pytest.mark.parametrize(("world", "mode", "fault"), FAULTS_BY_MODE, indirect=["world"])
def test_mode_writes_exactly_with_one_fault(server, world, mode, fault):
    # Mode last-wins sends each row by itself, and the first three requests have the faults.
    rows = 15 if mode == "last-wins" else ROWS
    it = world(file(*range(rows)), mode)
    # After two batches whose rows are there already, rows may go one by one.
    faults = (fault, fault) if mode == "insert" else (fault, None, fault)
    server.faults.add(FIRST_OPERATION[mode], *faults)
    report = it.run()
    assert report.status == status_for(report.rows)
    # In mode insert, a row that was written but whose response was lost must not count as skipped.
    assert report.rows == RowCounts(read=rows, written=rows)
    assert stored(it) == ({} if mode == "delete" else last(*range(rows)))


@pytest.mark.parametrize("mode", MODES)
def test_mode_keeps_key_order_with_mixed_faults(server, world, mode):
    rng = random.Random(7)
    keys = [rng.randrange(40) for _ in range(300)]
    it = world(file(*keys), mode)
    server.fail_at_random(3, FAULTS, 0.3, OPERATIONS)
    report = it.run()
    assert report.status == status_for(report.rows)
    assert report.rows.conserved
    assert (report.rows.read, report.rows.rejected) == (300, 0)
    table = stored(it)
    match mode:
        case "insert":
            assert table == first(*keys)
            assert report.rows == RowCounts(read=300, written=40, skipped=260)
        case "delete":
            assert table == {}
        case _:
            assert table == last(*keys)
    if mode == "last-wins":
        started = it.ledger.record().created
        begins = dict(enumerate(_begins(it.data)))
        assert {item["row"]["S"]: item[AT]["S"] for item in it.items} == {
            row: position(started, begins[int(row)]) for row in table.values()
        }


def _begins(data: bytes) -> list[int]:
    lines = data.splitlines(keepends=True)
    return list(itertools.accumulate(map(len, lines)))[:-1]


@pytest.mark.parametrize("mode", ["insert", "last-wins"])
def test_run_is_exact_with_chunks_in_any_order(server, world, mode):
    rng = random.Random(9)
    keys = [rng.randrange(20) for _ in range(120)]
    it = world(file(*keys), mode, chunk_bytes=100)
    server.fail_at_random(4, FAULTS, 0.2, OPERATIONS)
    it.preflight()
    chunks = list(it.manifest)
    assert len(chunks) > 5
    rng.shuffle(chunks)
    for chunk in chunks:
        it.import_one(chunk)
    report = it.report()
    assert report.status == status_for(report.rows)
    assert report.rows.conserved
    table = stored(it)
    if mode == "last-wins":
        assert table == last(*keys)
    else:
        assert table.keys() == set(last(*keys))
        assert all(keys[int(row)] == int(key[1:]) for key, row in table.items())
        assert report.rows == RowCounts(read=120, written=len(table), skipped=120 - len(table))


def test_insert_overwrites_no_item(server, world):
    it = world(file(*range(ROWS)), "insert")
    for key in range(0, ROWS, 2):
        there(it, key, str(key) if key % 4 else "theirs")
    server.fail_at_random(5, FAULTS, 0.3, OPERATIONS)
    report = it.run()
    theirs = {f"k{key}": "theirs" for key in range(0, ROWS, 4)}
    assert stored(it) == last(*range(ROWS)) | theirs
    # Half of the other rows exist; a lost response leaves open whether its row was put.
    there_already = ROWS // 2 - len(theirs)
    assert report.rows.conserved
    assert report.rows.read == ROWS
    assert report.rows.skipped == len(theirs) + report.identical
    assert 0 < report.identical <= there_already


def test_insert_goes_by_put_item_when_the_endpoint_has_no_statements(server, world):
    server.dynamodb.knows_statements = False
    try:
        it = world(file(*range(ROWS), *range(5)), "insert", chunk_bytes=120)
        there(it, 3, "theirs")
        before = len(server.requests)
        report = it.run()
    finally:
        server.dynamodb.knows_statements = True
    assert report.rows == RowCounts(read=ROWS + 5, written=ROWS - 1, skipped=6)
    assert stored(it) == last(*range(ROWS)) | {"k3": "theirs"}
    asked = [each for each in server.requests[before:] if "Statement" in each.operation]
    # As many as were in flight before the first was answered.
    assert 1 <= len(asked) <= 6


@pytest.mark.parametrize("seed", range(3))
def test_insert_counts_each_item_with_mixed_faults(server, world, seed):
    it = world(file(*range(ROWS)), "insert")
    server.fail_at_random(seed, FAULTS, 0.4, OPERATIONS)
    report = it.run()
    assert stored(it) == last(*range(ROWS))
    assert report.rows == RowCounts(read=ROWS, written=ROWS)


# Updates, and conditions of users.

ROW_OPERATIONS = ("DeleteItem", "PutItem", "UpdateItem")


@pytest.mark.parametrize("mode", ["put", "update", "delete"])
def test_own_writes_are_never_skipped_with_mixed_faults(server, world, mode):
    data = b"id,v,a\n" + b"".join(b"k%d,2,x\n" % row for row in range(ROWS))
    it = world(data, mode, condition="attribute_exists(id) AND v < {v}")
    for row in range(ROWS):
        item = {"id": {"S": f"k{row}"}, "v": {"S": "1"}, "b": {"S": "old"}}
        it.dynamodb.put_item(TableName=TABLE, Item=item)
    # An item of a later version, which stays.
    newer = {"id": {"S": "k7"}, "v": {"S": "3"}}
    it.dynamodb.put_item(TableName=TABLE, Item=newer)
    server.fail_at_random(7, FAULTS, 0.25, ROW_OPERATIONS)
    report = it.run()
    assert report.rows == RowCounts(read=ROWS, written=ROWS - 1, skipped=1)
    new = {"v": {"S": "2"}, "a": {"S": "x"}} | ({"b": {"S": "old"}} if mode == "update" else {})
    wanted = [] if mode == "delete" else [n for n in range(ROWS) if n != 7]
    assert {item["id"]["S"]: item for item in it.items} == {
        **{f"k{row}": {"id": {"S": f"k{row}"}, **new} for row in wanted},
        "k7": newer,
    }


def test_updates_keep_key_order_with_mixed_faults(server, world):
    rng = random.Random(11)
    rows = [(f"k{rng.randrange(12)}", rng.choice("abc"), str(row)) for row in range(100)]
    lines = (
        ",".join([key, *(value if name == column else "" for name in "abc")])
        for key, column, value in rows
    )
    it = world("\n".join(["id,a,b,c", *lines]).encode(), "update")
    wanted: dict[str, dict[str, str]] = {}
    for key, column, value in rows:
        wanted.setdefault(key, {"id": key})[column] = value
    server.fail_at_random(12, FAULTS, 0.25, ROW_OPERATIONS)
    rows_of_run = it.run().rows
    # Rows that were merged into a later one of their key are superseded.
    written = rows_of_run.written
    assert rows_of_run == RowCounts(read=100, written=written, superseded=100 - written)
    assert {
        item["id"]["S"]: {name: value["S"] for name, value in item.items()} for item in it.items
    } == wanted
