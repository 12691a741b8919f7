"""ProgressSample an invocation's totals, in fewer and fewer moments the longer it takes."""

from __future__ import annotations

from ddbload.contracts.results import RowCounts, WriteStats
from ddbload.contracts.segment_times import MAX_SAMPLES, ProgressSample, SegmentTimes

FIRST_PERIOD = 1.0
"""Seconds between samples, until there are too many; then they are thinned out."""


class ProgressSamples:
    """Samples of one invocation's totals."""

    def __init__(self, worker: str, began: float, now: float) -> None:
        """`began` is in seconds since the epoch, and `now` by the clock that `add` is told."""
        self._worker = worker
        self._began = began
        self._clock_began = now
        self._period = FIRST_PERIOD
        self._next = now + FIRST_PERIOD
        self._samples: list[ProgressSample] = []

    def add(self, now: float, rows: RowCounts, work: WriteStats) -> None:
        """Keep the totals if the last ones are old enough."""
        if now < self._next:
            return
        if len(self._samples) == MAX_SAMPLES:
            del self._samples[::2]
            self._period *= 2
        seconds, units = now - self._clock_began, round(work.consumed_wcu)
        self._samples.append(ProgressSample(seconds, rows.read, units, work.throttled))
        self._next = now + self._period

    def times(self, now: float) -> SegmentTimes:
        """Return the times of an invocation that ends now.

        The end is the beginning plus the seconds of the monotonic clock: the other clock may be
        set back meanwhile.
        """
        ended = self._began + max(0.0, now - self._clock_began)
        return SegmentTimes.of(self._worker, round(self._began, 3), round(ended, 3), self._samples)
