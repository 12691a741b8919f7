from __future__ import annotations

import random

from ddbload.aws.backoff import BASE_SECONDS
from ddbload.write.pacing.pacing import BURST_SECONDS, CongestionBackoff, Pacing, WcuBudget


class Longest(random.Random):
    """Random numbers at the upper end of their range."""

    def uniform(self, _low: float, high: float) -> float:
        return high


def make_backoff() -> CongestionBackoff:
    return CongestionBackoff(Longest(1))


def wait(backoff: CongestionBackoff, now: float) -> float:
    """Compute the wait until `until`, in units of `BASE_SECONDS`."""
    return round((backoff.until - now) / BASE_SECONDS, 6)


def test_backoff_doubles_with_each_failure():
    backoff = make_backoff()
    now = 0.0
    for raised in range(1, 8):
        backoff.failed(now, now + 0.01)
        assert wait(backoff, now + 0.01) == 2**raised
        now = backoff.until


def test_backoff_rises_once_for_requests_in_flight_together():
    backoff = make_backoff()
    for _ in range(16):
        backoff.failed(0.0, 1.0)
    assert wait(backoff, 1.0) == 2


def test_backoff_falls_two_levels_with_each_request_that_passes():
    backoff = make_backoff()
    for now in range(5):
        backoff.failed(now, now)
    backoff.passed(0.0)
    backoff.failed(100.0, 100.0)
    assert wait(backoff, 100.0) == 2**4


def test_a_refusal_is_an_answer_that_ends_the_backoff():
    # Rows of one object are refused one after the other, and nothing else is answered.
    pacing, now = Pacing(random.Random(1)), 0.0
    for _ in range(200):
        for answered in (pacing.unsure, pacing.refused, pacing.refused):
            now = max(now, pacing.ready_at(now))
            answered(pacing.send(1, 1, now), now)
    assert now < 200 * 2 * BASE_SECONDS


def test_backoff_never_shortens_a_wait():
    backoff = CongestionBackoff(random.Random(1))
    ends = []
    for _ in range(100):
        backoff.failed(0.0, 1.0)
        ends.append(backoff.until)
    assert ends == sorted(ends)
    assert ends[0] < ends[-1] <= 1.0 + 2 * BASE_SECONDS


def test_budget_delays_requests_until_the_overdraft_is_refilled():
    budget = WcuBudget(100.0, 0.0)
    budget.charge(50)
    assert budget.ready_at(0.25) == 0.5
    assert budget.ready_at(0.5) == 0.5
    assert budget.ready_at(0.75) == 0.75


def test_settle_charges_units_beyond_the_estimate():
    budget = WcuBudget(100.0, 0.0)
    budget.settle(budget.charge(10), 10, 10, 30.0)
    assert budget.ready_at(0.0) == 0.3


def test_settle_refunds_unwritten_units():
    budget = WcuBudget(100.0, 0.0)
    budget.settle(budget.charge(10), 10, 4, 4.0)
    assert budget.ready_at(0.0) == 0.04
    budget.settle(budget.charge(10), 10, 0, 0.0)
    assert budget.ready_at(0.0) == 0.04


def test_budget_learns_a_steady_factor():
    budget = WcuBudget(100.0, 0.0)
    for _ in range(50):
        budget.settle(budget.charge(10), 10, 10, 40.0)
    assert round(budget.charge(10), 2) == 40
    assert round(budget.request_units(), 2) == 100 * BURST_SECONDS / 4
