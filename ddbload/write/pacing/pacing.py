"""Decide when the next request may be sent. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ddbload.aws.backoff import full_jitter
from ddbload.write.pacing.adaptive_rate import LUMP_SECONDS, REQUEST_MARGIN, AdaptiveRate
from ddbload.write.pacing.wcu_budget import BURST_SECONDS, WcuBudget

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


@dataclass(frozen=True, slots=True)
class SentUnits:
    """Write units of a request that was sent."""

    at: float
    units: int
    """Write units of the rows."""
    charge: float
    """Units charged to the budget."""


@dataclass(frozen=True, slots=True)
class ReturnedUnits:
    """Write units of a request that the table returned for want of capacity."""

    units: int
    """Without those that a hot key explains."""
    evidence: int
    """Those of rows that were not returned again and again before."""
    ignored: int
    """Returned units that are no evidence for other rows."""


NOTHING_RETURNED = ReturnedUnits(0, 0, 0)


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

    def accepted(
        self,
        sent: SentUnits,
        written: int,
        returned: ReturnedUnits,
        consumed: float,
        now: float,
    ) -> None:
        """Learn from an answer: `written` units were written, `returned` came back.

        `consumed`: write capacity units that DynamoDB reports.
        """
        self._budget.settle(sent.charge, sent.units, written, consumed)
        self._answered(sent, returned, now)
        if written == sent.units:
            if self._backoff.refused_for_long:
                self._rate.restart()
            self._backoff.passed(now)
        elif returned.units and not written:
            self._backoff.throttled(sent.at, now)

    def throttled(self, sent: SentUnits, returned: ReturnedUnits, now: float) -> None:
        """Learn from a throttled request."""
        self.refund(sent)
        self._answered(sent, returned, now)
        if returned.units:
            self._backoff.throttled(sent.at, now)

    def unsure(self, sent: SentUnits, now: float) -> None:
        """Back off after a request without an answer; it may have consumed capacity."""
        self._backoff.failed(sent.at, now)

    def refused(self, sent: SentUnits, now: float) -> None:
        """Refund a request that was refused as a whole: it was answered, and consumed nothing."""
        self.refund(sent)
        self._backoff.passed(now)

    def refund(self, sent: SentUnits) -> None:
        """Refund a request that consumed nothing."""
        self._budget.refund(sent.charge)

    def _answered(self, sent: SentUnits, returned: ReturnedUnits, now: float) -> None:
        latency = now - sent.at
        average = latency if self._latency is None else self._latency
        self._latency = average + LATENCY_WEIGHT * (latency - average)
        self._rate.answered(sent.units - returned.ignored, returned.evidence, sent.at, now)
