"""Decide when the next request may be sent. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ddbload.aws.backoff import full_jitter
from ddbload.write.pacing.adaptive_rate import (
    BURST_SECONDS,
    LUMP_SECONDS,
    REQUEST_MARGIN,
    AdaptiveRate,
    TokenBucket,
)

MAX_LEVEL = 9
"""Highest back-off level: waits of up to 20 s."""
REFUSED_LEVEL = 6
"""Highest back-off level while the table refuses everything, and level from which on the rate is
found anew afterwards. Waits are up to 3.2 s, so that a table that takes rows again is not left
unused."""
JITTER = 0.1
"""Share by which a request's charge varies: writers in step would meet the limit together."""
LATENCY_WEIGHT = 0.2
"""Weight of the latest answer in the average latency."""
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


class CongestionBackoff:
    """Back-off of all requests while the table or the network refuses them.

    Like a congestion window, the level rises once for all requests that were in flight together,
    and falls with each request that passes.
    """

    def __init__(self, rng: random.Random) -> None:
        self.until = 0.0
        self.refused_for_long = False
        """The table has refused every request for seconds."""
        self._rng = rng
        self._level = 0
        self._raised_at = -math.inf
        self._passed_at = -math.inf

    def throttled(self, sent_at: float, now: float) -> None:
        """Back off after a throttled request, unless others passed since it was sent.

        If others pass, the rate is too high (`AdaptiveRate`), and waiting would not help.
        """
        if self._passed_at <= sent_at:
            self.failed(sent_at, now, REFUSED_LEVEL)
            self.refused_for_long |= self._level >= REFUSED_LEVEL

    def failed(self, sent_at: float, now: float, max_level: int = MAX_LEVEL) -> None:
        """Raise the level for a request sent at `sent_at` that was not answered."""
        if sent_at >= self._raised_at:
            self._level = max(self._level, min(self._level + 1, max_level))
            self._raised_at = now
        self.until = max(self.until, now + full_jitter(self._level, self._rng))

    def passed(self, now: float) -> None:
        """Lower the level: a request passed."""
        self._passed_at = now
        self.refused_for_long = False
        self._level = max(0, self._level - 1)


@dataclass(slots=True)
class SentUnits:
    """Write units of a request: sent, and returned by the table for want of capacity."""

    at: float = 0.0
    units: int = 0
    """Write units of the rows."""
    charge: float = 0.0
    """Units charged to the budget."""
    returned: int = 0
    """Returned units, without those that a hot key explains."""
    evidence: int = 0
    """Returned units of rows that were not returned again and again before."""
    ignored: int = 0
    """Returned units that are no evidence for other rows."""


class Pacing:
    """Limits on a worker's requests, kept from one byte range to the next."""

    def __init__(
        self,
        rng: random.Random,
        max_wcu: float | None = None,
        now: float = 0.0,
        budget: WcuBudget | None = None,
    ) -> None:
        """`budget`: the worker's, which outlives the pacing; without it, one of `max_wcu`."""
        self._rng = rng
        self._backoff = CongestionBackoff(rng)
        self._rate = AdaptiveRate(now)
        self._budget = WcuBudget(max_wcu, now) if budget is None else budget
        # Recent average latency of answers in seconds; None before the first.
        self._latency: float | None = None

    @property
    def limit(self) -> float:
        """Units a second that may be sent."""
        rate, budget = self._rate.units_per_second, self._budget.units_per_second
        return rate if budget is None else min(rate, budget)

    def request_units(self, concurrency: int) -> float:
        """Compute the units that one of `concurrency` requests may carry."""
        needed = REQUEST_MARGIN * (self._latency or 0.0) / concurrency
        return min(
            self._rate.request_units(max(LUMP_SECONDS, needed)),
            self._budget.request_units(max(BURST_SECONDS, needed)),
        )

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent."""
        return max(self._rate.ready_at(now), self._backoff.until, self._budget.ready_at(now))

    def send(self, units: int, now: float) -> SentUnits:
        """Count a request that is sent with rows of these units."""
        self._rate.charge(units * self._rng.uniform(1 - JITTER, 1 + JITTER))
        return SentUnits(now, units, self._budget.charge(units))

    def answered(self, sent: SentUnits, written: int, consumed: float, now: float) -> None:
        """Learn from an answer by which `written` units were written, and others returned.

        `consumed`: write capacity units that DynamoDB reports.
        """
        self._budget.settle(sent.charge, sent.units, written, consumed)
        latency = now - sent.at
        average = latency if self._latency is None else self._latency
        self._latency = average + LATENCY_WEIGHT * (latency - average)
        self._rate.answered(sent.units - sent.ignored, sent.evidence, sent.at, now)
        if written == sent.units:
            if self._backoff.refused_for_long:
                self._rate.restart()
            self._backoff.passed(now)
        elif sent.returned and not written:
            self._backoff.throttled(sent.at, now)

    def unsure(self, sent: SentUnits, now: float) -> None:
        """Back off after a request without an answer; it may have consumed capacity."""
        self._backoff.failed(sent.at, now)

    def refused(self, sent: SentUnits, now: float) -> None:
        """Refund a request that was refused as a whole: it was answered, and consumed nothing."""
        self._budget.settle(sent.charge, sent.units, 0, 0.0)
        self._backoff.passed(now)
