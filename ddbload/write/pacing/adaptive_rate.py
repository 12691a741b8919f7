"""Find the write units a second that a table takes, from the units it returns. Pure.

Times are passed in: seconds of a monotonic clock. Decision 0010 (docs/contributing) states why this
law was chosen, and what it was measured on.
"""

from __future__ import annotations

import math
from collections import deque

from ddbload.dynamodb.limits import MAX_BATCH_ROWS

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that they suffice."""
LUMP_SECONDS = 0.01
"""Seconds that one request may take: 100 requests a second below 2,500 units. What comes back
comes in requests, and few large ones would say little of the share that is returned."""
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
this share is due to each: 5.7 % at 100 units/s, 1.4 % at 1,000 and 0.6 % at 4,000.
"""
USUAL_SECONDS, YOUNG_SECONDS = 24.0, 8.0
"""Time over which the returned share is averaged, to be compared with the share that is due; and
that of a worker that has just begun."""
YOUNG_SHARE = 0.5
"""Usual share that a worker supposes at first, as a part of the one due: it soon has its part."""
MAX_SHARE = 0.1
"""Highest returned share of a second that counts in this average: an overload says little of the
share at rest."""
RISE, RISE_BEND = 16.0, 1.0
FALL, FALL_BEND = 12.0, 4.0
"""Change of the rate in a second, for each difference of the usual share from the one due; and
how much faster it is for each such difference that is as large as the share due."""
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
        if self._balance >= 0 and units_per_second > 0:
            return now
        return now - self._balance / units_per_second if units_per_second > 0 else math.inf

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

    @property
    def at_minimum(self) -> bool:
        """The rate is at its minimum."""
        return self.units_per_second <= self._min_rate

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
