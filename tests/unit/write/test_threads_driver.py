"""Behaviour of the threads driver outside the caller's thread."""

from __future__ import annotations

import threading

import pytest

from ddbload.write.drivers import Driver
from ddbload.write.scheduler.answers import Accepted
from tests.unit.write.fake_transports import FakeRows, FakeTable

MAX_WAIT_SECONDS = 30.0
"""Longest wait of a test; only a failing test reaches it."""


pytestmark = pytest.mark.usefixtures("no_rate")


@pytest.fixture
def driver():
    made = Driver(4)
    yield made
    made.close()


def test_threads_driver_sends_requests_concurrently(driver):
    barrier = threading.Barrier(4)

    def meet(_items):
        barrier.wait(MAX_WAIT_SECONDS)
        return Accepted()

    rows, table = FakeRows(*range(400)), FakeTable(*[meet] * 16)
    driver.run(rows.job(table))
    assert table.most_at_once == 4
    assert len(table.threads) == 4


def test_scheduler_runs_only_in_the_thread_of_the_caller(driver):
    caller = threading.get_ident()
    rows, table = FakeRows(*range(2000)), FakeTable()
    asked: set[int] = set()
    job = rows.job(table, should_stop=lambda: bool(asked.add(threading.get_ident())))
    driver.run(job)
    assert asked == {caller}
    assert caller not in table.threads


@pytest.mark.parametrize("where", ["transport", "source"])
def test_exception_is_raised_after_requests_in_flight_end(driver, where):
    failed, ended = threading.Event(), []

    def slow(_items):
        assert failed.wait(MAX_WAIT_SECONDS)
        ended.append(True)
        return Accepted()

    def fail(*_):
        failed.set()
        raise ValueError(where)

    rows = FakeRows(*range(1000))
    responses = [slow, slow, fail if where == "transport" else slow]
    table = FakeTable(*responses)
    job = rows.job(
        table, should_stop=lambda: where == "source" and table.at_once >= 2 and fail() is None
    )
    with pytest.raises(ValueError, match=where):
        driver.run(job)
    # The next job may have rows of the same keys.
    assert table.at_once == 0
    assert len(ended) >= 2
