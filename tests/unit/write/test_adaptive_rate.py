"""Adaptive rate: how it follows the units that a table returns."""

from __future__ import annotations

import itertools
import math

import pytest

from ddbload.write.pacing.adaptive_rate import (
    EARLY_CUT_UNITS,
    KNOWN_RATE_RISE,
    MAX_UNDECIDED_SECONDS,
    MIN_UNITS_PER_SECOND,
    PERIOD,
    RISE_PER_SECOND,
    AdaptiveRate,
)


def report(
    rate: AdaptiveRate, start: float, seconds: float, share: float, units: float | None = None
) -> float:
    """Report answers of some seconds that returned `share` of their units; return the end time."""
    for tenth in range(round(seconds * 10)):
        now = start + (tenth + 1) / 10
        sent = units or rate.units_per_second
        whole = round(1000 * sent / 10)
        rate.answered(whole / 1000, whole * share / 1000, now - 0.001, now)
    return start + seconds


def limited(units_per_second: float) -> AdaptiveRate:
    """Make a rate that has found its limit."""
    rate = AdaptiveRate()
    report(rate, 0.0, PERIOD, 0.5, 2 * units_per_second)
    assert rate.units_per_second == pytest.approx(units_per_second)
    # No higher rate was ever taken.
    rate._taken_rate = rate.units_per_second
    return rate


def test_rate_is_unlimited_before_the_first_return():
    rate = AdaptiveRate()
    report(rate, 0.0, 60.0, 0.0, 50_000.0)
    assert rate.units_per_second == math.inf
    assert rate.ready_at(60.0) == 60.0
    assert rate.request_units() == math.inf


def test_rate_starts_at_the_taken_units_after_the_first_return():
    rate = AdaptiveRate()
    report(rate, 0.0, PERIOD, 0.2, 5000.0)
    assert rate.units_per_second == pytest.approx(4000.0)


def test_rate_stays_unlimited_when_few_units_were_sent():
    rate = AdaptiveRate()
    rate.answered(10, 9, 0.0, 0.005)
    assert rate.units_per_second == math.inf


def test_rate_falls_at_once_when_most_units_are_returned():
    rate = AdaptiveRate()
    rate.answered(EARLY_CUT_UNITS, EARLY_CUT_UNITS, 0.0, 0.05)
    assert rate.units_per_second == pytest.approx(EARLY_CUT_UNITS / 0.1 / 2)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
def test_rate_falls_by_the_returned_share(share):
    rate = limited(1000.0)
    report(rate, PERIOD, PERIOD, share)
    # Raised by the usual share.
    assert rate.units_per_second == pytest.approx(1000 * (1 - share) * (1 + RISE_PER_SECOND))


def test_rate_never_falls_below_half_in_one_change():
    rate = limited(1000.0)
    rate.answered(EARLY_CUT_UNITS, EARLY_CUT_UNITS, PERIOD, PERIOD + 0.01)
    assert rate.units_per_second >= 500.0


def test_rate_keeps_its_minimum_when_everything_is_returned():
    rate = limited(1000.0)
    report(rate, PERIOD, 1000.0, 1.0)
    assert MIN_UNITS_PER_SECOND <= rate.units_per_second <= 1.1 * MIN_UNITS_PER_SECOND


def test_rate_rises_faster_the_longer_nothing_is_returned():
    rate = limited(1000.0)
    now, found = PERIOD, [1000.0]
    for _ in range(100):
        now = report(rate, now, PERIOD, 0.0)
        found.append(rate.units_per_second)
    steps = [after / before - 1 for before, after in itertools.pairwise(found)]
    assert steps[0] < 2 * RISE_PER_SECOND
    assert all(after >= before - 1e-3 for before, after in itertools.pairwise(steps))
    assert 0.024 < steps[-1] <= 0.0301


def test_rate_recovers_soon_after_an_outage():
    rate = limited(1000.0)
    now = report(rate, PERIOD, 60.0, 0.0)
    before = rate.units_per_second
    now = report(rate, now, 10.0, 1.0)
    assert rate.units_per_second < before / 100
    needed = math.log(before / rate.units_per_second, KNOWN_RATE_RISE)
    # At the minimum rate, the first seconds after the outage bring little evidence.
    report(rate, now, math.ceil(needed) + 1 + MAX_UNDECIDED_SECONDS, 0.0)
    # The first second of the outage counts like any other second.
    assert rate.units_per_second >= 0.75 * before


def test_rate_does_not_rise_when_requests_do_not_use_it():
    rate = limited(1000.0)
    report(rate, PERIOD, 100.0, 0.0, units=100.0)
    assert rate.units_per_second == 1000.0


def test_rate_ignores_requests_sent_before_its_last_change():
    rate = limited(1000.0)
    for _ in range(100):
        rate.answered(25, 25, PERIOD - 0.01, PERIOD + 0.1)
    assert rate.units_per_second == 1000.0


def test_rate_delays_requests_after_its_burst_is_used():
    rate = limited(1000.0)
    assert rate.ready_at(PERIOD) == PERIOD
    rate.charge(25)
    assert rate.ready_at(PERIOD) == pytest.approx(PERIOD + 0.025)
    assert rate.ready_at(PERIOD + 0.03) == PERIOD + 0.03
    # At most a fifth of a second is saved.
    rate.ready_at(100.0)
    rate.charge(round(rate.request_units()))
    assert rate.ready_at(100.0) == 100.0
    rate.charge(1)
    assert rate.ready_at(100.0) > 100.0


def test_rate_waits_for_enough_evidence_when_few_units_are_sent():
    rate = AdaptiveRate(0.0, 10.0)
    # One of ten, every second.
    for now in (1.0, 2.0):
        rate.answered(10, 1, now - 0.1, now)
        assert rate.units_per_second == 10.0
    rate.answered(10, 1, 2.9, 3.0)
    assert 8.5 <= rate.units_per_second <= 9.2


def test_rate_ignores_a_single_returned_row():
    rate = limited(1000.0)
    rate.answered(1, 1, PERIOD + 1, PERIOD + 2)
    assert rate.units_per_second == pytest.approx(1000.0)


def test_rate_falls_at_once_when_most_of_few_units_are_returned():
    rate = AdaptiveRate(0.0, 10.0)
    rate.answered(2, 2, 0.2, 0.3)
    rate.answered(3, 2, 0.7, 0.8)
    assert rate.units_per_second <= 6.0


def test_rate_is_decided_within_seconds_with_little_evidence():
    rate = limited(1000.0)
    for second in range(1, 7):
        rate.answered(1, int(second == 1), PERIOD + second - 0.1, PERIOD + second)
    assert rate.units_per_second < 1000.0


@pytest.mark.parametrize("units", [24, 1000])
def test_rate_stays_unlimited_when_few_of_many_units_are_returned(units):
    rate = AdaptiveRate()
    report(rate, 0.0, 0.9, 0.0, units)
    rate.answered(units / 10, units / 200, 0.9, 1.0)
    assert rate.units_per_second == math.inf


def test_rate_falls_little_when_little_is_sent_and_returned():
    rate = limited(1000.0)
    report(rate, PERIOD, PERIOD, 0.02, units=100.0)
    assert rate.units_per_second == pytest.approx(960.0)


def test_rate_ignores_pauses_between_requests():
    rate = AdaptiveRate()
    # Nothing to send for an hour, then a burst of which half comes back.
    rate.answered(2000, 1000, 3600.0, 3600.5)
    rate.answered(2000, 1000, 3600.5, 3601.0)
    assert rate.units_per_second == pytest.approx(2000.0)
    later = 7200.0
    report(rate, later, PERIOD, 0.5)
    assert rate.units_per_second >= 999.0


def test_rate_rises_by_the_given_share():
    slow, fast = AdaptiveRate(0.0, 1000.0), AdaptiveRate(0.0, 1000.0, rise=10 * RISE_PER_SECOND)
    for rate in (slow, fast):
        report(rate, 0.0, PERIOD, 0.0)
    assert fast.units_per_second > 1025.0
    assert slow.units_per_second < 1005.0
