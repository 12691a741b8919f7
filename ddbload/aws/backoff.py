"""Exponential back-off with full jitter.

The rule is that of the AWS Builders' Library, "Timeouts, retries and backoff with jitter".
"""

from __future__ import annotations

import random

BASE_SECONDS = 0.05
CAP_SECONDS = 20.0


def full_jitter(
    attempt: int, rng: random.Random, *, base: float = BASE_SECONDS, cap: float = CAP_SECONDS
) -> float:
    """Seconds to wait before try `attempt` + 1, counted from 1: uniform from 0 to the ceiling."""
    return rng.uniform(0.0, min(cap, base * 2.0 ** min(attempt, 32)))
