"""Adaptive rate: how it follows the units that a table returns."""

from __future__ import annotations

import math
import random

import pytest

from ddbload.write.pacing.adaptive_rate import (
    FIRST_RATE,
    FIRST_RISE,
    FREE_UNITS,
    LUMP_SECONDS,
    MAX_DUE,
    MAX_QUIET_RISE,
    MIN_UNITS_PER_SECOND,
    AdaptiveRate,
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


def test_first_units_need_not_wait():
    rate = AdaptiveRate()
    assert rate.request_units() == math.inf
    rate.charge(FREE_UNITS)
    assert rate.ready_at(0.0) == 0.0
    assert rate.request_units() == FIRST_RATE * LUMP_SECONDS
    rate.charge(10)
    assert rate.ready_at(0.0) == pytest.approx(10 / FIRST_RATE)


def test_rate_doubles_in_a_quarter_of_a_second_until_units_are_returned():
    rate = AdaptiveRate()
    now = report(rate, 0.0, 0.1, 0.0, 10 * FREE_UNITS)
    assert rate.units_per_second == FIRST_RATE
    report(rate, now, 0.5, 0.0)
    assert rate.units_per_second >= 4 * FIRST_RATE
    assert rate.units_per_second <= FIRST_RATE * math.exp(0.5 * FIRST_RISE)


def test_rate_begins_with_the_units_taken_in_the_last_second():
    rate = AdaptiveRate()
    now = report(rate, 0.0, 3.0, 0.0)
    before = rate.units_per_second
    now = report(rate, now, 3.0, 0.0, 5000.0)
    assert before > 5000.0
    rate.answered(25, 25, now, now + 0.01)
    assert rate.units_per_second == pytest.approx(5000.0, rel=0.35)


def test_rate_begins_no_lower_than_the_first_rate():
    rate = AdaptiveRate()
    rate.answered(25, 25, 0.0, 0.01)
    assert rate.units_per_second == FIRST_RATE
    assert rate.request_units() == FIRST_RATE * LUMP_SECONDS


def test_free_units_do_not_count_for_the_first_rate():
    rate = AdaptiveRate()
    for _ in range(round(FREE_UNITS / 25) + 4):
        rate.answered(25, 0, 0.0, 0.01)
    rate.answered(25, 25, 0.0, 0.01)
    assert rate.units_per_second == FIRST_RATE


def test_rate_restarts_after_the_table_took_nothing():
    rate = AdaptiveRate(0.0, 1000.0)
    now = report(rate, 0.0, 20.0, 1.0)
    assert rate.units_per_second < 10.0
    rate.restart()
    assert rate.units_per_second == FIRST_RATE
    report(rate, now, 0.5, 0.0)
    assert rate.units_per_second >= 4 * FIRST_RATE


def test_rate_that_was_not_lowered_goes_on_after_the_table_took_nothing():
    rate = AdaptiveRate(0.0, 4000.0)
    rate.restart()
    assert rate.units_per_second == 4000.0


@pytest.mark.parametrize("capacity", [20.0, 100.0, 1000.0, 4000.0, 30_000.0])
def test_rate_settles_where_the_due_share_is_returned(capacity):
    rate = AdaptiveRate(0.0, 1.2 * capacity)
    now = follow(rate, 0.0, 60.0, capacity)
    found = []
    for _ in range(30):
        now = follow(rate, now, 1.0, capacity)
        found.append(rate.units_per_second)
    mean = sum(found) / len(found)
    assert mean == pytest.approx(capacity * (1 + due_share(capacity)), rel=0.03)


def test_due_share_falls_with_the_rate_and_has_a_maximum():
    shares = [due_share(rate) for rate in (1.0, 5.0, 100.0, 500.0, 1000.0, 4000.0, 40_000.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == shares[1] == MAX_DUE
    assert due_share(math.inf) == 0.0


def test_slow_worker_gains_on_a_fast_one_that_is_refused_the_same_share():
    slow, fast = AdaptiveRate(0.0, 200.0), AdaptiveRate(0.0, 2000.0)
    for tick in range(40 * 30):
        total = slow.units_per_second + fast.units_per_second
        share = max(0.0, 1 - 2200.0 / total)
        for rate in (slow, fast):
            units = rate.units_per_second / 40
            rate.answered(units, units * share, tick / 40, tick / 40)
    assert slow.units_per_second / fast.units_per_second > 0.4


def test_rate_falls_within_a_second_when_little_is_taken():
    rate = AdaptiveRate(0.0, 20_000.0)
    now = report(rate, 0.0, 2.0, 0.0)
    follow(rate, now, 1.5, 500.0)
    assert rate.units_per_second <= 650.0


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


def test_rate_rises_faster_the_longer_nothing_is_returned():
    rate = AdaptiveRate(0.0, 1000.0)
    now = follow(rate, 0.0, 30.0, 1000.0)
    before = rate.units_per_second
    now = report(rate, now, 1.0, 0.0)
    assert rate.units_per_second < 1.1 * before
    report(rate, now, 5.0, 0.0)
    assert rate.units_per_second > 3.0 * before


def test_rate_rises_by_no_more_than_its_maximum():
    rate = AdaptiveRate(0.0, 1000.0)
    now = report(rate, 0.0, 10.0, 0.0)
    before = rate.units_per_second
    report(rate, now, 0.5, 0.0)
    assert rate.units_per_second <= before * math.exp(0.5 * MAX_QUIET_RISE) * 1.01


def test_rate_keeps_its_minimum_when_everything_is_returned():
    rate = AdaptiveRate(0.0, 1000.0)
    report(rate, 0.0, 300.0, 1.0)
    assert rate.units_per_second == MIN_UNITS_PER_SECOND
    assert rate.at_minimum


def test_rate_recovers_soon_after_an_outage():
    rate = AdaptiveRate(0.0, 4000.0)
    now = follow(rate, 0.0, 30.0, 4000.0)
    now = report(rate, now, 10.0, 1.0)
    assert rate.units_per_second < 40.0
    follow(rate, now, 40.0, 4000.0)
    assert rate.units_per_second >= 3600.0


def test_rate_does_not_rise_when_requests_do_not_use_it():
    rate = AdaptiveRate(0.0, 1000.0)
    report(rate, 0.0, 100.0, 0.0, units=100.0)
    assert rate.units_per_second <= 1001.0


def test_unused_rate_falls_to_what_is_sent_when_units_are_returned():
    rate = AdaptiveRate(0.0, 80_000.0)
    now = report(rate, 0.0, 3.0, 0.0, units=100.0)
    rate.answered(2.5, 2.5, now, now)
    assert rate.units_per_second <= 500.0


def test_first_return_after_a_fast_rise_takes_the_rise_back():
    rate = AdaptiveRate(0.0, 1000.0)
    now = follow(rate, 0.0, 30.0, 1000.0)
    now = report(rate, now, 6.0, 0.0)
    risen = rate.units_per_second
    rate.answered(25, 5, now, now)
    assert 1000.0 <= rate.units_per_second <= 0.9 * risen


def test_rate_delays_requests_after_its_burst_is_used():
    rate = AdaptiveRate(0.0, 1000.0)
    assert rate.ready_at(1.0) == 1.0
    rate.charge(round(rate.request_units(LUMP_SECONDS)) + 200)
    assert rate.ready_at(1.0) > 1.0
    assert rate.ready_at(2.0) == 2.0


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
        assert after <= max(before * 1.5, FIRST_RATE) + 25 * units
        assert not math.isnan(after)
