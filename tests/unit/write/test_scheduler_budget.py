"""Consumption under `max_wcu` over virtual time, at a table with indexes and latency."""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import random
from collections.abc import Callable

import pytest

from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Throttled, Unsure, Wait
from ddbload.write.scheduler.scheduler import Scheduler

WINDOW = 10.0
Use = tuple[float, float]
"""Time and consumed units of a request."""


def used(
    max_wcu: float,
    *,
    row_bytes: int = 100,
    factor: float = 1.0,
    latency: float = 0.05,
    concurrency: int = 64,
    seconds: float = 40.0,
    answer: Callable[[int, float], Answer] = lambda _rows, units: Accepted((), units),
) -> list[Use]:
    """Run a scheduler; return its uses by time. `answer`: makes answers from rows and units."""
    rng = random.Random(1)
    pacing = Pacing(rng, max_wcu)
    scheduler = Scheduler(concurrency=concurrency, deadline=math.inf, rng=rng, pacing=pacing)
    now = 0.0
    flights: list[tuple[float, int, Batch]] = []
    uses: list[Use] = []
    while now < seconds:
        for _ in range(scheduler.room()):
            scheduler.offer(scheduler.reserve_handles(), object(), row_bytes, row_bytes)
        step = scheduler.next(now)
        if isinstance(step, Batch):
            arrival = now + latency * rng.uniform(0.5, 1.5)
            heapq.heappush(flights, (arrival, step.number, step))
            continue
        assert isinstance(step, Wait)
        if flights and (step.until is None or flights[0][0] <= step.until):
            now, _, batch = heapq.heappop(flights)
            units = len(batch.handles) * -(-row_bytes // 1024) * factor
            reply = answer(len(batch.handles), units)
            if not isinstance(reply, Throttled):
                uses.append((now, units))
            scheduler.answered(batch, reply, now)
        else:
            assert step.until is not None
            now = step.until
    return uses


def shares(uses: list[Use], max_wcu: float) -> list[float]:
    """Compute the used share of the budget in each window of ten seconds after the first."""
    times = [at for at, _ in uses]
    total = [0.0, *itertools.accumulate(units for _, units in uses)]

    def between(start: float) -> float:
        first, last = (bisect.bisect_left(times, at) for at in (start, start + WINDOW))
        return (total[last] - total[first]) / (WINDOW * max_wcu)

    return [between(at) for at in times if WINDOW <= at < times[-1] - WINDOW]


@pytest.mark.parametrize("max_wcu", [5, 25, 100, 1000])
@pytest.mark.parametrize("row_bytes", [100, 1500])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_budget_is_used_and_never_exceeded(max_wcu, row_bytes, factor):
    found = shares(used(max_wcu, row_bytes=row_bytes, factor=factor), max_wcu)
    assert min(found) >= 0.9
    # Rows are indivisible: one more row may fall into a window.
    row = -(-row_bytes // 1024) * factor / (WINDOW * max_wcu)
    assert max(found) <= 1.05 + row * (row > 0.05)


def test_budget_counts_requests_without_an_answer():
    # Each second request is written, but its answer is lost.
    flip = itertools.cycle([True, False])

    def answer(_rows: int, units: float) -> Answer:
        return Accepted((), units) if next(flip) else Unsure("no answer")

    assert max(shares(used(1000, answer=answer), 1000)) <= 1.05


def test_budget_refunds_throttled_requests():
    # Each fourth of the first eight requests is throttled: the budget goes to the other three.
    # More throttled requests would rightly lower the rate.
    turn = itertools.chain([True, True, True, False] * 2, itertools.repeat(True))

    def answer(_rows: int, units: float) -> Answer:
        return Accepted((), units) if next(turn) else Throttled("ThrottlingException")

    found = shares(used(100, answer=answer), 100)
    assert min(found) >= 0.9
    assert max(found) <= 1.05
