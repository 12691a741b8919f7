"""Bounds for the rate on two models of a table; `make bench-table` measures all loads."""

from __future__ import annotations

import pytest

from tests.sim.pacing_loads import LOADS, boto, ddbload


@pytest.mark.parametrize("name", ["fixed 4,000, buckets", "fixed 4,000, metered"])
def test_unique_keys_use_the_capacity_and_few_are_returned(name):
    found = LOADS[name](ddbload, 1)
    assert found["used"] >= 0.97
    assert found["returned"] <= 0.06


@pytest.mark.parametrize("name", ["500, 300 s saved, metered", "collections of 30, metered"])
def test_load_takes_no_longer_than_with_boto(name):
    found, rival = LOADS[name](ddbload, 1), LOADS[name](boto, 1)
    assert found["wall"] <= 1.03 * rival["wall"]


def test_four_workers_share_a_table_that_counts_by_the_second():
    found = LOADS["four, metered"](ddbload, 1)
    # The goal is 0.95 after 20 s; decision 0010 says what is missing.
    assert found["jain"] >= 0.8
    assert found["of_ideal"] <= 1.15
    assert found["returned"] <= 0.06


def test_application_on_the_same_table_is_served():
    found = LOADS["serving, buckets"](ddbload, 1)
    assert found["used"] >= 0.97
    assert found["throttled"] <= 0.02
    assert found["failed"] == 0.0
