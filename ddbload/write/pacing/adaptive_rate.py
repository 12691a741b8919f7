"""Find the write units a second that a table takes, from the units it returns. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math

from ddbload.write.pacing.wcu_budget import BURST_SECONDS, TokenBucket

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that they suffice."""
ROUNDING = 1e-6
"""Tolerance when times are compared."""
PERIOD = 1.0
"""Seconds between changes of the rate."""
RAISE = 0.003
"""Share by which the rate rises each second, right after units were returned."""
DOUBLING = 20.0
"""Seconds without a return after which the rate rises twice as fast."""
MOST_RAISES = 10
"""Fastest rise, as a multiple. Faster would use up saved burst capacity at once."""
FAST = 1.25
"""Factor by which the rate rises each second, up to the units that were lately taken."""
FADING = 0.8
"""Factor on the remembered taken units after each period in which units were returned."""
BREAKDOWN = 0.98
"""A larger returned share says nothing about the table's capacity."""
SHORTEST = 0.1
"""Shortest time, in seconds, that units are divided by."""
ENOUGH = 100
"""Units that suffice to lower the rate early when most of them were returned."""
FEW = 25
"""With fewer units, a returned one is no evidence yet …"""
FEW_BACK = 3
"""… unless this many were returned, and most were."""
FEW_SECONDS = 5.0
"""Longest time, in seconds, without a change, however little is known."""
NOTED = 0.01
"""Returned share below which no limit is set: a limit costs about as much."""
SLOWEST = 1.0
"""Lowest rate, units a second."""


class AdaptiveRate:
    """Rate in write units a second; unlimited until the table first returns units.

    Once a second, or sooner when most units are returned, the rate is lowered by the returned
    share, to the units that were taken. While nothing is returned it rises: by `RAISE` a second at
    first, faster the longer this lasts. At a table's limit both balance, and about that share of
    all rows is returned.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float = math.inf,
        slowest: float = SLOWEST,
        raised: float = RAISE,
    ) -> None:
        """Start at `units_per_second`; the rate rises by the share `raised` each second."""
        self.units_per_second = units_per_second
        self._slowest = slowest
        self._raise = raised
        # Units a second that were lately taken: up to this the rate rises fast.
        self._taken = units_per_second
        self._bucket = TokenBucket(now)
        # Requests sent since `_since`: their number, the times of the first and the last one, their
        # units, the units that count as evidence, and the returned units among these.
        self._since = now
        self._count = 0
        self._first = 0.0
        self._last = 0.0
        self._units = 0
        self._telling = 0
        self._back = 0
        # Seconds since units were last returned.
        self._quiet = 0.0

    @property
    def slowest(self) -> bool:
        """The rate is at its minimum."""
        return self.units_per_second <= self._slowest

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds."""
        return self.units_per_second * seconds

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent."""
        rate = self.units_per_second
        return now if rate == math.inf else self._bucket.ready_at(rate, now)

    def pay(self, units: int) -> None:
        """Count a request that is sent."""
        self._bucket.take(units)

    def answered(
        self, units: int, back: int, sent_at: float, now: float, stubborn: int = 0
    ) -> None:
        """Learn from an answer that returned `back` of the request's units.

        `stubborn`: units of rows that are no evidence for others; `back` does not include them.
        """
        if sent_at < self._since:
            # Requests sent before the rate changed say nothing about the new rate.
            return
        if not self._count:
            self._first = self._last = sent_at
        self._last = max(self._last, sent_at)
        self._count += 1
        self._units += units
        self._telling += units - stubborn
        self._back += back
        passed = self._passed
        if not self._overloaded and (passed < PERIOD - ROUNDING or self._few(passed)):
            return
        if self.units_per_second != math.inf:
            self._change(passed)
        elif self._back > NOTED * self._telling and self._back >= FEW_BACK:
            self._begin(passed)
            self._bucket = TokenBucket(now)
        self._since = now
        self._count = self._units = self._telling = self._back = 0

    @property
    def _passed(self) -> float:
        """Seconds over which these requests were sent; 0 if unknown.

        Waiting for answers, or for rows to send, does not count.
        """
        if self._count < 2:
            return 0.0
        return (self._last - self._first) * self._count / (self._count - 1)

    @property
    def _overloaded(self) -> bool:
        """Most units are returned, of enough to be evidence."""
        rate = self.units_per_second
        enough = ENOUGH if rate == math.inf else max(ENOUGH, rate * PERIOD / 10)
        return 2 * self._back > self._telling >= enough

    @property
    def _share(self) -> float:
        return self._back / self._telling

    def _few(self, passed: float) -> bool:
        """Return whether there is too little evidence for a change."""
        if not self._telling:
            return True
        if not self._back or passed >= FEW_SECONDS:
            return False
        if self._back < FEW_BACK and (self._telling < FEW or self.units_per_second == math.inf):
            return True
        return self._telling < FEW and 2 * self._back <= self._telling

    def _begin(self, passed: float) -> None:
        sent = self._units / max(passed, SHORTEST)
        share = self._share
        if passed >= PERIOD and share <= BREAKDOWN:
            self._taken = sent * (1 - share)
        self.units_per_second = max(sent * max(1 - share, 0.5), self._slowest)

    def _change(self, passed: float) -> None:
        rate = self.units_per_second
        sent = self._units / max(passed, SHORTEST)
        share = self._share
        if share <= BREAKDOWN:
            if share:
                faded = FADING ** min(passed, PERIOD)
                self._taken = 0.0 if self._taken == math.inf else self._taken * faded
            self._taken = max(self._taken, sent * (1 - share))
        if share:
            self._quiet = 0.0
            # While little is sent, few returned units say little about the rate.
            rate = max(min(rate, sent) * (1 - share), rate * (1 - 2 * share), rate / 2)
        else:
            self._quiet += passed
        if sent >= rate / 2:
            # Otherwise the rate does not limit the run, and a higher one is unproven.
            known = 0.0 if share else min(rate * FAST, self._taken)
            raised = self._raise * min(2 ** (self._quiet / DOUBLING), MOST_RAISES)
            rate = max(known, rate * (1 + passed * raised))
        self.units_per_second = max(rate, self._slowest)
