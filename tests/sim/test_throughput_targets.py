"""Throughput that the engine must reach at the simulated table, on short loads.

`tests/trials/test_pacing.py` has the long ones. `pytest -s` prints the figures.
"""

from __future__ import annotations

import itertools
import random
import sys

import pytest

from tests.sim.pacing_loads import budget_windows, returned_share, sorted_rows, used_share
from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter

ON_DEMAND = 4000.0


def report(text: str) -> None:
    sys.stderr.write(text + "\n")


def test_workers_share_the_capacity_when_started_one_by_one():
    """Without saved burst capacity, so that capacity is short from the first second on."""
    starts = [7.0 * place for place in range(4)]
    run = sorted_rows(4, 1, 75.0, Capacity(saved=0.0), starts)
    share, returned = used_share(run, 35, 75, ON_DEMAND), returned_share(run, 35)
    report(f"{share:.1%} used, {returned:.2%} returned")
    # Partitions are split from minute three on: then 97 % are used, and 6 % returned.
    assert share >= 0.94
    assert returned <= 0.1


@pytest.mark.parametrize(
    ("max_wcu", "units", "index_units", "latency"),
    [
        (50.0, 1, 0, 0.2),
        (50.0, 3, 1, 0.005),
        (700.0, 1, 1, 0.005),
        (700.0, 3, 0, 0.2),
        (3000.0, 1, 0, 0.2),
        (3000.0, 3, 1, 0.005),
    ],
)
def test_budget_is_kept_in_every_ten_seconds(max_wcu, units, index_units, latency):
    windows = budget_windows(max_wcu, units, index_units, latency)
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
