"""Find the write units a second that a table takes, from the units it returns. Pure.

Times are passed in: seconds of a monotonic clock. docs/decisions/0010-shared-rate.md states why
this law was chosen, and what it was measured on.
"""

from __future__ import annotations

import math
from collections import deque

from ddbload.dynamodb.limits import MAX_BATCH_ROWS
from ddbload.write.pacing.wcu_budget import TokenBucket

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that they suffice."""
LUMP_SECONDS = 0.1
"""Seconds that one request may take. What is returned comes in lumps of a request: short ones."""
FIRST_RATE = 500.0
"""Lowest rate after the first return: many workers that begin together meet an overload."""
MIN_UNITS_PER_SECOND = 1.0
"""Lowest rate, units a second."""

DUE, DUE_POWER, MAX_DUE = 0.36, 0.45, 0.08
"""Share of its units that a worker accepts back: `DUE / rate**DUE_POWER`, 0.08 at most.

A table returns about the same share to all its writers. So they come to rest at one rate, where
this share is due to each: 4.5 % at 100 units/s, 1.6 % at 1,000 and 0.9 % at 4,000.
"""
USUAL_SECONDS = 10.0
"""Time over which the returned share is averaged, to be compared with the share that is due."""
MAX_SHARE_EXCESS = 0.02
"""Highest returned share that counts in this average, above the share that is due: the first
second of an overload says nothing of the share at rest."""
RISE, FALL = 60.0, 12.0
"""Change of the rate in a second, for each difference of the usual share from the one due. It
rises faster, so that late-comers soon have their part."""
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
QUIET_RISE = 0.03
"""Share by which the rate then rises in a second, twice as much after half of that time again."""
MAX_RISE = 1.5
"""Fastest rise, as a share in a second."""
MIN_RETURNED_SHARE = 0.05
"""Returned share of a request above which an unlimited worker sets a rate."""
HEADROOM = 2.0
"""Highest rate, as a multiple of what was sent in the last second: more is unproven."""
WINDOW_SECONDS, SLOTS = 1.0, 8
"""Length of the window of recent units, and the number of parts in which it advances."""
MIN_WINDOW_SECONDS = 0.25
"""Shortest time for which units a second are computed."""


class RecentUnits:
    """Units that were sent and taken in the last second."""

    def __init__(self, now: float) -> None:
        # Start, sent and taken units of each full part; then those of the present part.
        self._parts: deque[tuple[float, float, float]] = deque()
        self._began_at = now
        self._part_sent = self._part_taken = 0.0
        self._sent = self._taken = 0.0
        self.sent_rate = self.taken_rate = 0.0

    def add(self, sent: float, taken: float, now: float) -> None:
        """Count a request; update the rates when a part of the second is over."""
        if now - self._began_at >= WINDOW_SECONDS / SLOTS:
            self._parts.append((self._began_at, self._part_sent, self._part_taken))
            self._sent += self._part_sent
            self._taken += self._part_taken
            self._began_at, self._part_sent, self._part_taken = now, 0.0, 0.0
            while len(self._parts) > 1 and now - self._parts[0][0] > WINDOW_SECONDS + 1e-6:
                _, old_sent, old_taken = self._parts.popleft()
                self._sent -= old_sent
                self._taken -= old_taken
            seconds = max(MIN_WINDOW_SECONDS, now - self._parts[0][0])
            self.sent_rate, self.taken_rate = self._sent / seconds, self._taken / seconds
        self._part_sent += sent
        self._part_taken += taken

    def publish(self, now: float) -> None:
        """Update the rates at once, as if a whole second had passed if it is not over yet."""
        seconds = max(WINDOW_SECONDS, now - (self._parts[0][0] if self._parts else self._began_at))
        self.sent_rate = (self._sent + self._part_sent) / seconds
        self.taken_rate = (self._taken + self._part_taken) / seconds


class AdaptiveRate:
    """Rate in write units a second that settles where the due share of them is returned.

    It is unlimited until the table first returns units. Then each answer changes it:

    - Returned units lower the rate by as many units a second, and by more in an overload.
    - The rate rises while less than the due share is usually returned, and falls while it is more.
    - The longer nothing is returned, the faster the rate rises.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float = math.inf,
        min_rate: float = MIN_UNITS_PER_SECOND,
    ) -> None:
        """Start at `units_per_second`; by default without a rate, until units are returned."""
        self.units_per_second = units_per_second
        self._min_rate = min_rate
        self._limited_at = -math.inf
        self._bucket = TokenBucket(now)
        self._recent = RecentUnits(now)
        if units_per_second < math.inf:
            self._recent.sent_rate = units_per_second
        # Returned shares: the present one, and the usual one.
        self._share = 0.0
        self._usual_share = due_share(units_per_second)
        # Units that were due to come back since some did; the rate when some did.
        self._quiet_units = 0.0
        self._quiet_from = units_per_second

    @property
    def at_minimum(self) -> bool:
        """The rate is at its minimum."""
        return self.units_per_second <= self._min_rate

    def request_units(self, seconds: float = LUMP_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds."""
        return self.units_per_second * seconds

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent."""
        rate = self.units_per_second
        return now if rate == math.inf else self._bucket.ready_at(rate, now)

    def charge(self, units: float) -> None:
        """Count the units of a request that is sent."""
        self._bucket.take(units)

    def answered(self, units: float, returned: float, sent_at: float, now: float) -> None:
        """Learn from an answer that returned `returned` of the request's units."""
        if units <= 0 or sent_at < self._limited_at:
            return
        rate, recent = self.units_per_second, self._recent
        recent.add(units, units - returned, now)
        if rate == math.inf:
            if returned > MIN_RETURNED_SHARE * units:
                self._set_first_rate(now)
            return
        due, share = due_share(rate), returned / units
        weight = min(1.0, units / max(OVERLOAD_SECONDS * rate, OVERLOAD_UNITS))
        self._share += weight * (share - self._share)
        weight = min(1.0, units / (USUAL_SECONDS * rate))
        self._usual_share += weight * (min(self._share, due + MAX_SHARE_EXCESS) - self._usual_share)
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
        changed += units * self._rise(due)
        if changed > rate:
            changed = max(rate, min(changed, most))
        self.units_per_second = max(changed, self._min_rate)

    def _after_return(self, rate: float, returned: float) -> float:
        """Lower the rate by the returned units, by more in an overload."""
        gain = 1.0 + OVERLOAD_GAIN * max(0.0, self._share - OVERLOAD_SHARE)
        return max(rate - gain * returned, min(rate, FLOOR * self._recent.taken_rate), rate / 2)

    def _rise(self, due: float) -> float:
        """Compute by what share the rate rises in a second; negative if it falls."""
        rate = self.units_per_second
        below = due - self._usual_share
        # The usual share of the units comes back, and lowers the rate: that is made up for.
        rise = self._usual_share + (RISE if below > 0 else FALL) * below
        if self._quiet_units <= due * rate:
            return rise
        chance = self._chance(due)
        rise = max(rise, due)
        if self._quiet_units > chance:
            doublings = min(20.0, 2.0 * (self._quiet_units - chance) / chance)
            rise = max(rise, min(max(rise, QUIET_RISE) * 2**doublings, MAX_RISE))
        return rise

    def _chance(self, due: float) -> float:
        """Compute the units due to come back from which on it is no chance that none did."""
        lump = min(float(MAX_BATCH_ROWS), max(1.0, LUMP_SECONDS * self.units_per_second))
        return max(QUIET_REQUESTS * lump, QUIET_SECONDS * due * self.units_per_second)

    def _set_first_rate(self, now: float) -> None:
        """Begin with the units that were taken so far, in the last second at most."""
        self._recent.publish(now)
        rate = max(self._recent.taken_rate, FIRST_RATE)
        self._limited_at = now
        self.units_per_second = self._quiet_from = rate
        self._usual_share = due_share(rate)
        self._bucket = TokenBucket(now)


def due_share(rate: float) -> float:
    """Compute the share of its units that a worker of this rate accepts back."""
    share: float = DUE / rate**DUE_POWER
    return min(MAX_DUE, share)
