"""When the next request may go. Pure: time is passed in, in seconds of a monotonic clock."""

from __future__ import annotations

import random

from ddbload.aws_http.backoff import full_jitter

BURST_SECONDS = 0.2
"""How much unused capacity a budget keeps."""
MAX_LEVEL = 9


class Calm:
    """Holds all requests back while the table, or the network, refuses them.

    Like a congestion window, the level rises once for all requests that were under way
    together, and falls with each request that passes.
    """

    def __init__(self, rng: random.Random) -> None:
        self.until = 0.0
        self._rng = rng
        self._level = 0
        self._raised_at = float("-inf")

    def trouble(self, sent_at: float, now: float) -> None:
        """A request sent at `sent_at` was refused, or not answered."""
        if sent_at >= self._raised_at:
            self._level = min(self._level + 1, MAX_LEVEL)
            self._raised_at = now
        self.until = max(self.until, now + full_jitter(self._level, self._rng))

    def passed(self) -> None:
        """A request was answered well."""
        self._level = max(0, self._level - 1)


class Budget:
    """A token bucket of write capacity units (`max_wcu`), fed by what DynamoDB says it used."""

    def __init__(self, units_per_second: float, now: float) -> None:
        self._rate = units_per_second
        self._balance = 0.0
        self._at = now

    def ready_at(self, now: float) -> float:
        """When a request may go: `now`, or the time by which the debt is paid off."""
        self._balance = min(
            self._rate * BURST_SECONDS, self._balance + (now - self._at) * self._rate
        )
        self._at = now
        return now if self._balance >= 0 else now - self._balance / self._rate

    def spend(self, units: float) -> None:
        """Take units away: an estimate when a request goes, the difference when it is answered."""
        self._balance -= units
