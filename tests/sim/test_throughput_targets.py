"""Throughput that the engine must reach at the simulated table. `pytest -s` prints the figures."""

from __future__ import annotations

import itertools
import random
import sys

import pytest

from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter

ON_DEMAND = 4000.0
FIRST, LAST = 5, 15
"""Measured minutes: by then the burst capacity is used, and the partitions are split."""


def report(text: str) -> None:
    sys.stderr.write(text + "\n")


def run(workers: int, seed: int, seconds: float, **given) -> ThroughputRun:
    """Write sorted rows to an on-demand table with several workers, each with separate pacing."""
    writers = [SchedulerWriter(16, random.Random(100 * seed + place)) for place in range(workers)]
    table = SimulatedTable(given.pop("capacity", Capacity()), salt=seed)
    return ThroughputRun(writers, table, Load(), seed=seed, **given).run(seconds)


def used(flow: ThroughputRun, first: float, last: float) -> float:
    """Compute the share of the on-demand capacity that was used between two seconds."""
    return sum(flow.table.usage.accepted[int(first) : int(last)]) / (last - first) / ON_DEMAND


@pytest.mark.parametrize(("workers", "last"), [(1, LAST), (4, 9)])
def test_workers_use_the_capacity_and_few_rows_are_returned(workers, last):
    flow = run(workers, 2, 60.0 * last)
    share = used(flow, 60 * FIRST, 60 * last)
    worst = min(used(flow, second, second + 60) for second in range(60 * FIRST, 60 * last, 60))
    returned = flow.total(FIRST, last).returned_share
    report(
        f"{workers} workers: {share:.1%} used, worst minute {worst:.1%}, {returned:.2%} returned"
    )
    assert share >= 0.97
    assert worst >= 0.6
    assert returned <= 0.02
    # It was 3 %: after the saved capacity is used up, the rate looks for more more often.
    assert flow.total().returned_share <= 0.04


@pytest.mark.parametrize("workers", [4, 10])
def test_workers_share_the_capacity_when_started_one_by_one(workers):
    """Without saved burst capacity, so that capacity is short from the first second on."""
    starts = [7.0 * place for place in range(workers)]
    flow = run(workers, 1, 300.0, capacity=Capacity(saved=0.0), starts=starts)
    share, returned = used(flow, 120, 300), flow.total(2).returned_share
    report(f"{workers} workers: {share:.1%} used, {returned:.2%} returned")
    # It was 90 % and 4 %: a slower worker accepts more back, which is what makes them equal.
    assert share >= 0.97
    assert returned <= 0.06


@pytest.mark.parametrize("max_wcu", [50.0, 700.0, 3000.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("index_units", [0, 1])
@pytest.mark.parametrize("latency", [0.005, 0.2])
def test_budget_is_kept_in_every_ten_seconds(max_wcu, units, index_units, latency):
    """Compare `max_wcu` with the use in each window of ten seconds, after the first ten."""
    writer = SchedulerWriter(32, random.Random(1), max_wcu)
    table = SimulatedTable(Capacity(partitions=8, on_demand=8000.0, index_units=index_units))
    flow = ThroughputRun([writer], table, Load(units=units), latency=latency)
    taken = [0.0]
    for tenth in range(1, 400):
        flow.run(tenth / 10)
        taken.append(sum(table.usage.accepted))
    windows = [(taken[at + 100] - taken[at]) / 10 / max_wcu for at in range(100, 299)]
    report(f"{max_wcu} units/s: {min(windows):.3f} to {max(windows):.3f}")
    assert min(windows) >= 0.9
    assert max(windows) <= 1.05


def test_import_completes_after_half_an_hour_of_90_per_cent_rejection():
    half_an_hour = 1800.0
    rows = 60_000
    writer = SchedulerWriter(16, random.Random(1))
    flow = ThroughputRun(
        [writer],
        SimulatedTable(Capacity(saved=0.0)),
        Load(rows=rows),
        returned_share_at=lambda now: 0.9 if now < half_an_hour else 0.0,
    ).run(2 * half_an_hour)
    counts = writer.scheduler.outcomes.counts
    during = flow.total(1, 30)
    report(f"{counts}, {during.requests / 1740:.1f} requests/s, finished at {flow.now:.0f} s")
    assert counts.read == counts.written == rows
    assert flow.now <= half_an_hour + 300.0
    # A few requests a second instead of thousands.
    assert during.requests <= 10 * half_an_hour
    assert all(later.sent for later in itertools.islice(flow.minutes, 30))
