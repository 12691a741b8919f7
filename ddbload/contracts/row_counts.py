"""Counts of rows by outcome, of the requests that wrote them, and samples of both over time.

A new outcome is a field of `RowCounts`. The law, JSON, names of progress, metrics, pages and texts
follow from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, field, fields
from typing import Annotated, Any, Self, cast

from ddbload.contracts.messages import SPARSE, JsonObjectReader, JsonRule, Message
from ddbload.dynamodb.modes import mode_of
from ddbload.records import Record

NO_ROWS = "the source has no rows: check that it is the one you mean"
"""Warning about a run that has succeeded, and read nothing."""
ALL_FILTERED = (
    "'where' leaves out every row of the source: check its columns and values, which are compared"
    " exactly, with quotes if there are any"
)
"""Warning about a run that has succeeded, and left out each row it read."""


class Sums:
    """Base of counts that can be added, field by field."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in fields(cast("Any", self))]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


class RowCounts(Sums, Message):
    """Rows that were read, and how many had each outcome.

    `read` must be the sum of all outcomes.
    """

    read: int = 0
    written: int = 0
    rejected: int = 0
    superseded: int = 0
    skipped: int = 0
    filtered: Annotated[int, SPARSE] = 0
    """Rows that `where` leaves out."""

    @classmethod
    def of(cls, outcomes: Iterable[int]) -> Self:
        """Make the counts of settled rows from those of `OUTCOMES`, in that order."""
        counts = tuple(outcomes)
        return cls(sum(counts), *counts)

    @property
    def conserved(self) -> bool:
        """True if every row that was read is accounted for."""
        return self.read == sum(self.outcomes.values())

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of rows by outcome."""
        return {name: getattr(self, name) for name in OUTCOMES}

    def shown(self, mode: str) -> list[tuple[str, int, str]]:
        """Return the name of each outcome, its rows, and its word in a mode.

        Leaves out the outcomes that few runs have, while they have no rows.
        """
        found = self.to_json()
        return [
            (name, found[name], mode_of(mode).outcome_word(name))
            for name in OUTCOMES
            if name in found
        ]

    def text(self, mode: str, written: str) -> str:
        """Return the counts in words: `9 deleted, 0 rejected, 0 superseded, 0 skipped`."""
        others = (f"{count:,} {name}" for name, count, _ in self.shown(mode) if name != "written")
        return ", ".join((written, *others))

    @property
    def warning(self) -> str | None:
        """Reason to doubt a run that has succeeded; None without one."""
        if not self.read:
            return NO_ROWS
        return ALL_FILTERED if self.filtered == self.read else None

    @property
    def all_rejected(self) -> bool:
        """True if at least one row was read and every row was rejected."""
        return 0 < self.read == self.rejected

    def greatest(self, other: RowCounts) -> RowCounts:
        """Return the greater number of each outcome; `read` is their sum, as always."""
        return type(self).of(map(max, self.outcomes.values(), other.outcomes.values()))


OUTCOMES = tuple(each.name for each in fields(RowCounts) if each.name != "read")
"""Names of the outcomes, in the order in which they are shown."""


class WriteStats(Sums, Message):
    """Requests that writing took, and the capacity that they consumed."""

    requests: int = 0
    throttled: int = 0
    """Requests that DynamoDB throttled, wholly or in part."""
    retries: int = 0
    """Requests with at least one row that had been sent before."""
    consumed_wcu: float = 0.0
    """Write units of the table and its indexes: "The data returned includes the total provisioned
    throughput consumed, along with statistics for the table and any indexes involved in the
    operation" (ConsumedCapacity; TOTAL is its aggregate). Vector indexes are metered apart."""


class WorkTotals(Sums, Record):
    """Rows, requests and bytes of work on a source."""

    rows: RowCounts = field(default_factory=RowCounts)
    work: WriteStats = field(default_factory=WriteStats)
    bytes: int = 0
    """Bytes of the settled rows."""

    def greatest(self, other: WorkTotals) -> WorkTotals:
        """Return the greater of each figure."""
        work = WriteStats(*map(max, astuple(self.work), astuple(other.work)))
        return type(self)(self.rows.greatest(other.rows), work, max(self.bytes, other.bytes))


MAX_SAMPLES = 32
"""Samples of one invocation, however long it takes."""
FIRST_PERIOD = 1.0
"""Seconds between samples, until there are too many; then they are thinned out."""
LAST_TIME = 253_402_300_799.0
"""Last second of the year 9999."""
_SAMPLE = r"[0-9]{1,9}\.[0-9]{1,2}/[0-9]{1,16}/[0-9]{1,16}/[0-9]{1,16}"
_SAMPLES = JsonRule(
    pattern=re.compile(rf"(?:{_SAMPLE}(?: {_SAMPLE}){{0,{MAX_SAMPLES - 1}}})?"),
    wanted="a text of samples",
)


class ProgressSample(Record):
    """Totals of an invocation at one moment."""

    seconds: float
    """Seconds since the invocation began."""
    rows: int
    """Rows with an outcome, also behind others that have none yet."""
    units: int
    """Consumed write units."""
    throttled: int
    """Throttled requests."""


class SegmentTimes(Message):
    """Beginning and end of an invocation on a chunk, and samples of its totals."""

    worker: str
    """Identity of the process, or of the function's environment."""
    began: float
    """Seconds since the epoch."""
    ended: float
    samples: Annotated[str, _SAMPLES] = ""
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

    def times(self, now: float, of_rows: float = 1.0, *, of_work: bool = True) -> SegmentTimes:
        """Return the times of an invocation that ends now, for one of its segments.

        `of_rows`: the segment's share of the rows; `of_work`: False if another one has the
        requests.

        The end is the beginning plus the seconds of the monotonic clock: the other clock may be
        set back meanwhile.
        """
        ended = self._began + max(0.0, now - self._clock_began)
        samples = [
            ProgressSample(
                *(each.seconds, round(each.rows * of_rows)),
                *(each.units * of_work, each.throttled * of_work),
            )
            for each in self._samples
        ]
        return SegmentTimes.of(self._worker, round(self._began, 3), round(ended, 3), samples)
