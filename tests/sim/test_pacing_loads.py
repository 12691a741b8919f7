"""Bounds for the rate on two models of a table, on short loads.

`tests/trials/test_pacing.py` has the long ones, and `make bench-table` measures all.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.pacing_loads import LOADS, boto, ddbload


@pytest.mark.parametrize("name", ["fixed 4,000, buckets", "fixed 4,000, metered"])
def test_unique_keys_use_the_capacity_and_few_are_returned(name):
    found = replace(LOADS[name], rows=80_000)(ddbload, 1)
    assert found["used"] >= 0.97
    assert found["returned"] <= 0.06


def test_load_takes_no_longer_than_with_boto():
    load = replace(LOADS["collections of 30, metered"], rows=60_000)
    assert load(ddbload, 1)["wall"] <= 1.03 * load(boto, 1)["wall"]


def test_four_workers_share_a_table_that_counts_by_the_second():
    found = LOADS["four, metered"](ddbload, 1)
    # The goal is 0.95 after 20 s; decision 0010 says what is missing.
    assert found["jain"] >= 0.8
    assert found["of_ideal"] <= 1.15
    assert found["returned"] <= 0.06


def test_application_on_the_same_table_is_served():
    found = replace(LOADS["serving, buckets"], seconds=45)(ddbload, 1)
    assert found["used"] >= 0.97
    assert found["throttled"] <= 0.02
    assert found["failed"] == 0.0
