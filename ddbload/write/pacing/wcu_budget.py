"""Keep a worker within its share of `--max-wcu` and `--max-cost`. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math

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
        if self._balance >= 0 and units_per_second > 0:
            return now
        return now - self._balance / units_per_second if units_per_second > 0 else math.inf

    def take(self, units: float) -> None:
        """Take units out of the bucket; a negative number puts them back."""
        self._balance -= units


FACTOR_WEIGHT = 0.2
"""Weight of the latest answer in the learned factor."""


class WcuBudget:
    """Write capacity units that a worker may send: a second, and in all.

    A request is charged an estimate when it is sent, and the difference to the consumed capacity
    when it is answered. Indexes and overwritten larger items are learned from the answers.

    Another thread may change the limits, one attribute at a time.
    """

    def __init__(self, units_per_second: float | None, now: float) -> None:
        self.units_per_second = units_per_second
        """None: no limit."""
        self.unit_limit: float | None = None
        """Units that may be used in all; None: no limit."""
        self.valid_until = math.inf
        """Time from which nothing may be sent, until the limits are confirmed."""
        self.used = 0.0
        """Units that were consumed, or may have been: estimates for requests in flight."""
        self._bucket = TokenBucket(now)
        # Consumed units for each unit of the rows' size.
        self._factor = 1.0

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds.

        Larger requests would make a small budget flow unevenly.
        """
        rate, limit = self.units_per_second, self.unit_limit
        units = math.inf if rate is None else rate * seconds
        if limit is not None:
            units = min(units, max(0.0, limit - self.used))
        return units / self._factor

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent; infinity while none may."""
        limit, rate = self.unit_limit, self.units_per_second
        if now >= self.valid_until or (limit is not None and self.used >= limit):
            return math.inf
        return now if rate is None else self._bucket.ready_at(rate, now)

    def charge(self, units: int) -> float:
        """Charge a request with rows of these units; return the charge."""
        charge = units * self._factor
        self._take(charge)
        return charge

    def refund(self, charge: float) -> None:
        """Return the charge of a request that DynamoDB refused."""
        self._take(-charge)

    def settle(self, charge: float, units: int, written: int, consumed: float) -> None:
        """Charge the difference for a request of `units`, of which `written` were written.

        `consumed`: units that DynamoDB reports; 0 if it reports none.
        """
        if written and consumed > 0:
            self._factor += FACTOR_WEIGHT * (max(1.0, consumed / written) - self._factor)
        elif written:
            consumed = charge * written / units
        self._take(consumed - charge)

    def _take(self, units: float) -> None:
        self.used += units
        if self.units_per_second is not None:
            self._bucket.take(units)
