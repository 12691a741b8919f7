"""Drivers over real sockets, against a DynamoDB with scripted faults."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from ddbload.aws import boto_clients as clients_module
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.contracts.options import ENGINES, Options
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.errors import AccessDenied, TableNotFound
from ddbload.write.drivers import Driver, Job, concurrency_for, transport_for
from ddbload.write.requests import WriteRequests
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.dynamodb_tables import keyed
from tests.faults.catalogue import FATAL, LIES, SURVIVABLE
from tests.faults.request_helpers import ShortPauses, wait_for_writes
from tests.faults.server import FaultServer
from tests.unit.items.expected_bodies import batch_write_body

CONCURRENCY = 6
_table_numbers = itertools.count()


class Clock:
    """Fake clock that advances with each sleep and each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Loaded:
    """Result of a load."""

    scheduler: Scheduler
    rows: Sequence[int]
    """Keys of the rows, in order."""
    name: str
    table: dict[int, int]
    """Row number stored under each key."""
    faults: list[str | None]

    @property
    def counts(self) -> RowCounts:
        return self.scheduler.outcomes.counts


@pytest.fixture(autouse=True)
def credentials(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer(drip_seconds=0.03, stall_seconds=0.03) as running:
        # Long enough for two writes of a key to meet, if they were sent.
        running.dynamodb.latency = 0.001
        yield running


@pytest.fixture(scope="module")
def made_clients(server) -> Clients:
    return made(server)


def made(server: FaultServer) -> Clients:
    settings = AwsSettings(region="us-east-1", endpoint_url=server.endpoint)
    return Clients(settings, connections=CONCURRENCY)


@pytest.fixture
def load(server, made_clients) -> Iterator[Callable[..., Loaded]]:
    """Load rows with these keys into a new table."""

    def run(engine: str, rows: Iterable[int], given: Clients | None = None, **more: Any) -> Loaded:
        return _load(server, given or made_clients, engine, list(rows), **more)

    yield run
    server.faults.decide = None
    assert server.faults.left() == {}
    assert server.dynamodb.overlaps == []


def _load(
    server: FaultServer,
    clients: Clients,
    engine: str,
    rows: list[int],
    *,
    deadline: float = math.inf,
    seed: int = 1,
    **more: Any,
) -> Loaded:
    table = f"table{next(_table_numbers)}"
    server.dynamodb.create_table(**keyed(table, id="N"))
    scheduler = Scheduler(
        concurrency=1 if engine == "sync" else CONCURRENCY, deadline=deadline, rng=ShortPauses(seed)
    )
    told = 0

    def feed(room: int) -> bool:
        nonlocal told
        # A few at a time: equal keys come while earlier ones are under way.
        pieces = rows[told : told + min(room, 40)]
        for key in pieces:
            scheduler.offer(scheduler.reserve_handles(), key, 30, 100)
        told += len(pieces)
        return bool(pieces)

    def items(handles: Sequence[int]) -> list[dict[str, Any]]:
        # Spelt otherwise than DynamoDB does.
        return [{"id": {"N": f"{rows[row]}.0"}, "row": {"N": f"{row}e0"}} for row in handles]

    before = len(server.requests)

    def body(handles: Sequence[int]) -> bytes:
        return batch_write_body(table, items(handles))

    options = Options(engine=engine, concurrency=CONCURRENCY)
    described = Table(table, "", (KeyAttribute("id", "N", 1024),))
    transport = transport_for(options, clients, WriteRequests(options, described))
    with closing(Driver(concurrency_for(options))) as driver:
        driver.run(Job(scheduler, feed, items, body, transport, **more))
    faults = [request.fault for request in server.requests[before:]]
    return Loaded(scheduler, rows, table, stored(server, table), faults)


def stored(server: FaultServer, table: str) -> dict[int, int]:
    return {int(i["id"]["N"]): int(i["row"]["N"]) for i in server.dynamodb.items(table)}


def assert_complete(loaded: Loaded) -> None:
    """Check that each key has its last row, and that each row is counted."""
    assert loaded.table == {key: row for row, key in enumerate(loaded.rows)}
    counts = loaded.counts
    assert counts.conserved
    assert counts.read == len(loaded.rows)
    assert counts.rejected == counts.skipped == 0
    assert counts.written >= len(loaded.table)


# Each fault alone


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", [*SURVIVABLE, *LIES])
def test_driver_writes_all_rows_with_one_fault(server, load, engine, fault):
    server.faults.add("BatchWriteItem", fault, None, fault, fault)
    loaded = load(engine, range(150))
    assert_complete(loaded)
    assert loaded.counts == RowCounts(read=150, written=150)
    assert loaded.faults.count(fault) == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", FATAL)
def test_driver_stops_with_a_fatal_fault(server, load, engine, fault):
    server.faults.add("BatchWriteItem", None, None)
    # Always, for a signature that came too late would pass when it is made anew.
    server.fail_at_random(1, [fault], 1.0)
    loaded = load(engine, range(5000))
    name = TableNotFound if fault == "ResourceNotFoundException" else AccessDenied
    assert type(loaded.scheduler.fatal) is name
    assert len(loaded.faults) < 200
    assert loaded.counts.conserved
    # What counts as written is there.
    assert set(range(loaded.counts.read)) <= loaded.table.keys()
    assert all(loaded.table[key] == key for key in loaded.table)


# All of them together


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [1, 2])
def test_driver_writes_all_rows_with_mixed_faults(server, load, engine, seed):
    server.fail_at_random(seed, [*SURVIVABLE, *LIES], 0.3)
    loaded = load(engine, range(1200), seed=seed)
    assert_complete(loaded)
    assert loaded.counts == RowCounts(read=1200, written=1200)
    assert len(set(loaded.faults)) > 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keys", [1, 10, 60])
def test_driver_keeps_key_order_with_mixed_faults(server, load, engine, keys):
    server.fail_at_random(keys, [*SURVIVABLE, *LIES], 0.3)
    rng = random.Random(keys)
    loaded = load(engine, [rng.randrange(keys) for _ in range(1500)])
    assert_complete(loaded)


# Answers that do not come in time


@pytest.fixture
def impatient(server, monkeypatch) -> Iterator[Clients]:
    monkeypatch.setattr(server, "stall_seconds", 0.9)
    monkeypatch.setattr(clients_module, "READ_SECONDS", 0.3)
    yield made(server)
    wait_for_writes(server)
    # A client that gives up cannot know that its write is still under way.
    server.dynamodb.overlaps.clear()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", ["stall", "stall_landed", "late"])
def test_driver_writes_all_rows_with_late_responses(server, impatient, engine, fault):
    server.faults.add("BatchWriteItem", fault, None, fault)
    loaded = _load(server, impatient, engine, list(range(150)))
    assert_complete(loaded)
    assert loaded.counts == RowCounts(read=150, written=150)
    assert loaded.scheduler.stats.retries >= 2
    written = loaded.table
    wait_for_writes(server)
    assert stored(server, loaded.name) == written


# Nobody answers


@pytest.mark.parametrize("engine", ENGINES)
def test_driver_ends_at_the_deadline_without_responses(server, load, engine):
    server.fail_at_random(1, ["reset_before"], 1.0)
    clock = Clock()
    loaded = load(engine, range(100), deadline=0.3, clock=clock, sleep=clock.sleep)
    assert loaded.table == {}
    assert loaded.counts == RowCounts()
    assert loaded.scheduler.fatal is None
    assert len(loaded.faults) > 5
