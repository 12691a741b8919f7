"""Bounds for the rate where DescribeTable shows the table's capacity, on both models of a table."""

from __future__ import annotations

import random

import pytest

from tests.sim.pacing_loads import buckets, metered, returned_share, used_share
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter


def run(table, units, *, seed, workers=1, seconds=60.0, load=None, starts=()):
    """Write to a table with these units by workers that know them, but not each other."""
    writers = [
        SchedulerWriter(16, random.Random(10 * seed + place), capacity=units)
        for place in range(workers)
    ]
    load = load or Load(rows_of_key=1)
    flow = ThroughputRun(writers, table, load, seed=seed, latency=0.0075, starts=starts)
    return flow.run(seconds)


def fixed_tables(units, seed):
    return (
        buckets(partitions=1, provisioned=units, seed=seed),
        metered(partitions=1, limit=units, seed=seed),
    )


@pytest.mark.parametrize(("units", "seed"), [(100.0, 1), (500.0, 2)])
def test_a_minute_of_provisioned_units_is_used_and_few_are_returned(units, seed):
    for table in fixed_tables(units, seed):
        flow = run(table, units, seed=seed)
        assert used_share(flow, 3, 60, units) >= 0.98
        assert returned_share(flow) <= 0.04


def test_four_runs_that_start_at_different_times_take_hardly_longer_than_one():
    rows = 6000
    for table in fixed_tables(500.0, 1):
        flow = run(
            table,
            500.0,
            seed=1,
            workers=4,
            seconds=3600.0,
            load=Load(rows, rows_of_key=1),
            starts=(0.0, 1.0, 2.0, 10.0),
        )
        assert max(each.finished_at for each in flow.writers) <= 1.08 * 4 * rows / 500.0


@pytest.mark.parametrize("seed", [1, 2])
def test_few_units_are_returned_when_the_saved_ones_are_used_up(seed):
    """The rate is 40 times the capacity when the saved units end."""
    for table in (
        buckets(partitions=1, provisioned=500.0, burst_seconds=20.0, seed=seed),
        metered(partitions=1, limit=500.0, saved_seconds=20.0, partition_burst=True, seed=seed),
    ):
        flow = run(table, 500.0, seed=seed, seconds=30.0)
        assert sum(table.usage.accepted) >= 0.97 * 500 * (20 + 30)
        assert sum(table.usage.returned) <= 0.06 * 500 * (20 + 30)
        assert used_share(flow, 10, 30, 500.0) >= 0.97
