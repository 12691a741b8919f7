"""Throughput that the engine must reach at the simulated table, on short loads.

`tests/trials/test_pacing.py` has the long ones. `pytest -s` prints the figures.
"""

from __future__ import annotations

import itertools
import random
import sys

from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter


def report(text: str) -> None:
    sys.stderr.write(text + "\n")


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
