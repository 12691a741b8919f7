"""Capacity that the pacing must use at the simulated table, on short loads.

`tests/trials/test_pacing.py` has the long ones; see also `make bench-table`.
"""

from __future__ import annotations

import random

import pytest

from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter

ON_DEMAND = 4000.0
DRAINED = Capacity(saved=0.0)
"""Without saved burst capacity the table is at once in its state of minute five."""


def flow(capacity: Capacity = DRAINED, load: Load | None = None, **given) -> ThroughputRun:
    seed = given.get("seed", 1)
    max_wcu = given.pop("max_wcu", None)
    writer = given.pop("writer", None) or SchedulerWriter(16, random.Random(seed), max_wcu)
    return ThroughputRun([writer], SimulatedTable(capacity, salt=seed), load or Load(), **given)


def used(run: ThroughputRun, first: int, last: int) -> float:
    """Compute the units a second that were used between two seconds."""
    return sum(run.table.usage.accepted[first:last]) / (last - first)


def test_sorted_rows_use_the_capacity_and_few_are_returned():
    run = flow().run(90.0)
    # A rate that takes freed capacity within seconds looks for more after a quiet second, and on
    # sorted rows partitions are full and idle in turn.
    assert used(run, 45, 90) >= 0.96 * ON_DEMAND
    assert run.total(1).returned_share <= 0.13


def test_rate_falls_at_once_when_the_burst_is_used_up():
    run = flow(Capacity(burst_seconds=20.0)).run(50.0)
    # Until then rows are written at many times the sustained rate, soon after the start.
    assert used(run, 0, 2) >= 8 * ON_DEMAND
    returned = run.table.usage.returned
    assert sum(returned[:12]) <= 26_000
    # See the first test.
    assert sum(returned[12:]) / used(run, 12, 50) / 38 <= 0.14
    assert used(run, 20, 50) >= 0.98 * ON_DEMAND


@pytest.mark.parametrize("max_wcu", [400.0, 3000.0])
@pytest.mark.parametrize("index_units", [0, 2])
def test_budget_is_kept_in_every_ten_seconds_of_a_minute(max_wcu, index_units):
    capacity = Capacity(index_units=index_units)
    run = flow(capacity, max_wcu=max_wcu).run(60.0)
    accepted = run.table.usage.accepted
    for first in range(10, 49):
        window = sum(accepted[first : first + 10]) / 10
        assert 0.9 * max_wcu <= window <= 1.05 * max_wcu


@pytest.mark.parametrize("provisioned", [5.0, 60.0, 1000.0])
def test_small_provisioned_table_is_used_fully(provisioned):
    capacity = Capacity(partitions=1, provisioned=provisioned, saved=0.0)
    run = flow(capacity).run(180.0)
    assert used(run, 60, 180) >= 0.9 * provisioned
    assert run.total(1).returned_share <= 0.1


def test_rate_recovers_within_ten_seconds_after_an_outage():
    def share(now: float) -> float:
        return 1.0 if 20.0 <= now < 30.0 else 0.0

    run = flow(load=Load(rows_of_key=1), returned_share_at=share).run(50.0)
    assert used(run, 40, 50) >= 0.9 * ON_DEMAND
    during = [row for row in run.table.usage.accepted[20:30] if row]
    assert len(during) <= 1


@pytest.mark.parametrize("names_key_ranges", [True, False])
def test_hot_key_does_not_slow_other_keys(names_key_ranges):
    capacity = Capacity(burst_seconds=30.0, saved=0.0, splits=False)
    load = Load(hot_share=0.2)
    run = flow(capacity, load, names_key_ranges=names_key_ranges).run(50.0)
    # A fifth of the rows has one key, and its partition takes 1,000 units a second:
    # 1,000 = 0.2 R + 0.8 R / 4, so R = 2,500.
    # It was 6 % at 80 % of this: see the first test.
    assert used(run, 25, 50) >= 0.95 * 2500.0
    assert run.total().returned_share <= 0.12
