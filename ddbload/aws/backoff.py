"""Exponential back-off with full jitter.

The rule is from the AWS Builders' Library, "Timeouts, retries and backoff with jitter".
"""

from __future__ import annotations

import math
import random

BASE_SECONDS = 0.05
CAP_SECONDS = 20.0


def full_jitter(
    attempt: int, rng: random.Random, *, base: float = BASE_SECONDS, cap: float = CAP_SECONDS
) -> float:
    """Draw the seconds to wait after attempt number `attempt`, counted from 1: 0 to the ceiling."""
    return rng.uniform(0.0, min(cap, base * 2.0 ** min(attempt, 32)))


MAX_LEVEL = 9
"""Maximum back-off level: waits of up to 20 s."""
THROTTLED_SECONDS = BASE_SECONDS / 4
"""Base of the back-off after throttled requests: one or two may be refused at random."""
REFUSED_LEVEL = 8
"""Maximum back-off level (3.2 s) if everything is refused; above it the rate restarts."""
PATTERN_ANSWERS = 40
"""Number of answers over which refusals are averaged."""
MIN_REFUSED = 4.0
"""Number of refused requests among these from which on they may be random."""
CHANCE, MAX_REPEATED = 1.7, 0.7
"""Maximum share of random refusals that follow another: relative to all answers, and absolute."""


class CongestionBackoff:
    """Back-off of all requests while the table or the network refuses them.

    Like a congestion window, the level rises once for all requests that were in flight together.
    """

    def __init__(self, rng: random.Random) -> None:
        self.until = 0.0
        self.refused_for_long = False
        """True if the table has refused every request for seconds."""
        self._rng = rng
        self._level = 0
        self._raised_at = -math.inf
        self._passed_at = -math.inf
        # Recent answers, refused requests, and those that a lack of capacity may explain.
        self._answers = self._refused = self._explained = 0.0
        self._was_refused = False

    def throttled(self, sent_at: float, now: float) -> None:
        """Back off after a throttled request, unless others passed since it was sent.

        If others pass, the rate is too high, which `AdaptiveRate` corrects; waiting would not help.
        """
        if self._passed_at <= sent_at:
            self.failed(sent_at, now, REFUSED_LEVEL, THROTTLED_SECONDS)
            self.refused_for_long |= self._level >= REFUSED_LEVEL

    def failed(
        self, sent_at: float, now: float, max_level: int = MAX_LEVEL, base: float = BASE_SECONDS
    ) -> None:
        """Raise the level for a request sent at `sent_at` that got no answer."""
        if sent_at >= self._raised_at:
            self._level = max(self._level, min(self._level + 1, max_level))
            self._raised_at = now
        self.until = max(self.until, now + full_jitter(self._level, self._rng, base=base))

    def passed(self, now: float) -> None:
        """Lower the level after a request that passed, twice as fast as it rises."""
        self._passed_at = now
        self.refused_for_long = False
        self._level = max(0, self._level - 2)

    def is_random(self, rows: int, units: int, written: int) -> bool:
        """Return whether a request was refused at random. `written`: its written units.

        A table without capacity returns a part of a request, or refuses one after the other. Random
        refusals follow each other no more often than by chance. Requests of one row show neither.
        """
        if rows < 2:
            return False
        refused, keep = not written, 1 - 1 / PATTERN_ANSWERS
        explained = self._was_refused if refused else written < units
        self._was_refused = refused
        self._answers = keep * self._answers + 1
        self._refused = keep * self._refused + refused
        self._explained = keep * self._explained + explained
        chance = min(MAX_REPEATED, CHANCE * self._refused / self._answers)
        return refused and self._refused > MIN_REFUSED and self._explained < chance * self._refused
