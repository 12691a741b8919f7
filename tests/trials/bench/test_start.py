"""Budgets of a cold start: what functions import, as deployed, beside botocore's own."""

from __future__ import annotations

from bench.start import BUDGETS, start_costs


def test_functions_start_within_their_budgets():
    costs = start_costs(rounds=9)
    assert {name: units for name, (_, units) in costs.items() if units > BUDGETS.get(name, 1)} == {}
