"""Find the write units a second that a table takes, and when the next request may be sent. Pure.

Times are passed in: seconds of a monotonic clock. Decision 0010 (docs/contributing) states why the
law of the rate was chosen, and what it was measured on.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass

from ddbload.aws.backoff import full_jitter
from ddbload.dynamodb.limits import MAX_BATCH_ROWS

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that they suffice."""
LUMP_SECONDS = 0.01
"""Seconds that one request may take: few large ones would say little of the returned share."""
MIN_UNITS_PER_SECOND = 1.0
"""Lowest rate, units a second."""
FREE_UNITS = 500.0
"""Units that a worker sends at first without a rate: a small file need not wait."""
FIRST_RATE = 500.0
"""Rate after these units, and lowest rate after the first return."""
FIRST_RISE = 4.0
"""Share by which the rate rises in a second until the first return: it doubles in 0.17 s."""
DUE, DUE_POWER, MAX_DUE = 0.9, 0.6, 0.08
"""Share of its units that a worker accepts back: `DUE / rate**DUE_POWER`, 0.08 at most.
A table returns about the same share to all its writers. So they come to rest at one rate, where
this share is due to each: 5.7 % at 100 units/s, 1.4 % at 1,000 and 0.6 % at 4,000."""
USUAL_SECONDS, YOUNG_SECONDS = 24.0, 8.0
"""Seconds over which the returned share is averaged; and those of a worker that has just begun."""
YOUNG_SHARE = 0.5
"""Usual share that a worker supposes at first, as a part of the one due: it soon has its part."""
MAX_SHARE = 0.1
"""Highest share of a second that counts in this average: an overload says little of rest."""
RISE, RISE_BEND = 16.0, 1.0
FALL, FALL_BEND = 12.0, 4.0
"""Proportional gain, and the extra gain when the error is as large as the set point."""
MAX_RISE, MAX_FALL = 0.6, 0.15
"""Largest such change. Others need seconds to take what one worker gives up."""
OVERLOAD_SHARE = 0.2
"""Returned share above which the rate falls by more than the units that came back."""
OVERLOAD_GAIN = 24.0
"""More units by which it falls for each returned unit, times the share above `OVERLOAD_SHARE`."""
OVERLOAD_SECONDS, OVERLOAD_UNITS = 0.25, 100.0
"""Seconds, or units if these take longer, over which the share for this is averaged."""
FLOOR = 0.97
"""Overload never lowers the rate below this part of the units taken in the last second: a table
that counts by the second returns everything at the end of each."""
QUIET_REQUESTS = 1.5
"""Requests that are due to come back, after which it is no chance that none did."""
QUIET_SECONDS = 1.2
"""Shortest such time, in seconds: some tables count by the second."""
QUIET_RISE, QUIET_DOUBLINGS, MAX_QUIET_RISE = 0.08, 4.0, 0.6
"""Share by which the rate then rises in a second; how often this doubles in as much time again;
and the largest."""
HEADROOM = 4.0
"""Highest rate, as a multiple of what was sent in the last second: more is unproven."""
WINDOW_SECONDS, PARTS = 1.0, 8
"""Length of the window of recent units, and the number of parts in which it advances."""
MIN_WINDOW_SECONDS = 0.25
"""Shortest time for which units a second are computed."""
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
        if units_per_second <= 0:
            return math.inf
        return now if self._balance >= 0 else now - self._balance / units_per_second

    def take(self, units: float) -> None:
        """Take units out of the bucket; a negative number puts them back."""
        self._balance -= units


class RecentUnits:
    """Units that were sent and returned in the last second, whole parts of it."""

    def __init__(self, units_per_second: float) -> None:
        """`units_per_second`: rate to state before a part is over."""
        # Start, sent and returned units of each full part; then those of the present part.
        self._parts: deque[tuple[float, float, float]] = deque()
        self._began_at: float | None = None
        self._part_sent = self._part_returned = 0.0
        self._sent = self._returned = 0.0
        self.sent_rate = self.taken_rate = units_per_second
        self.returned_share = 0.0

    def add(self, sent: float, returned: float, sent_at: float, now: float) -> float:
        """Count a request; return the units of the part of a second that it ended, if any."""
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
        """Compute the units taken so far, a second at least."""
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
    """Rate in write units a second that settles where the due share of them is returned.

    It rises fast until the table first returns units. Then each answer changes it:

    - Returned units lower the rate by as many units a second, and by more in an overload.
    - The rate rises while less than the due share is usually returned. While it is more, the rate
      falls with the units that are returned.
    - The longer nothing is returned, the faster the rate rises.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float | None = None,
        min_rate: float = MIN_UNITS_PER_SECOND,
    ) -> None:
        """Begin with `units_per_second`; by default find the rate, from `FIRST_RATE` on."""
        self._starting = units_per_second is None
        self.units_per_second = FIRST_RATE if units_per_second is None else units_per_second
        self._min_rate = min_rate
        # Units that need not wait, and answered units of these.
        self._free_units = FREE_UNITS if self._starting else 0.0
        self._free_answered = 0.0
        self._bucket = TokenBucket(now)
        self._recent = RecentUnits(self.units_per_second)
        # Returned shares: the present one, the usual one, and the time this was averaged over.
        self._share = 0.0
        self._usual_share = due_share(self.units_per_second)
        self._usual_seconds = YOUNG_SECONDS
        # Units a second to give up with the next return, in favour of slower workers.
        self._excess = 0.0
        # Units that were due to come back since some did; the rate when some did.
        self._quiet_units = 0.0
        self._quiet_from = self.units_per_second

    def request_units(self, seconds: float = LUMP_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds."""
        return math.inf if self._free_units > 0 else self.units_per_second * seconds

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent."""
        return self._bucket.ready_at(self.units_per_second, now)

    def charge(self, units: float) -> None:
        """Count the units of a request that is sent."""
        free = min(units, self._free_units)
        self._free_units -= free
        self._bucket.take(units - free)

    def restart(self) -> None:
        """Find the rate anew, since the table took nothing for some time and now does."""
        if self.units_per_second < FIRST_RATE:
            self._starting = True
            self.units_per_second = FIRST_RATE
            self._free_answered = FREE_UNITS
            self._recent = RecentUnits(FIRST_RATE)

    def answered(self, units: float, returned: float, sent_at: float, now: float) -> None:
        """Learn from an answer that returned `returned` of the request's units."""
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
        due = due_share(rate)
        weight = min(1.0, units / max(OVERLOAD_SECONDS * rate, OVERLOAD_UNITS))
        self._share += weight * (returned / units - self._share)
        most = HEADROOM * recent.sent_rate + MAX_BATCH_ROWS
        changed = rate
        if returned:
            start = min(rate, most)
            if self._quiet_units > self._chance(due):
                start = min(start, max(self._quiet_from, recent.taken_rate))
            changed = self._after_return(start, returned)
            self._quiet_units = 0.0
            self._quiet_from = changed
        else:
            self._quiet_units += due * units
        changed += units * self._rise(due, units)
        if changed > rate:
            changed = max(rate, min(changed, most))
        self.units_per_second = max(changed, self._min_rate)

    def _rise_at_start(self, units: float) -> None:
        """Rise with the units taken, after those that need no rate."""
        if self._free_answered < FREE_UNITS:
            self._free_answered += units
            return
        rate, most = self.units_per_second, HEADROOM * self._recent.sent_rate + MAX_BATCH_ROWS
        self.units_per_second = max(rate, min(rate + FIRST_RISE * units, most))

    def _end_start(self, now: float) -> None:
        """Begin with the units that were taken so far, but for the free ones."""
        taken = self._recent.taken(now) - min(self._free_answered, FREE_UNITS)
        rate = min(self.units_per_second, max(taken, FIRST_RATE))
        self._starting = False
        self._free_units = 0.0
        self._bucket = TokenBucket(now)
        self.units_per_second = self._quiet_from = rate
        self._usual_share, self._usual_seconds = YOUNG_SHARE * due_share(rate), YOUNG_SECONDS
        self._quiet_units = self._excess = self._share = 0.0

    def _average_share(self, seconds: float) -> None:
        """Average the returned share over some more seconds of the rate."""
        self._usual_seconds = min(USUAL_SECONDS, self._usual_seconds + seconds)
        weight = min(1.0, seconds / self._usual_seconds)
        # One unit of a slow worker's second is more than that.
        most = max(MAX_SHARE, 2.0 / self.units_per_second)
        share = min(self._recent.returned_share, most)
        self._usual_share += weight * (share - self._usual_share)

    def _after_return(self, rate: float, returned: float) -> float:
        """Lower the rate by the returned units, by more in an overload or for others' sake."""
        gain = 1.0 + OVERLOAD_GAIN * max(0.0, self._share - OVERLOAD_SHARE)
        taken = FLOOR * self._recent.taken_rate
        excess, self._excess = self._excess, 0.0
        return max(rate - gain * returned, min(rate, taken), rate / 2) - excess

    def _rise(self, due: float, units: float) -> float:
        """Compute by what share the rate rises in a second."""
        rate = self.units_per_second
        below = due - self._usual_share
        # The usual share of the units comes back, and lowers the rate: that is made up for.
        rise = self._usual_share
        if below > 0:
            rise += min(MAX_RISE, RISE * below * (1 + RISE_BEND * below / due))
        else:
            # Only what comes back shows that others want it, so it is given up with that.
            fall = min(MAX_FALL, FALL * -below * (1 + FALL_BEND * -below / due))
            self._excess = min(self._excess + fall * units, fall * rate)
        if self._quiet_units <= due * rate:
            return rise
        chance = self._chance(due)
        rise = max(rise, due)
        if self._quiet_units > chance:
            # Nobody took what was given up.
            self._usual_share = min(self._usual_share, due)
            doublings = min(20.0, QUIET_DOUBLINGS * (self._quiet_units - chance) / chance)
            rise = max(rise, min(max(rise, QUIET_RISE) * 2**doublings, MAX_QUIET_RISE))
        return rise

    def _chance(self, due: float) -> float:
        """Compute the units due to come back from which on it is no chance that none did."""
        lump = min(float(MAX_BATCH_ROWS), max(1.0, LUMP_SECONDS * self.units_per_second))
        return max(QUIET_REQUESTS * lump, QUIET_SECONDS * due * self.units_per_second)


def due_share(rate: float) -> float:
    """Compute the share of its units that a worker of this rate accepts back."""
    share: float = DUE / rate**DUE_POWER
    return min(MAX_DUE, share)


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
