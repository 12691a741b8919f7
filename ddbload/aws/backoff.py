"""Exponential back-off with full jitter.

The rule is from the AWS Builders' Library, "Timeouts, retries and backoff with jitter".
"""

from __future__ import annotations

import random

BASE_SECONDS = 0.05
CAP_SECONDS = 20.0


def full_jitter(
    attempt: int, rng: random.Random, *, base: float = BASE_SECONDS, cap: float = CAP_SECONDS
) -> float:
    """Draw the seconds to wait after attempt number `attempt`, counted from 1: 0 to the ceiling."""
    return rng.uniform(0.0, min(cap, base * 2.0 ** min(attempt, 32)))
