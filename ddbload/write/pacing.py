"""When the next request may go. Pure: time is passed in, in seconds of a monotonic clock."""

from __future__ import annotations

import random

from ddbload.aws_http.backoff import full_jitter

BURST_SECONDS = 0.2
"""How much unused capacity a budget keeps, and how much one request takes at most."""
LEARNING = 0.2
"""The weight of the latest answer in what a budget learns."""
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
    """A token bucket of write capacity units (`max_wcu`), fed by what DynamoDB says it used.

    A request pays an estimate when it goes, and the difference when it is answered. What an
    estimate cannot know (indexes, larger items that are overwritten) is learned from the answers.
    """

    def __init__(self, units_per_second: float, now: float) -> None:
        self.units_per_second = units_per_second
        self._rate = units_per_second
        self._balance = 0.0
        self._at = now
        # Units used for each unit of the rows' own size.
        self._factor = 1.0

    @property
    def request_units(self) -> float:
        """Rows of how many units one request may carry, so that a small budget flows evenly."""
        return self._rate * BURST_SECONDS / self._factor

    def ready_at(self, now: float) -> float:
        """When a request may go: `now`, or the time by which the debt is paid off."""
        self._balance = min(
            self._rate * BURST_SECONDS, self._balance + (now - self._at) * self._rate
        )
        self._at = now
        return now if self._balance >= 0 else now - self._balance / self._rate

    def pay(self, units: int) -> float:
        """Pay for a request with rows of so many units; what was paid."""
        paid = units * self._factor
        self._balance -= paid
        return paid

    def refund(self, paid: float) -> None:
        """Give back what was paid for a request that DynamoDB refused."""
        self._balance += paid

    def settle(self, paid: float, units: int, written: int, used: float) -> None:
        """Pay the difference for a request with rows of `units`, of which `written` were written.

        `used`: what DynamoDB says, 0 where it says nothing.
        """
        if written and used > 0:
            self._factor += LEARNING * (max(1.0, used / written) - self._factor)
        elif written:
            used = paid * written / units
        self._balance += paid - used


class Pacing:
    """What slows a worker down, kept from one byte range to the next."""

    def __init__(self, rng: random.Random, max_wcu: float | None = None, now: float = 0.0) -> None:
        self.calm = Calm(rng)
        self.budget = None if max_wcu is None else Budget(max_wcu, now)
