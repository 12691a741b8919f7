"""Budgets of a cold start: what functions import, as deployed, beside botocore's own."""

from __future__ import annotations

from bench.start import (
    BUDGETS,
    CLIENT,
    SMALL_IMPORT,
    SMALL_IMPORT_BUDGET,
    command_costs,
    start_costs,
)


def test_functions_start_within_their_budgets():
    costs = start_costs(rounds=9)
    assert {name: units for name, (_, units) in costs.items() if units > BUDGETS.get(name, 1)} == {}


def test_small_import_costs_little_more_than_a_client():
    costs = command_costs(rounds=15)
    assert costs[SMALL_IMPORT] <= SMALL_IMPORT_BUDGET * costs[CLIENT]
