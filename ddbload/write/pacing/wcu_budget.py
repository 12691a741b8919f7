"""Keep a worker within `--max-wcu` by a token bucket of write units. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

BURST_SECONDS = 0.2
"""Seconds of unused capacity that are kept, and that one request may take."""


class TokenBucket:
    """Token bucket of write units; a request may overdraw it, and the next one waits.

    It starts empty, so the first request may be sent at once.
    """

    def __init__(self, now: float) -> None:
        self._balance = 0.0
        self._refilled_at = now

    def ready_at(self, units_per_second: float, now: float) -> float:
        """Compute when a request may be sent: `now`, or when the overdraft is refilled."""
        refill = (now - self._refilled_at) * units_per_second
        self._balance = min(units_per_second * BURST_SECONDS, self._balance + refill)
        self._refilled_at = now
        return now if self._balance >= 0 else now - self._balance / units_per_second

    def take(self, units: float) -> None:
        """Take units out of the bucket; a negative number puts them back."""
        self._balance -= units


FACTOR_WEIGHT = 0.2
"""Weight of the latest answer in the learned factor."""


class WcuBudget:
    """Budget of write capacity units a second (`max_wcu`).

    A request is charged an estimate when it is sent, and the difference to the consumed capacity
    when it is answered. Indexes and overwritten larger items are learned from the answers.
    """

    def __init__(self, units_per_second: float, now: float) -> None:
        self.units_per_second = units_per_second
        self._bucket = TokenBucket(now)
        # Consumed units for each unit of the rows' size.
        self._factor = 1.0

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds.

        Larger requests would make a small budget flow unevenly.
        """
        return self.units_per_second * seconds / self._factor

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent: `now`, or when the overdraft is refilled."""
        return self._bucket.ready_at(self.units_per_second, now)

    def charge(self, units: int) -> float:
        """Charge a request with rows of these units; return the charge."""
        charge = units * self._factor
        self._bucket.take(charge)
        return charge

    def refund(self, charge: float) -> None:
        """Return the charge of a request that DynamoDB refused."""
        self._bucket.take(-charge)

    def settle(self, charge: float, units: int, written: int, consumed: float) -> None:
        """Charge the difference for a request of `units`, of which `written` were written.

        `consumed`: units that DynamoDB reports; 0 if it reports none.
        """
        if written and consumed > 0:
            self._factor += FACTOR_WEIGHT * (max(1.0, consumed / written) - self._factor)
        elif written:
            consumed = charge * written / units
        self._bucket.take(consumed - charge)
