"""Adaptive rate: how it follows the units that a table returns."""

from __future__ import annotations

import math
import random

import pytest

from ddbload.write.pacing.pacing import (
    FIRST_RISE,
    FIRST_SHARE,
    MIN_UNITS_PER_SECOND,
    AdaptiveRate,
    Pacing,
    due_share,
)


def report(
    rate: AdaptiveRate, start: float, seconds: float, share: float, units: float | None = None
) -> float:
    """Report 40 answers a second that returned `share` of their units; return the end time."""
    now = start
    for _ in range(round(seconds * 40)):
        now += 1 / 40
        sent = (units or rate.units_per_second) / 40
        rate.answered(sent, sent * share, now - 0.001, now)
    return now


def follow(rate: AdaptiveRate, start: float, seconds: float, capacity: float) -> float:
    """Let a table take `capacity` units a second, evenly; return the end time."""
    now = start
    for _ in range(round(seconds * 40)):
        now += 1 / 40
        sent = rate.units_per_second / 40
        rate.answered(sent, max(0.0, sent - capacity / 40), now - 0.001, now)
    return now


def test_more_returned_units_of_a_full_partition_do_not_lower_the_rate_less():
    def after(share: float) -> float:
        rate, now = AdaptiveRate(0.0, 600.0), 0.0
        for _ in range(100):
            now += 25 / rate.units_per_second
            rate.answered(25, share * 25, now - 0.01, now, 1 / 3)
        return rate.units_per_second

    # Both are near the least rate.
    assert after(0.4) <= 2 * after(0.3)


def test_rate_doubles_in_a_quarter_of_a_second_until_units_are_returned():
    rate = AdaptiveRate(capacity=2000.0)
    first = rate.units_per_second
    assert first == 2000.0 * FIRST_SHARE
    report(rate, 0.0, 0.5, 0.0)
    assert rate.units_per_second >= 4 * first
    assert rate.units_per_second <= first * math.exp(0.5 * FIRST_RISE)


@pytest.mark.parametrize("capacity", [20.0, 100.0, 1000.0, 4000.0, 30_000.0])
def test_rate_settles_where_the_due_share_is_returned(capacity):
    rate = AdaptiveRate(0.0, 1.2 * capacity, capacity=capacity)
    now = follow(rate, 0.0, 60.0, capacity)
    found = []
    for _ in range(30):
        now = follow(rate, now, 1.0, capacity)
        found.append(rate.units_per_second)
    mean = sum(found) / len(found)
    assert mean == pytest.approx(capacity * (1 + due_share(capacity, capacity)), rel=0.03)


def test_overload_does_not_lower_the_rate_below_the_units_taken():
    """Return everything in the last quarter of each second, as a table that counts by the second
    does."""
    rate = AdaptiveRate(0.0, 1000.0)
    lowest = math.inf
    for tick in range(1, 40 * 10):
        units = rate.units_per_second / 40
        rate.answered(units, units if tick % 40 >= 36 else 0.0, tick / 40, tick / 40)
        if tick > 40:
            lowest = min(lowest, rate.units_per_second)
        if tick == 80:
            break
    assert lowest >= 0.8 * 900.0


def test_answer_without_evidence_changes_nothing():
    rate = AdaptiveRate(0.0, 1000.0)
    rate.answered(0, 0, 0.0, 0.1)
    assert rate.units_per_second == 1000.0


@pytest.mark.parametrize("seed", range(5))
def test_rate_stays_within_its_bounds_whatever_is_returned(seed):
    rng = random.Random(seed)
    rate, now = AdaptiveRate(0.0, rng.choice((None, 10.0, 4000.0))), 0.0
    for _ in range(3000):
        now += rng.expovariate(1.0) * rng.choice((0.0, 0.01, 5.0))
        units = rng.randint(1, 400)
        before = rate.units_per_second
        rate.answered(units, rng.choice((0, 0, 1, units // 2, units)), now - 0.01, now)
        after = rate.units_per_second
        assert after >= MIN_UNITS_PER_SECOND
        assert after <= before * 1.5 + 25 * units
        assert not math.isnan(after)


def test_rate_begins_with_a_share_of_the_capacity_of_the_table():
    for capacity, first in ((None, 500.0), (16.0, 2.0), (1000.0, 125.0), (40_000.0, 5000.0)):
        assert Pacing(random.Random(1), capacity=capacity).limit == first
    small = Pacing(random.Random(1), capacity=16.0)
    assert small.request_units(1) == pytest.approx(0.16)
    small.send(25, 25, 0.0)
    assert small.ready_at(0.0) > 3.0


def test_rate_falls_to_the_capacity_when_more_was_taken_for_a_time():
    rate = AdaptiveRate(capacity=1000.0)
    now = report(rate, 0.0, 1.5, 0.0)
    assert rate.units_per_second > 5000.0
    report(rate, now, 0.1, 0.9)
    assert rate.units_per_second <= 1010.0
