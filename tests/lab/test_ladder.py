"""The ladder's steps send what they say, and its tables say what was measured."""

from __future__ import annotations

import pytest

from bench.rounds import Cores, InvalidRound, sink
from ddbload.contracts.list_prices import WRITE_UNIT_PRICE
from lab import ways
from lab.draw import svg
from lab.experiments import ladder, ladder_cost
from lab.experiments.ladder_steps import (
    BATCH,
    BATCH_CLOSE,
    BATCH_KEEP,
    CONCURRENCY,
    ROW_CLOSE,
    SINGLE,
    STEPS,
    TABLE,
    THREADS,
    WORKERS,
    Files,
    Result,
    Way,
    concurrent,
    environment,
    execute,
    run_way,
    threads,
)
from lab.findings import CountsDiffer
from lab.state_machine import Execution

SIZE = 900
LATENCY = 0.2
"""Long beside the time in which a client begins its next request."""


@pytest.fixture(scope="module")
def server():
    with sink(Cores(None, None)) as process:
        yield process


@pytest.fixture
def run_step(server, setup_of):
    """Function that runs a way over its part of the rows."""
    setup = setup_of(SIZE, LATENCY)
    files = Files(setup)

    def run(way):
        return run_way(way, files.first(way.part.rows(SIZE)), setup, server)

    return run


@pytest.mark.parametrize(
    ("way", "requests", "connections"),
    [(ROW_CLOSE, 3, 3), (BATCH_KEEP, 3, 1)],
    ids=lambda value: value.label if isinstance(value, Way) else None,
)
def test_without_keep_alive_each_request_has_its_connection(run_step, way, requests, connections):
    counters = run_step(way).counters
    assert counters["items"] == way.part.rows(SIZE)
    assert (counters["requests"], counters["connections"]) == (requests, connections)
    assert counters["most_in_flight"] == way.in_flight == 1


@pytest.mark.parametrize("way", [threads(4), concurrent(16)], ids=lambda way: way.label)
def test_as_many_requests_are_in_flight_as_the_step_says(run_step, way):
    result = run_step(way)
    assert result.counters["items"] == result.rows == way.part.rows(SIZE)
    assert result.counters["most_in_flight"] == way.in_flight == result.counters["connections"]


def test_a_step_that_loses_rows_is_refused(server, setup_of):
    setup = setup_of(SIZE)
    files = Files(setup)
    fewer = files.first(2)
    losing = Way(
        "losing", SINGLE, lambda _file, _: ways.published("import_rows", str(fewer.path), TABLE)
    )
    with pytest.raises(CountsDiffer, match="losing: 2 of 3 arrived"):
        run_way(losing, files.first(3), setup, server)


class ImportingMachine:
    """Stands in for the state machine: it imports what was uploaded by `ddbload import`."""

    def __init__(self, server, folder):
        self._server, self._folder = server, folder
        self.asked = []
        self.retries = 0

    def upload(self, file):
        self.file = file

    def load(self, workers, *, chunk_bytes):
        self.asked.append((workers, chunk_bytes))
        command = concurrent(16).command(self.file, self._folder / f"ledger-{workers}")
        used = ways.run(command, environment(self._server))
        return Execution(used.seconds, used.cpu, {**used.printed, "retries": self.retries})


def test_each_execution_is_counted_and_has_eight_chunks(server, setup_of, tmp_path):
    setup = setup_of(SIZE)
    file = Files(setup).first(SIZE)
    machine = ImportingMachine(server, tmp_path)
    (result,) = execute(machine, [2], file, setup, server)
    assert (result.label, result.rows) == ("state machine, 2 workers", SIZE)
    assert result.counters["items"] == SIZE
    ((workers, chunk_bytes),) = machine.asked
    assert workers == 2
    assert 7 * chunk_bytes < file.path.stat().st_size <= 8 * chunk_bytes
    machine.retries = 3
    with pytest.raises(InvalidRound, match="3 requests were sent again"):
        execute(machine, [1], file, setup, server)


def test_parts_grow_with_the_size_up_to_a_limit():
    assert (SINGLE.rows(30), SINGLE.rows(30_000), SINGLE.rows(4_000_000)) == (1, 100, 2_000)
    assert THREADS.rows(30_000) == 10_000
    assert BATCH == 25


def made_up(label, rate, *, ours=False):
    counters = {"requests": 4, "connections": 2, "most_in_flight": 1}
    return Result(label, 1000, 1000 / rate, 0.5, counters, 2.0, 0.1, ours)


RESULTS = [made_up(way.label, 100.0 * at, ours=way.ours) for at, way in enumerate(STEPS, 1)]
EXECUTIONS = [made_up(f"state machine, {n} workers", 50.0 * n, ours=True) for n in WORKERS]


def test_ladder_has_the_published_steps_beside_todays():
    table = ladder.beside_published(RESULTS, EXECUTIONS)
    assert [row[:3] for row in table.rows] == [
        ("streaming script", "290", ""),
        ("with keep-alive", "847", "2.9 x"),
        ("in another language", "880", "1.0 x"),
        ("in parallel", "5,490", "6.2 x"),
        ("on a bigger machine", "29,000", "5.3 x"),
        ("Step Functions, 4 M rows in 50 s", "80,000", "2.8 x"),
    ]
    fastest = [concurrent(CONCURRENCY[-1]), concurrent(CONCURRENCY[-1], 2)]
    assert [row[3] for row in table.rows] == [
        *(BATCH_CLOSE.label, BATCH_KEEP.label, "ddbload, one request at a time"),
        *(way.label for way in fastest),
        "state machine, 8 workers",
    ]
    assert table.rows[1][4:] == ("400", "1.3 x")


def test_findings_are_drawn():
    findings = ladder.findings(RESULTS, EXECUTIONS, PLAN)
    assert len(findings.tables) == 5
    for chart in findings.charts:
        assert svg(chart).count("<svg") == 1
    (cost,) = findings.servers
    assert cost.cpu == pytest.approx(0.1 * (len(RESULTS) + len(EXECUTIONS)))


PLAN = {
    "items": {"count": 2_000_000, "bytes": 800_000_000},
    "price": {
        "write_units": {"dollars_per_million": 0.625},
        "services": {"DynamoDB": 1.25, "Lambda": 0.02, "Step Functions": 0.001},
    },
}
"""Plan of two million rows, which are a gigabyte with the 100 bytes that DynamoDB adds to each."""


def test_cost_table_has_the_published_prices_and_the_plans():
    prices, rows = ladder_cost.tables(PLAN)
    assert [row[:4] for row in prices.rows] == [
        ("1 M write units", "$1.4846", "$1.25", "$0.625"),
        ("backup, 1 GB for a month", "$0.11886", "$0.10", "$0.10"),
        ("restore, 1 GB", "$0.17829", "$0.15", "$0.15"),
        ("an hour of EC2", "$0.222", "not confirmed", "not confirmed"),
    ]
    assert [row[1:] for row in rows.rows] == [
        ("$2.9692", "$2.50", "$1.25"),
        ("about $0.05", "-", "$0.021"),
        ("$0.11886", "$0.10", "$0.10"),
        ("$0.17829", "$0.15", "$0.15"),
    ]


def test_price_of_writes_is_the_one_that_plans_use():
    assert ladder_cost.WRITES.now == WRITE_UNIT_PRICE
