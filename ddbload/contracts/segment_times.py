"""Times and progress of an invocation on a chunk, for charts of a run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message

MAX_SAMPLES = 32
"""Samples of one invocation, however long it takes."""
FIRST_PERIOD = 1.0
"""Seconds between samples, until there are too many; then they are thinned out."""
LAST_TIME = 253_402_300_799.0
"""Last second of the year 9999."""
_SAMPLE = r"[0-9]{1,9}\.[0-9]{1,2}/[0-9]{1,16}/[0-9]{1,16}/[0-9]{1,16}"
_SAMPLES = re.compile(rf"(?:{_SAMPLE}(?: {_SAMPLE}){{0,{MAX_SAMPLES - 1}}})?")


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """Totals of an invocation at one moment."""

    seconds: float
    """Seconds since the invocation began."""
    rows: int
    """Rows with an outcome, also behind others that have none yet."""
    units: int
    """Consumed write units."""
    throttled: int
    """Throttled requests."""


def _read_samples(f: JsonObjectReader) -> str:
    samples = f.raw("samples")
    if not isinstance(samples, str) or not _SAMPLES.fullmatch(samples):
        raise f.wrong("samples", samples, "a text of samples")
    return samples


@dataclass(frozen=True, slots=True)
class SegmentTimes(Message):
    """Beginning and end of an invocation on a chunk, and samples of its totals."""

    worker: str
    """Identity of the process, or of the function's environment."""
    began: float
    """Seconds since the epoch."""
    ended: float
    samples: Annotated[str, JsonRule(read=_read_samples)] = ""
    """Each sample as `seconds/rows/units/throttled`, separated by spaces.

    Report reads the segments of a run together: as text they take a tenth of the memory.
    """

    @classmethod
    def of(
        cls, worker: str, began: float, ended: float, samples: Sequence[ProgressSample] = ()
    ) -> Self:
        """Make the times of an invocation."""
        texts = (f"{s.seconds:.2f}/{s.rows}/{s.units}/{s.throttled}" for s in samples)
        return cls(worker, began, ended, " ".join(texts))

    def iter_samples(self) -> Iterator[ProgressSample]:
        """Return the samples, in order."""
        for text in self.samples.split():
            seconds, rows, units, throttled = text.split("/")
            yield ProgressSample(float(seconds), int(rows), int(units), int(throttled))

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for an end before the beginning, or beyond all calendars."""
        if not self.began <= self.ended <= LAST_TIME:
            raise f.wrong("ended", self.ended, f"a time from {self.began} on")


class ProgressSamples:
    """Samples of one invocation's totals, fewer and fewer the longer it takes."""

    def __init__(self, worker: str, began: float, now: float) -> None:
        """`began` is in seconds since the epoch, `now` in those of the clock of `add`."""
        self._worker = worker
        self._began = began
        self._clock_began = now
        self._period = FIRST_PERIOD
        self._next = now + FIRST_PERIOD
        self._samples: list[ProgressSample] = []

    def add(self, now: float, rows: int, consumed_wcu: float, throttled: int) -> None:
        """Keep the totals if the last ones are old enough. `rows`: those with an outcome."""
        if now < self._next:
            return
        if len(self._samples) == MAX_SAMPLES:
            del self._samples[::2]
            self._period *= 2
        seconds = now - self._clock_began
        self._samples.append(ProgressSample(seconds, rows, round(consumed_wcu), throttled))
        self._next = now + self._period

    def times(self, now: float) -> SegmentTimes:
        """Return the times of an invocation that ends now.

        The end is the beginning plus the seconds of the monotonic clock: the other clock may be
        set back meanwhile.
        """
        ended = self._began + max(0.0, now - self._clock_began)
        return SegmentTimes.of(self._worker, round(self._began, 3), round(ended, 3), self._samples)
