"""A token bucket of write units. Pure: time is passed in, in seconds of a monotonic clock."""

from __future__ import annotations

BURST_SECONDS = 0.2
"""How much unused capacity is kept, and how much one request takes at most."""


class TokenBucket:
    """Units that may go. A request may go into debt, and the next one waits until it is paid off.

    It is empty at first, and open.
    """

    def __init__(self, now: float) -> None:
        self._balance = 0.0
        self._at = now

    def ready_at(self, units_per_second: float, now: float) -> float:
        """When a request may go, where so many units come in: `now`, or a later time."""
        came = (now - self._at) * units_per_second
        self._balance = min(units_per_second * BURST_SECONDS, self._balance + came)
        self._at = now
        return now if self._balance >= 0 else now - self._balance / units_per_second

    def take(self, units: float) -> None:
        """Let so many units go; fewer than none: give them back."""
        self._balance -= units


LEARNING = 0.2
"""The weight of the latest answer in what a budget learns."""


class WcuBudget:
    """A token bucket of write capacity units (`max_wcu`), fed by what DynamoDB says it used.

    A request pays an estimate when it goes, and the difference when it is answered. What an
    estimate cannot know (indexes, larger items that are overwritten) is learned from the answers.
    """

    def __init__(self, units_per_second: float, now: float) -> None:
        self.units_per_second = units_per_second
        self._bucket = TokenBucket(now)
        # Units used for each unit of the rows' own size.
        self._factor = 1.0

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Rows of how many units one request may carry, that takes so many seconds.

        No more than that, so that a small budget flows evenly.
        """
        return self.units_per_second * seconds / self._factor

    def ready_at(self, now: float) -> float:
        """When a request may go: `now`, or the time by which the debt is paid off."""
        return self._bucket.ready_at(self.units_per_second, now)

    def pay(self, units: int) -> float:
        """Pay for a request with rows of so many units; what was paid."""
        paid = units * self._factor
        self._bucket.take(paid)
        return paid

    def refund(self, paid: float) -> None:
        """Give back what was paid for a request that DynamoDB refused."""
        self._bucket.take(-paid)

    def settle(self, paid: float, units: int, written: int, used: float) -> None:
        """Pay the difference for a request with rows of `units`, of which `written` were written.

        `used`: what DynamoDB says, 0 where it says nothing.
        """
        if written and used > 0:
            self._factor += LEARNING * (max(1.0, used / written) - self._factor)
        elif written:
            used = paid * written / units
        self._bucket.take(used - paid)
