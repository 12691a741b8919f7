"""Behaviour that the drivers `sync` and `threads` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ddbload.contracts.options import Options
from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import TableNotFound
from ddbload.write.drivers import DRIVER_POLL_SECONDS, Driver, concurrency_for
from ddbload.write.scheduler.answers import Accepted, Answer, Fatal, Throttled, Unsure
from ddbload.write.scheduler.scheduler import Scheduler
from tests.unit.write.fake_transports import Clock, FakeRows, FakeTable, at_row


@pytest.fixture(params=["sync", "threads"])
def driver(request) -> Iterator[Driver]:
    made = Driver(concurrency_for(Options(engine=request.param, concurrency=4)))
    yield made
    made.close()


@pytest.fixture
def no_backoff(monkeypatch, no_rate) -> None:
    """Skip back-off: these tests do not depend on waits."""
    monkeypatch.setattr("ddbload.write.scheduler.unsettled_rows.full_jitter", lambda *_: 0.0)
    monkeypatch.setattr("ddbload.aws.backoff.full_jitter", lambda *_, **__: 0.0)


def always(answer: Answer):
    return lambda _items: answer


def test_driver_retries_rows_that_were_not_written(driver, no_backoff):
    table = FakeTable(
        always(Accepted([0, 3])),
        always(Throttled("ThrottlingException")),
        always(Unsure("no answer")),
        always(Accepted(range(25))),
    )
    rows = FakeRows(*range(200))
    driver.run(rows.job(table))
    assert table.items == {row: row for row in range(200)}
    assert rows.counts == RowCounts(read=200, written=200)


def test_driver_stops_after_a_fatal_answer(driver):
    error = TableNotFound("gone")
    rows, table = FakeRows(*range(100_000)), FakeTable(otherwise=at_row(30, always(Fatal(error))))
    driver.run(rows.job(table))
    assert rows.scheduler.fatal is error
    assert len(table.sent) <= Scheduler.MAX_AHEAD // 25 + 4
    # Other requests may have been written meanwhile; they do not count.
    assert rows.counts == RowCounts(read=25, written=25)


class ExpectedError(BaseException):
    """A BaseException that is not an Exception, like KeyboardInterrupt."""


@pytest.mark.parametrize("error", [ValueError("inside"), ExpectedError("inside")])
def test_driver_raises_an_exception_of_the_transport(driver, error):
    def fail(_items):
        raise error

    rows, table = FakeRows(*range(1000)), FakeTable(otherwise=at_row(30, fail))
    with pytest.raises(type(error), match="inside"):
        driver.run(rows.job(table))
    assert table.at_once == 0
    assert rows.counts.read <= 25
    assert rows.counts.conserved


def test_driver_raises_an_exception_of_the_item_builder(driver):
    rows = FakeRows(*range(1000))
    job = rows.job(FakeTable())
    object.__setattr__(job, "body", lambda handles: [{}[handle] for handle in handles])
    with pytest.raises(KeyError):
        driver.run(job)


@pytest.mark.usefixtures("no_rate")
def test_driver_runs_another_job_after_an_exception(driver):
    def fail(_items):
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        driver.run(FakeRows(*range(1000)).job(FakeTable(fail)))
    rows, table = FakeRows(*range(1000)), FakeTable()
    driver.run(rows.job(table))
    assert table.items == {row: row for row in range(1000)}
    assert sum(map(len, table.sent)) == 1000


def test_driver_awaits_requests_in_flight_when_stopped(driver):
    rows, table = FakeRows(*range(10_000)), FakeTable()
    driver.run(rows.job(table, should_stop=lambda: len(table.sent) >= 5))
    assert table.at_once == 0
    written = set(table.items.values())
    assert 125 <= len(written) <= 250
    # All written rows were settled.
    assert set(rows.released) == written
    assert rows.counts.read == rows.counts.written <= len(written)


def test_driver_stops_at_the_deadline(driver):
    clock = Clock()

    def slow(_items):
        clock.sleep(1.0)
        return Accepted()

    rows, table = FakeRows(*range(10_000), deadline=5.0), FakeTable(otherwise=slow)
    driver.run(rows.job(table, clock=clock, sleep=clock.sleep))
    assert 5 <= len(table.sent) <= 9
    assert rows.counts.written == rows.counts.read == 25 * len(table.sent)


def test_sync_driver_sleeps_until_the_scheduler_is_ready():
    clock = Clock()
    rows, table = FakeRows("a"), FakeTable(*[always(Throttled("ThrottlingException"))] * 12)
    driver = Driver(1)
    driver.run(rows.job(table, clock=clock, sleep=clock.sleep))
    assert table.items == {"a": 0}
    assert clock.now > 5.0
    # should_stop is called at least this often.
    assert max(clock.slept) == DRIVER_POLL_SECONDS
    assert min(clock.slept) > 0


def test_sync_driver_stops_during_a_wait():
    clock = Clock()
    rows, table = FakeRows("a"), FakeTable(otherwise=always(Throttled("ThrottlingException")))
    job = rows.job(table, clock=clock, sleep=clock.sleep, should_stop=lambda: clock.now > 1.0)
    Driver(1).run(job)
    assert clock.now <= 1.0 + 2 * DRIVER_POLL_SECONDS
    assert rows.counts == RowCounts()
