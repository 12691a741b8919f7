"""Bursts of uploads meet every quota, and each version is loaded once.

`python -m tests.sim.bursts` runs them in full size.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.burst_settings import BurstSettings
from tests.sim.burst_simulation import Quotas, simulate
from tests.sim.bursts import ACCOUNTS, check

SETTINGS = BurstSettings.read()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_burst_loads_each_version_once(account: str):
    """At a twentieth of the size, with a twentieth of the quotas."""
    small = scaled(ACCOUNTS[account], 20)
    check(simulate(5000, small, seed=7), 5000)


def scaled(quotas: Quotas, divisor: int) -> Quotas:
    """Divide the quotas of an account; two functions are the fewest for which it matters."""
    return replace(
        quotas,
        bucket=quotas.bucket // divisor,
        refill=quotas.refill / divisor,
        functions=max(2, quotas.functions // divisor),
        map_runs=quotas.map_runs // divisor,
    )


def test_burst_is_lost_if_map_runs_are_refused_and_not_tried_again():
    """The simulation can fail."""
    retriers = {**SETTINGS.retriers, "ImportChunks": []}
    quotas = Quotas(map_runs=5, refuses_map_runs=True)
    burst = simulate(500, quotas, settings=replace(SETTINGS, retriers=retriers))
    assert burst.lost(500) == len(burst.failed) > 5


def test_what_lambda_cannot_be_made_to_read_becomes_a_dead_letter():
    """The worst that the documentation allows: Lambda never retries a batch that it throttled.

    Then messages run out of receives in an account that is busy for hours. They are dead letters,
    which `ddbload replay` moves back, and none is gone.
    """
    quotas = Quotas(functions=2, retries_throttled_batches=False)
    burst = simulate(3000, quotas, settings=replace(SETTINGS, receives=5))
    assert burst.dead_letters
    assert burst.lost(3000) == len(burst.dead_letters - set(burst.runs))
    assert max(burst.runs.values()) == 1
