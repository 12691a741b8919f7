"""Find the write units per second that a table accepts, and time the next request. Pure.

Times are arguments, in seconds of a monotonic clock. Decision 0010 (docs/contributing) explains the
control law of the rate, and the measurements behind it.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass

from ddbload.aws.backoff import CongestionBackoff
from ddbload.dynamodb.limits import MAX_BATCH_ROWS, NEW_TABLE_RATE

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that requests suffice."""
LUMP_SECONDS = 0.01
"""Maximum seconds of the rate in one request: few large ones would blur the returned share."""
MIN_UNITS_PER_SECOND = 1.0
"""Lowest rate, in units per second."""
FIRST_SHARE = 0.125
"""First rate, as a share of the described capacity: other runs may use the table as well."""
FIRST_RISE = 4.0
"""Relative rise of the rate per second until units are first returned: doubles in 0.17 s."""
DUE = ((0.012, 0.6), (0.018, 0.3), (0.08, 0.0))
"""Set point: share of its units that a worker accepts back, by its share of the capacity.

It is the least of these shares, each times `(capacity / rate)**power`. A table returns about the
same share to all its writers, so they converge to one rate, at which it is due to each: 1.2 % for
a writer alone, 2.7 % for each of four, and 5.4 % for each of forty.
"""
USUAL_SECONDS = 12.0
"""Seconds over which the returned share is averaged."""
MAX_SHARE = 0.1
"""Maximum share of one second in this average, so that an overload does not dominate it."""
RISE, RISE_BEND = 16.0, 1.0
FALL, FALL_BEND = 12.0, 4.0
"""Proportional gain, and the extra gain when the error is as large as the set point."""
MAX_RISE, MAX_FALL = 0.6, 0.15
"""Maximum relative rise and fall per second; others need time to use what is given up."""
OVERLOAD_SHARE = 0.2
"""Returned share above which the rate falls by more than the returned units."""
OVERLOAD_GAIN = 24.0
"""Additional fall per returned unit, times the share above `OVERLOAD_SHARE`."""
OVERLOAD_SECONDS, OVERLOAD_UNITS = 0.25, 100.0
"""Seconds, or units if these take longer, over which this share is averaged."""
COLLAPSE_SHARE = 0.5
"""Returned share above which the rate falls to the described capacity.

The units taken in the last second may have been saved ones, which are used up.
"""
FLOOR = 0.97
"""Lowest rate in an overload, as a share of the units accepted in the last second."""
QUIET_REQUESTS = 1.5
"""Number of requests due to be returned after which a lack of returns is not chance."""
QUIET_SECONDS = 1.2
"""Minimum of that time in seconds, because some tables count by the second."""
QUIET_RISE, QUIET_DOUBLINGS, MAX_QUIET_RISE = 0.08, 2.0, 0.6
"""Relative rise per second after that time, its doublings per such time, and maximum."""
HEADROOM = 4.0
"""Maximum rate, as a multiple of the units sent in the last second: higher is unproven."""
WINDOW_SECONDS, PARTS = 1.0, 8
"""Length of the window of recent units, and number of steps in which it advances."""
MIN_WINDOW_SECONDS = 0.25
"""Minimum time over which units per second are computed."""


BURST_SECONDS = 0.2
"""Seconds of unused capacity that are saved, and that one request may use."""
FACTOR_WEIGHT = 0.2
"""Weight of the latest answer in the learned factor of a budget."""


class TokenBucket:
    """Token bucket of write units. A request may overdraw it; the next one then waits.

    It starts empty, so the first request may be sent at once.
    """

    def __init__(self, now: float) -> None:
        self._balance = 0.0
        self._refilled_at = now

    def ready_at(self, units_per_second: float, now: float) -> float:
        """Return when a request may be sent: `now`, or when the overdraft is refilled."""
        refill = (now - self._refilled_at) * units_per_second
        self._balance = min(units_per_second * BURST_SECONDS, self._balance + refill)
        self._refilled_at = now
        if units_per_second <= 0:
            return math.inf
        return now if self._balance >= 0 else now - self._balance / units_per_second

    def take(self, units: float) -> None:
        """Take units from the bucket; a negative number puts units back."""
        self._balance -= units


class RecentUnits:
    """Units sent and returned in the last second, in whole parts of it."""

    def __init__(self, units_per_second: float) -> None:
        """`units_per_second`: rate to assume before the first part is over."""
        # Start, sent and returned units of each full part, then those of the current part.
        self._parts: deque[tuple[float, float, float]] = deque()
        self._began_at: float | None = None
        self._part_sent = self._part_returned = 0.0
        self._sent = self._returned = 0.0
        self.sent_rate = self.taken_rate = units_per_second
        self.returned_share = 0.0

    def add(self, sent: float, returned: float, sent_at: float, now: float) -> float:
        """Add a request; return the units of the part that it ended, if any."""
        ended = 0.0
        if self._began_at is None:
            self._began_at = sent_at
        elif now - self._began_at >= WINDOW_SECONDS / PARTS:
            ended = self._part_sent
            self._end_part(self._began_at, now)
        self._part_sent += sent
        self._part_returned += returned
        return ended

    def taken(self, now: float) -> float:
        """Return the units accepted so far per second, over at least one second."""
        first = self._parts[0][0] if self._parts else self._began_at or now
        sent, returned = self._sent + self._part_sent, self._returned + self._part_returned
        return (sent - returned) / max(WINDOW_SECONDS, now - first)

    def _end_part(self, began_at: float, now: float) -> None:
        parts = self._parts
        parts.append((began_at, self._part_sent, self._part_returned))
        self._sent += self._part_sent
        self._returned += self._part_returned
        self._began_at, self._part_sent, self._part_returned = now, 0.0, 0.0
        while len(parts) > 1 and now - parts[0][0] > WINDOW_SECONDS + 1e-6:
            _, old_sent, old_returned = parts.popleft()
            self._sent -= old_sent
            self._returned -= old_returned
        seconds = max(MIN_WINDOW_SECONDS, now - parts[0][0])
        self.sent_rate = self._sent / seconds
        self.taken_rate = (self._sent - self._returned) / seconds
        self.returned_share = self._returned / self._sent if self._sent > 0 else 0.0


class AdaptiveRate:
    """Rate in write units per second that converges to the set point of returned units.

    It rises fast until the table first returns units. Then each answer changes it:

    - Returned units lower the rate by the same number of units per second, and by more in an
      overload.
    - While the average returned share is below the set point, the rate rises. While it is above,
      the rate falls with the returned units.
    - The longer nothing is returned, the faster the rate rises.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float | None = None,
        min_rate: float = MIN_UNITS_PER_SECOND,
        capacity: float = NEW_TABLE_RATE,
    ) -> None:
        """Start with `units_per_second`; None searches the rate.

        `capacity`: units per second that are described; more or less may be accepted.
        """
        self._capacity = capacity
        self._starting = units_per_second is None
        self._first = max(min_rate, FIRST_SHARE * capacity)
        self.units_per_second = self._first if units_per_second is None else units_per_second
        self._min_rate = min_rate
        self._bucket = TokenBucket(now)
        self._recent = RecentUnits(self.units_per_second)
        # Returned shares: current and average.
        self._share = 0.0
        self._usual_share = due_share(self.units_per_second, capacity)
        # Units per second to give up with the next return, in favor of slower workers.
        self._excess = 0.0
        # Units due to be returned since the last return, and the rate at that time.
        self._quiet_units = 0.0
        self._quiet_from = self.units_per_second

    def request_units(self, seconds: float = LUMP_SECONDS) -> float:
        """Return the units that one request may carry in this many seconds."""
        rate = self.units_per_second
        return max(rate, self._capacity if self._starting else rate) * seconds

    def ready_at(self, now: float) -> float:
        """Return when a request may be sent."""
        return self._bucket.ready_at(self.units_per_second, now)

    def charge(self, units: float) -> None:
        """Charge the units of a request that is sent."""
        self._bucket.take(units)

    def restart(self) -> None:
        """Search the rate again: the table accepts units after a time in which it took none."""
        if self.units_per_second < self._first:
            self._starting = True
            self.units_per_second = self._first
            self._recent = RecentUnits(self._first)

    def answered(
        self, units: float, returned: float, sent_at: float, now: float, full: float = 1.0
    ) -> None:
        """Update the rate from an answer that returned `returned` of the request's units.

        `full`: share of the units that are for what is full. To end what comes back of it, the rate
        must fall by as much as if all units were for it and came back in the same proportion.
        """
        if units <= 0:
            return
        rate, recent = self.units_per_second, self._recent
        ended = recent.add(units, returned, sent_at, now)
        if self._starting:
            if returned:
                self._end_start(now)
            else:
                self._rise_at_start(units)
            return
        if ended:
            self._average_share(ended / rate)
        due = due_share(rate, self._capacity)
        weight = min(1.0, units / max(OVERLOAD_SECONDS * rate, OVERLOAD_UNITS))
        returned = min(units, returned / full)
        self._share += weight * (returned / units - self._share)
        most = HEADROOM * recent.sent_rate + MAX_BATCH_ROWS
        changed = rate
        if returned:
            start = min(rate, most)
            if self._quiet_units > self._chance(due):
                start = min(start, max(self._quiet_from, recent.taken_rate))
            changed = self._after_return(start, returned, full)
            self._quiet_units = 0.0
            self._quiet_from = changed
        else:
            self._quiet_units += due * units
        changed += units * self._rise(due, units)
        if changed > rate:
            changed = max(rate, min(changed, most))
            if rate < self._capacity <= changed:
                # Rise slowly again: more than the capacity is probably not there.
                self._quiet_units = 0.0
        self.units_per_second = max(changed, self._min_rate)

    def _rise_at_start(self, units: float) -> None:
        """Raise the rate with the accepted units."""
        rate, most = self.units_per_second, HEADROOM * self._recent.sent_rate + MAX_BATCH_ROWS
        self.units_per_second = max(rate, min(rate + FIRST_RISE * units, most))

    def _end_start(self, now: float) -> None:
        """Set the rate to the units accepted so far, but not above the capacity."""
        taken = max(self._first, self._recent.taken(now))
        rate = min(self.units_per_second, taken, self._capacity)
        self._starting = False
        self._bucket = TokenBucket(now)
        self.units_per_second = self._quiet_from = rate
        self._usual_share = due_share(rate, self._capacity)
        self._quiet_units = self._excess = self._share = 0.0

    def _average_share(self, seconds: float) -> None:
        """Add some seconds to the average of the returned share."""
        weight = min(1.0, seconds / USUAL_SECONDS)
        # A single unit of a slow worker's second exceeds this share.
        most = max(MAX_SHARE, 2.0 / self.units_per_second)
        share = min(self._recent.returned_share, most)
        self._usual_share += weight * (share - self._usual_share)

    def _after_return(self, rate: float, returned: float, full: float) -> float:
        """Return the rate lowered by returned units, by overload, and for slower workers."""
        gain = 1.0 + OVERLOAD_GAIN * max(0.0, self._share - OVERLOAD_SHARE)
        # While nothing is taken, the back-off waits; afterwards the rate is not zero.
        recent = self._recent
        share = min(1.0, recent.returned_share / full)
        taken = FLOOR * recent.sent_rate * (1.0 - share) if recent.taken_rate else self._first
        if self._share > COLLAPSE_SHARE:
            taken = min(taken, self._capacity)
        excess, self._excess = self._excess, 0.0
        return max(rate - gain * returned, min(rate, taken), rate / 2) - excess

    def _rise(self, due: float, units: float) -> float:
        """Return the relative rise of the rate per second."""
        rate = self.units_per_second
        below = due - self._usual_share
        # Compensate for the average returned share, which lowers the rate.
        rise = self._usual_share
        if below > 0:
            rise += min(MAX_RISE, RISE * below * (1 + RISE_BEND * below / due))
        else:
            # Units are given up only with a return, which shows that other workers want them.
            fall = min(MAX_FALL, FALL * -below * (1 + FALL_BEND * -below / due))
            self._excess = min(self._excess + fall * units, fall * rate)
        if self._quiet_units <= due * rate:
            return rise
        chance = self._chance(due)
        rise = max(rise, due)
        if self._quiet_units > chance:
            # No other worker took the units that were given up.
            self._usual_share = min(self._usual_share, due)
            doublings = min(20.0, QUIET_DOUBLINGS * (self._quiet_units - chance) / chance)
            rise = max(rise, min(max(rise, QUIET_RISE) * 2**doublings, MAX_QUIET_RISE))
        return rise

    def _chance(self, due: float) -> float:
        """Return the units due to be returned after which a lack of returns is not chance."""
        lump = min(float(MAX_BATCH_ROWS), max(1.0, LUMP_SECONDS * self.units_per_second))
        return max(QUIET_REQUESTS * lump, QUIET_SECONDS * due * self.units_per_second)


def due_share(rate: float, capacity: float) -> float:
    """Return the share of its units that a worker with this rate accepts back."""
    return min(share * math.pow(capacity / rate, power) for share, power in DUE)


JITTER = 0.1
"""Relative variation of a request's charge, so that workers do not reach the limit together."""
LATENCY_WEIGHT = 0.2
"""Weight of the latest answer in the average latency."""


class WcuBudget:
    """Write capacity units that a worker may consume: per second, and in total.

    A request is charged an estimate when it is sent, and the difference to the consumed capacity
    when it is answered. The estimate learns from answers what indexes and larger overwritten items
    cost. Another thread may change the limits, one attribute at a time.
    """

    def __init__(self, units_per_second: float | None, now: float) -> None:
        self.units_per_second = units_per_second
        """Limit in units per second; None for no limit."""
        self.unit_limit: float | None = None
        """Limit of units in total; None for no limit."""
        self.valid_until = math.inf
        """Time from which on nothing may be sent until the limits are confirmed."""
        self.used = 0.0
        """Units that were or may have been consumed: includes estimates for requests in flight."""
        self._bucket = TokenBucket(now)
        # Consumed units per unit of the rows' size.
        self._factor = 1.0

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Return the units that one request may carry in this many seconds.

        Larger requests would use a small budget unevenly.
        """
        rate, limit = self.units_per_second, self.unit_limit
        units = math.inf if rate is None else rate * seconds
        if limit is not None:
            units = min(units, max(0.0, limit - self.used))
        return units / self._factor

    def ready_at(self, now: float) -> float:
        """Return when a request may be sent; infinity if none may be sent."""
        limit, rate = self.unit_limit, self.units_per_second
        if now >= self.valid_until or (limit is not None and self.used >= limit):
            return math.inf
        return now if rate is None else self._bucket.ready_at(rate, now)

    def charge(self, units: int) -> float:
        """Charge a request for rows of this many units; return the charge."""
        charge = units * self._factor
        self._take(charge)
        return charge

    def settle(self, charge: float, units: int, written: int, consumed: float) -> None:
        """Correct the charge for an answered request of `units`, of which `written` were written.

        `consumed`: units reported by DynamoDB; 0 if it reports none.
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


@dataclass(slots=True)
class SentUnits:
    """Write units of a request: sent, and returned for lack of capacity."""

    at: float = 0.0
    rows: int = 0
    units: int = 0
    """Write units of the rows."""
    charge: float = 0.0
    """Units charged to the budget."""
    returned: int = 0
    """Returned units, without those explained by a hot key."""
    evidence: int = 0
    """Returned units, without those of rows that were returned many times before."""
    share: float = 1.0
    """Share of the units that are for what is full, the whole table or a partition."""


class Pacing:
    """Limits on a worker's requests, kept from one byte range to the next."""

    def __init__(
        self,
        rng: random.Random,
        max_wcu: float | None = None,
        now: float = 0.0,
        budget: WcuBudget | None = None,
        capacity: float | None = None,
    ) -> None:
        """Pace one worker.

        `budget`: its budget, which outlives the pacing; None makes one of `max_wcu`.
        `capacity`: its share of the units per second that DescribeTable shows; None for those of
            a new on-demand table.
        """
        self._rng = rng
        self._backoff = CongestionBackoff(rng)
        self._rate = AdaptiveRate(now, capacity=capacity or NEW_TABLE_RATE)
        self._budget = WcuBudget(max_wcu, now) if budget is None else budget
        # Recent average latency in seconds; None before the first answer.
        self._latency: float | None = None

    @property
    def limit(self) -> float:
        """Maximum units per second."""
        rate, budget = self._rate.units_per_second, self._budget.units_per_second
        return rate if budget is None else min(rate, budget)

    def request_units(self, concurrency: int) -> float:
        """Return the units that each of `concurrency` requests may carry."""
        needed = REQUEST_MARGIN * (self._latency or 0.0) / concurrency
        return min(
            self._rate.request_units(max(LUMP_SECONDS, needed)),
            self._budget.request_units(max(BURST_SECONDS, needed)),
        )

    def ready_at(self, now: float) -> float:
        """Return when a request may be sent."""
        return max(self._rate.ready_at(now), self._backoff.until, self._budget.ready_at(now))

    def send(self, rows: int, units: int, now: float) -> SentUnits:
        """Charge a request with rows of this many units."""
        self._rate.charge(units * self._rng.uniform(1 - JITTER, 1 + JITTER))
        return SentUnits(now, rows, units, self._budget.charge(units))

    def answered(self, sent: SentUnits, written: int, consumed: float, now: float) -> None:
        """Update the limits from an answer: `written` units were written, the others returned.

        `consumed`: write capacity units reported by DynamoDB.
        """
        self._budget.settle(sent.charge, sent.units, written, consumed)
        latency = now - sent.at
        average = latency if self._latency is None else self._latency
        self._latency = average + LATENCY_WEIGHT * (latency - average)
        if not self._backoff.is_random(sent.rows, sent.units, written):
            self._rate.answered(written + sent.evidence, sent.evidence, sent.at, now, sent.share)
        if written == sent.units:
            if self._backoff.refused_for_long:
                self._rate.restart()
            self._backoff.passed(now)
        elif sent.returned and not written:
            self._backoff.throttled(sent.at, now)

    def unsure(self, sent: SentUnits, now: float) -> None:
        """Back off after a request without an answer, which may have consumed capacity."""
        self._backoff.failed(sent.at, now)

    def refused(self, sent: SentUnits, now: float) -> None:
        """Refund a request that was refused as a whole: it was answered and consumed nothing."""
        self._budget.settle(sent.charge, sent.units, 0, 0.0)
        self._backoff.passed(now)
