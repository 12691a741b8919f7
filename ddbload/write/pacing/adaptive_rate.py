"""Find the write units a second that a table takes, from the units it returns. Pure.

Times are passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math

from ddbload.write.pacing.wcu_budget import BURST_SECONDS, TokenBucket

REQUEST_MARGIN = 1.25
"""Factor on the size of requests while answers are slow, so that they suffice."""
TIME_TOLERANCE = 1e-6
"""Tolerance when times are compared."""
PERIOD = 1.0
"""Seconds between changes of the rate."""
RISE_PER_SECOND = 0.003
"""Share by which the rate rises each second, right after units were returned."""
RISE_DOUBLING_SECONDS = 20.0
"""Seconds without a return after which the rate rises twice as fast."""
MAX_RISE_FACTOR = 10
"""Fastest rise, as a multiple. Faster would use up saved burst capacity at once."""
KNOWN_RATE_RISE = 1.25
"""Factor by which the rate rises each second, up to the units that were lately taken."""
TAKEN_DECAY = 0.8
"""Factor on the remembered taken units after each period in which units were returned."""
OUTAGE_SHARE = 0.98
"""A larger returned share says nothing about the table's capacity."""
MIN_SENDING_SECONDS = 0.1
"""Shortest time in seconds for which units a second are computed."""
EARLY_CUT_UNITS = 100
"""Units that suffice to lower the rate early when most of them were returned."""
MIN_EVIDENCE_UNITS = 25
"""Units needed before the rate is lowered, unless most of them were returned."""
MIN_RETURNED_UNITS = 3
"""Returned units needed before the rate is lowered, if few units were sent or no rate is set."""
MAX_UNDECIDED_SECONDS = 5.0
"""Longest time, in seconds, without a change, however little is known."""
MIN_RETURNED_SHARE = 0.01
"""Returned share below which no limit is set: a limit costs about as much."""
MIN_UNITS_PER_SECOND = 1.0
"""Lowest rate, units a second."""


class AdaptiveRate:
    """Rate in write units a second; unlimited until the table first returns units.

    Once a second, or sooner when most units are returned, the rate is lowered by the returned
    share, to the units that were taken. While nothing is returned it rises: at first by the share
    `RISE_PER_SECOND`, faster the longer this lasts. At a table's limit both balance, and about that
    share of all rows is returned.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float = math.inf,
        min_rate: float = MIN_UNITS_PER_SECOND,
        rise: float = RISE_PER_SECOND,
    ) -> None:
        """Start at `units_per_second`; the rate rises by the share `rise` each second."""
        self.units_per_second = units_per_second
        self._min_rate = min_rate
        self._rise = rise
        # Units a second that were lately taken: up to this the rate rises fast.
        self._taken_rate = units_per_second
        self._bucket = TokenBucket(now)
        # Requests sent since `_changed_at`: their number, the times of the first and the last one,
        # their units, the units that count as evidence, and the returned units among these.
        self._changed_at = now
        self._requests = 0
        self._first_sent_at = 0.0
        self._last_sent_at = 0.0
        self._units = 0
        self._evidence_units = 0
        self._returned = 0
        # Seconds since units were last returned.
        self._quiet_seconds = 0.0

    @property
    def at_minimum(self) -> bool:
        """The rate is at its minimum."""
        return self.units_per_second <= self._min_rate

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Compute the units that one request may carry in these seconds."""
        return self.units_per_second * seconds

    def ready_at(self, now: float) -> float:
        """Compute when a request may be sent."""
        rate = self.units_per_second
        return now if rate == math.inf else self._bucket.ready_at(rate, now)

    def charge(self, units: int) -> None:
        """Count the units of a request that is sent."""
        self._bucket.take(units)

    def answered(
        self, units: int, returned: int, sent_at: float, now: float, stubborn: int = 0
    ) -> None:
        """Learn from an answer that returned `returned` of the request's units.

        `stubborn`: units of rows that are no evidence for others; `returned` does not include them.
        """
        if sent_at < self._changed_at:
            # Requests sent before the rate changed say nothing about the new rate.
            return
        if not self._requests:
            self._first_sent_at = self._last_sent_at = sent_at
        self._last_sent_at = max(self._last_sent_at, sent_at)
        self._requests += 1
        self._units += units
        self._evidence_units += units - stubborn
        self._returned += returned
        seconds = self._sending_seconds
        if not self._overloaded and (
            seconds < PERIOD - TIME_TOLERANCE or self._lacks_evidence(seconds)
        ):
            return
        if self.units_per_second != math.inf:
            self._adjust(seconds)
        elif (
            self._returned > MIN_RETURNED_SHARE * self._evidence_units
            and self._returned >= MIN_RETURNED_UNITS
        ):
            self._set_first_rate(seconds)
            self._bucket = TokenBucket(now)
        self._changed_at = now
        self._requests = self._units = self._evidence_units = self._returned = 0

    @property
    def _sending_seconds(self) -> float:
        """Seconds over which these requests were sent; 0 if unknown.

        Waiting for answers, or for rows to send, does not count.
        """
        if self._requests < 2:
            return 0.0
        return (self._last_sent_at - self._first_sent_at) * self._requests / (self._requests - 1)

    @property
    def _overloaded(self) -> bool:
        """Most units are returned, and they suffice to lower the rate early."""
        rate = self.units_per_second
        enough = EARLY_CUT_UNITS if rate == math.inf else max(EARLY_CUT_UNITS, rate * PERIOD / 10)
        return 2 * self._returned > self._evidence_units >= enough

    @property
    def _returned_share(self) -> float:
        return self._returned / self._evidence_units

    def _lacks_evidence(self, seconds: float) -> bool:
        """Return whether there is too little evidence for a change."""
        if not self._evidence_units:
            return True
        if not self._returned or seconds >= MAX_UNDECIDED_SECONDS:
            return False
        if self._returned < MIN_RETURNED_UNITS and (
            self._evidence_units < MIN_EVIDENCE_UNITS or self.units_per_second == math.inf
        ):
            return True
        return (
            self._evidence_units < MIN_EVIDENCE_UNITS and 2 * self._returned <= self._evidence_units
        )

    def _set_first_rate(self, seconds: float) -> None:
        sent = self._units / max(seconds, MIN_SENDING_SECONDS)
        share = self._returned_share
        if seconds >= PERIOD and share <= OUTAGE_SHARE:
            self._taken_rate = sent * (1 - share)
        self.units_per_second = max(sent * max(1 - share, 0.5), self._min_rate)

    def _adjust(self, seconds: float) -> None:
        rate = self.units_per_second
        sent = self._units / max(seconds, MIN_SENDING_SECONDS)
        share = self._returned_share
        if share <= OUTAGE_SHARE:
            if share:
                decay = TAKEN_DECAY ** min(seconds, PERIOD)
                self._taken_rate = 0.0 if self._taken_rate == math.inf else self._taken_rate * decay
            self._taken_rate = max(self._taken_rate, sent * (1 - share))
        if share:
            self._quiet_seconds = 0.0
            # While little is sent, few returned units say little about the rate.
            rate = max(min(rate, sent) * (1 - share), rate * (1 - 2 * share), rate / 2)
        else:
            self._quiet_seconds += seconds
        if sent >= rate / 2:
            # Otherwise the rate does not limit the run, and a higher one is unproven.
            known = 0.0 if share else min(rate * KNOWN_RATE_RISE, self._taken_rate)
            rise = self._rise * min(
                2 ** (self._quiet_seconds / RISE_DOUBLING_SECONDS), MAX_RISE_FACTOR
            )
            rate = max(known, rate * (1 + seconds * rise))
        self.units_per_second = max(rate, self._min_rate)
