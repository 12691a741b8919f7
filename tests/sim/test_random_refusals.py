"""Requests that are refused at random, whatever their rate: no reason to write more slowly.

AWS names such causes for one and the same error: the table, an index, the account's quota, or the
partition of a single key (`ThrottlingReasons`).
"""

from __future__ import annotations

import random

import pytest

from tests.sim.metered_table import MeteredTable, Rules
from tests.sim.pacing_loads import buckets, metered
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter

ROWS = 2000
SYNC, THREADS, ASYNC = (1, 0.004), (8, 0.01), (16, 0.005)
"""Requests in flight and latency of the engines."""


def seconds(table, engine, capacity, seed=1, share=0.3):
    concurrency, latency = engine
    writer = SchedulerWriter(concurrency, random.Random(seed), capacity=capacity)
    run = ThroughputRun(
        [writer],
        table(seed=seed),
        Load(ROWS, rows_of_key=1),
        seed=seed,
        latency=latency,
        refused_share=share,
    ).run(3600.0)
    assert writer.scheduler.outcomes.counts.written == ROWS
    return run.writers[0].finished_at


@pytest.mark.parametrize(
    ("table", "capacity"), [(buckets, 4000.0), (metered, 4000.0), (buckets, None)]
)
def test_every_engine_writes_on_at_its_rate(table, capacity):
    found = {
        engine: sorted(seconds(table, engine, capacity, seed) for seed in range(1, 6))[2]
        for engine in (SYNC, THREADS, ASYNC)
    }
    assert max(found.values()) <= 10.0
    assert max(found.values()) <= 2.0 * min(found.values())


def test_a_table_without_capacity_is_not_mistaken_for_one():
    """Whole requests come back at the end of each second, and the rate must follow that."""
    writer = SchedulerWriter(16, random.Random(1), capacity=4000.0)
    table = MeteredTable(Rules(limit=500.0, partitions=1))
    run = ThroughputRun([writer], table, Load(rows_of_key=1)).run(40.0)
    assert sum(table.usage.accepted[5:40]) >= 0.97 * 500 * 35
    assert sum(table.usage.returned[5:40]) <= 0.06 * 500 * 35
    assert run.writers[0].writer.pacing.limit <= 700.0
