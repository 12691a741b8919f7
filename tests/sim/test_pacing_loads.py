"""Bounds for the rate on two models of a table, on short loads.

`tests/trials/test_pacing.py` has the long ones, and `make bench-table` measures all.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain, repeat

import pytest

from tests.sim.pacing_loads import LATENCY, LOADS, boto, buckets, ddbload, metered
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load


@pytest.mark.parametrize("name", ["fixed 4,000, buckets", "fixed 4,000, metered"])
def test_unique_keys_use_the_capacity_and_few_are_returned(name):
    found = replace(LOADS[name], rows=80_000)(ddbload, 1)
    assert found["used"] >= 0.97
    assert found["returned"] <= 0.06


def test_load_takes_no_longer_than_with_boto():
    load = replace(LOADS["collections of 30, metered"], rows=60_000)
    assert load(ddbload, 1)["wall"] <= 1.03 * load(boto, 1)["wall"]


@pytest.mark.parametrize(
    ("name", "seconds", "most"),
    [
        ("collections of 1000, buckets", 41.0, 0.05),
        ("collections of 1000, buckets that save", 38.0, 0.07),
    ],
)
def test_few_sorted_rows_are_returned(name, seconds, most):
    """Lowering the rate only by the units of a full partition had 6.5 and 10.7 % returned."""
    found = LOADS[name](ddbload, 1)
    assert found["returned"] <= most
    assert found["wall"] <= seconds


def test_rows_of_other_keys_pass_those_of_a_hot_key():
    """A third of the rows has one key, all at the beginning of the file.

    When the key had no rate of its own, this took 38.5 s.
    """
    load = Load(60_000, runs=lambda _rng: chain([20_000], repeat(10)))
    run = ThroughputRun([ddbload(random.Random(1))], metered(), load, latency=LATENCY).run(60.0)
    assert run.writers[0].finished_at <= 36.0


def test_few_are_returned_by_a_slow_table_that_counts_by_the_second():
    found = LOADS["500, nothing saved, metered"](ddbload, 1)
    assert found["used"] >= 0.97
    assert found["returned"] <= 0.06


def test_four_workers_share_a_table_that_counts_by_the_second():
    found = LOADS["four, metered"](ddbload, 1)
    assert found["jain"] >= 0.95
    assert found["of_ideal"] <= 1.15
    assert found["returned"] <= 0.06


def test_freed_capacity_is_taken_within_five_seconds():
    assert LOADS["freed, metered"](ddbload, 1)["taken_after"] <= 5.0


def test_small_file_hardly_waits_for_the_rate():
    table = buckets(burst_seconds=300.0)
    run = ThroughputRun([ddbload(random.Random(1))], table, Load(2000, rows_of_key=1)).run(60.0)
    assert run.writers[0].finished_at <= 0.7
    assert sum(table.usage.returned) == 0


def test_application_on_the_same_table_is_served():
    found = replace(LOADS["serving, buckets"], seconds=45)(ddbload, 1)
    assert found["used"] >= 0.97
    assert found["throttled"] <= 0.02
    assert found["failed"] == 0.0


def test_application_is_served_by_a_table_that_counts_by_the_second():
    """A rate that looks for freed capacity too fast throttled a tenth of the calls."""
    found = LOADS["serving, metered"](ddbload, 1)
    assert found["used"] >= 0.97
    assert found["throttled"] <= 0.05
