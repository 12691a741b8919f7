"""When the next request may go. Pure: time is passed in, in seconds of a monotonic clock."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ddbload.aws.backoff import full_jitter
from ddbload.write.pacing.adaptive_rate import REQUEST_MARGIN, AdaptiveRate
from ddbload.write.pacing.wcu_budget import BURST_SECONDS, WcuBudget

MAX_LEVEL = 9
LEARNING = 0.2
"""The weight of the latest answer in how long answers take."""


class CongestionBackoff:
    """Holds all requests back while the table, or the network, refuses them.

    Like a congestion window, the level rises once for all requests that were under way
    together, and falls with each request that passes.
    """

    def __init__(self, rng: random.Random) -> None:
        self.until = 0.0
        self._rng = rng
        self._level = 0
        self._raised_at = -math.inf
        self._passed_at = -math.inf

    def refused(self, sent_at: float, now: float) -> None:
        """A whole request was refused for want of capacity.

        Where others pass meanwhile, the rate is what is wrong (`Rate`), and no wait would mend it.
        """
        if self._passed_at <= sent_at:
            self.trouble(sent_at, now)

    def trouble(self, sent_at: float, now: float) -> None:
        """A request sent at `sent_at` was not answered, or nothing passes any more."""
        if sent_at >= self._raised_at:
            self._level = min(self._level + 1, MAX_LEVEL)
            self._raised_at = now
        self.until = max(self.until, now + full_jitter(self._level, self._rng))

    def passed(self, now: float) -> None:
        """A request was answered well."""
        self._passed_at = now
        self._level = max(0, self._level - 1)


@dataclass(frozen=True, slots=True)
class SentUnits:
    """A request that went."""

    at: float
    units: int
    """Write units of its rows."""
    paid: float
    """Of the budget, if there is one."""


@dataclass(frozen=True, slots=True)
class ReturnedUnits:
    """What of a request came back and is the table's doing, in write units."""

    units: int
    stubborn: int
    """All units, also those taken, of rows that had come back again and again before: of the
    others these say nothing."""
    new: int
    """What came back of the others."""


NOTHING_RETURNED = ReturnedUnits(0, 0, 0)


class Pacing:
    """What slows a worker down, kept from one byte range to the next."""

    def __init__(self, rng: random.Random, max_wcu: float | None = None, now: float = 0.0) -> None:
        self._calm = CongestionBackoff(rng)
        self._rate = AdaptiveRate(now)
        self._budget = None if max_wcu is None else WcuBudget(max_wcu, now)
        # Seconds that an answer takes, on the average of late; None before the first.
        self._latency: float | None = None

    @property
    def limit(self) -> float:
        """Units a second that may go; infinity: no limit is known."""
        rate = self._rate.units_per_second
        return rate if self._budget is None else min(rate, self._budget.units_per_second)

    def request_units(self, concurrency: int) -> float:
        """Rows of how many units one request may carry, when so many go at a time."""
        seconds = max(BURST_SECONDS, REQUEST_MARGIN * (self._latency or 0.0) / concurrency)
        units = self._rate.request_units(seconds)
        return units if self._budget is None else min(units, self._budget.request_units(seconds))

    def ready_at(self, now: float) -> float:
        """When a request may go."""
        ready = max(self._rate.ready_at(now), self._calm.until)
        return ready if self._budget is None else max(ready, self._budget.ready_at(now))

    def send(self, units: int, now: float) -> SentUnits:
        """A request goes, with rows of so many units."""
        self._rate.pay(units)
        return SentUnits(now, units, 0.0 if self._budget is None else self._budget.pay(units))

    def accepted(
        self,
        sent: SentUnits,
        taken: int,
        back: ReturnedUnits,
        consumed: float,
        now: float,
    ) -> None:
        """A request was answered: so many units of its rows were taken.

        `consumed`: what DynamoDB says it used.
        """
        if self._budget is not None:
            self._budget.settle(sent.paid, sent.units, taken, consumed)
        self._answered(sent, back, now)
        if taken == sent.units:
            self._calm.passed(now)
        elif back.units and not taken:
            self._calm.refused(sent.at, now)

    def throttled(self, sent: SentUnits, back: ReturnedUnits, now: float) -> None:
        """A whole request was refused for want of capacity."""
        self.refused(sent)
        self._answered(sent, back, now)
        if back.units:
            self._calm.refused(sent.at, now)

    def unsure(self, sent: SentUnits, now: float) -> None:
        """A request was not answered. It may have been carried out, and used what was paid."""
        self._calm.trouble(sent.at, now)

    def refused(self, sent: SentUnits) -> None:
        """DynamoDB did not look at a request's rows: they used nothing."""
        if self._budget is not None:
            self._budget.refund(sent.paid)

    def _answered(self, sent: SentUnits, back: ReturnedUnits, now: float) -> None:
        took = now - sent.at
        before = took if self._latency is None else self._latency
        self._latency = before + LEARNING * (took - before)
        self._rate.answered(sent.units, back.new, sent.at, now, back.stubborn)
