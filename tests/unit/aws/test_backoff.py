from __future__ import annotations

import random

import pytest

from ddbload.aws.backoff import BASE_SECONDS, CAP_SECONDS, full_jitter


class Longest(random.Random):
    def uniform(self, low: float, high: float) -> float:
        assert low == 0.0
        return high


def test_ceiling_doubles_with_each_attempt():
    rng = Longest()
    assert [full_jitter(attempt, rng, base=1.0, cap=10.0) for attempt in range(1, 6)] == [
        2.0,
        4.0,
        8.0,
        10.0,
        10.0,
    ]


def test_ceiling_is_capped():
    assert full_jitter(1, Longest()) == 2 * BASE_SECONDS
    assert full_jitter(50, Longest()) == CAP_SECONDS


@pytest.mark.parametrize("attempt", [33, 1000, 10**9])
def test_large_attempt_number_does_not_overflow(attempt):
    assert full_jitter(attempt, Longest()) == CAP_SECONDS


def test_pause_is_spread_over_the_whole_range():
    rng = random.Random(1)
    waits = [full_jitter(4, rng, base=1.0, cap=8.0) for _ in range(1000)]
    tenths = {int(wait / 0.8) for wait in waits}
    assert tenths == set(range(10))


def test_pause_is_reproducible_with_the_same_seed():
    first, second = random.Random(7), random.Random(7)
    assert [full_jitter(n, first) for n in range(9)] == [full_jitter(n, second) for n in range(9)]
