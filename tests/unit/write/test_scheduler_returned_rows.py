"""Rows that the table returns again and again: they slow themselves, and no other rows."""

from __future__ import annotations

import math

import pytest

from ddbload.write.scheduler.answers import STUBBORN_ATTEMPTS, Accepted, Answer, Batch, Wait
from tests.unit.write.manual_driver import SMALL, ManualDriver


def written(bad: str | None, *, concurrency: int, latency: float, seconds: float = 60.0) -> int:
    """Count the rows written in some seconds while the row with the key `bad` is returned."""
    driver = ManualDriver(concurrency=concurrency)
    scheduler = driver.scheduler
    in_flight: list[tuple[float, Batch]] = []
    count = 0
    while driver.now < seconds:
        while scheduler.room() > 0:
            first = scheduler.reserve_handles(100)
            handles = range(first, first + 100)
            keys = [f"k{handle}" for handle in handles]
            scheduler.offer_all(handles, keys, None, SMALL)
        step = scheduler.next(driver.now)
        if isinstance(step, Batch):
            in_flight.append((driver.now + latency, step))
            continue
        assert isinstance(step, Wait)
        until = math.inf if step.until is None else step.until
        if in_flight and in_flight[0][0] <= until:
            driver.now, batch = in_flight.pop(0)
            returned = [index for index, handle in enumerate(batch.handles) if f"k{handle}" == bad]
            count += len(batch.handles) - len(returned)
            answer: Answer = Accepted(returned, 0.0)
            scheduler.answered(batch, answer, driver.now)
        else:
            driver.now = until
    return count


@pytest.mark.parametrize(("concurrency", "latency"), [(1, 1.0), (1, 0.05), (4, 1.0), (16, 0.2)])
@pytest.mark.parametrize("bad", ["k0", "k13", "k1000"])
def test_row_that_is_always_returned_slows_no_others(concurrency, latency, bad):
    free = written(None, concurrency=concurrency, latency=latency, seconds=20.0)
    beside = written(bad, concurrency=concurrency, latency=latency, seconds=20.0)
    # The returned row needs separate requests, and rows may run ahead of it only so far.
    share = 0.45 if concurrency == 1 else 0.8
    assert beside >= min(share * free, 19_000)


def test_requests_back_off_when_all_rows_are_always_returned():
    driver = ManualDriver(concurrency=1)
    driver.offer_all(*range(25))
    for _ in range(STUBBORN_ATTEMPTS + 3):
        batch = driver.batch()
        driver.accept(batch, *batch.handles)
    start, requests = driver.now, 0
    while driver.now < start + 20:
        batch = driver.batch()
        driver.accept(batch, *batch.handles)
        requests += 1
    assert requests <= 40
