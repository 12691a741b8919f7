"""Messages between the scheduler and a driver, and the outcomes of rows. Pure.

Rows have handles: 0, 1, 2, … in the order of the source. Outcomes arrive in any order, but only
those before the first unsettled row (the frontier) are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ddbload.contracts.results import REFUSED_BY_DYNAMODB
from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import DdbloadError
from ddbload.write.pacing.pacing import SentUnits
from ddbload.write.scheduler.key_ordering import QueuedRow
from ddbload.write.scheduler.unsettled_rows import UniqueKeyBatch

_KEPT = 4096
"""Settled rows are dropped in blocks of this size: one by one would be quadratic."""


class RowOutcome(IntEnum):
    """The outcome of one row."""

    WRITTEN = 1
    REJECTED = 2
    SUPERSEDED = 3
    SKIPPED = 4
    IDENTICAL = 5
    """The table holds an equal item. Skipped, unless this run put that item itself."""
    UNSEEN = 6
    """The condition failed and the answer shows no item, as DynamoDB's would. Skipped, unless this
    run may have put that item itself."""
    UNCERTAIN = 7
    """Written by the row's own request, which was not answered, or there before. Counts as written.
    """


@dataclass(slots=True)
class Batch:
    """A request to send now, as the handles of its rows."""

    number: int
    handles: Sequence[int]
    rows: list[QueuedRow] = field(default_factory=list, compare=False)
    """The rows, unless they are a batch of unique keys."""
    unique: UniqueKeyBatch | None = field(default=None, compare=False)
    sent: SentUnits = field(default_factory=SentUnits, compare=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to send before the time `until`; None: before an answer arrives."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to send, and no answer is awaited any more."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """DynamoDB carried the request out, except for the rows named here by their indexes."""

    unprocessed: Sequence[int] = ()
    """Indexes of rows within the batch that were returned for want of capacity."""
    consumed: float = 0.0
    """Write capacity units."""
    outcome: RowOutcome = RowOutcome.WRITTEN
    """The outcome of all other rows: not WRITTEN where a condition failed."""
    alone: Sequence[int] = ()
    """Indexes of rows without an outcome that must be sent again, each in a request of its own."""
    unsure: Sequence[int] = ()
    """Those of `alone` that may have been written."""
    single_rows: bool = False
    """From now on every row must go in a request of its own."""
    fatal: DdbloadError | None = None
    """Error after which no request can succeed; the rows have the outcomes above nevertheless."""

    @property
    def is_complete(self) -> bool:
        """Every row has the outcome."""
        return not (self.unprocessed or self.alone)


@dataclass(frozen=True, slots=True)
class Throttled:
    """The whole request was throttled."""

    code: str
    key_range: bool = False
    """Every `ThrottlingReasons` entry names a partition, none the table."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """No credible answer: the rows may or may not have been written."""

    reason: str
    refused: bool = False
    """DynamoDB states that it did nothing; the request may pass when repeated."""
    error: DdbloadError | None = None
    """Error that ends the run if no request is answered otherwise for `FOREIGN_SECONDS`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """DynamoDB rejects the request's content, or the item that a row would replace."""

    message: str
    cause: str = REFUSED_BY_DYNAMODB
    """Cause of the resulting reject."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """No request can succeed: the run must stop."""

    error: DdbloadError
    unsure: bool = False
    """The rows may have been written nevertheless."""


Answer = Accepted | Throttled | Unsure | Refused | Fatal
Step = Batch | Wait | Finished


class OutcomeTracker:
    """Outcomes by handle, and the frontier: the handle of the first unsettled row."""

    def __init__(self) -> None:
        self.known = 0
        """Number of handles given out, so the next handle."""
        # One byte for each row from `_base` on: its outcome, or 0. Rows before `_start` are settled
        # and counted in `_tally`.
        self._outcomes = bytearray()
        self._base = 0
        self._start = 0
        self._tally = [0] * (max(RowOutcome) + 1)

    @property
    def frontier(self) -> int:
        """Handle of the first unsettled row."""
        outcomes, start = self._outcomes, self._start
        if start < len(outcomes) and outcomes[start]:
            self._advance()
        return self._base + self._start

    @property
    def ahead(self) -> int:
        """Number of rows from the frontier on."""
        return self.known - self.frontier

    @property
    def answered(self) -> int:
        """Number of rows with an outcome, also beyond the frontier."""
        return self._base + len(self._outcomes) - self._outcomes.count(0)

    @property
    def counts(self) -> RowCounts:
        """Counts of the rows before the frontier."""
        read, tally = self.frontier, self._tally
        return RowCounts(
            read=read,
            written=tally[RowOutcome.WRITTEN] + tally[RowOutcome.UNCERTAIN],
            rejected=tally[RowOutcome.REJECTED],
            superseded=tally[RowOutcome.SUPERSEDED],
            skipped=tally[RowOutcome.SKIPPED]
            + tally[RowOutcome.IDENTICAL]
            + tally[RowOutcome.UNSEEN],
        )

    def count(self, outcome: RowOutcome) -> int:
        """Count the rows before the frontier that have this outcome."""
        # Reading the frontier brings the tally up to date.
        _ = self.frontier
        return self._tally[outcome]

    def last_written(self) -> int | None:
        """Find the last written row at or beyond the frontier; None if there was no such row."""
        first = self.frontier - self._base
        offset = max(
            self._outcomes.rfind(each, first) for each in (RowOutcome.WRITTEN, RowOutcome.UNCERTAIN)
        )
        return None if offset < 0 else self._base + offset

    def add(self, count: int = 1) -> int:
        """Add rows and return the first one's handle."""
        first = self.known
        self.known += count
        self._outcomes.extend(bytes(count))
        return first

    def settle(self, handle: int, outcome: RowOutcome) -> None:
        """Record a row's outcome. Raises `AssertionError` if it has one already."""
        offset = handle - self._base
        if offset < self._start or self._outcomes[offset]:
            raise AssertionError(f"row {handle} is already settled")
        self._outcomes[offset] = outcome

    def settle_all(self, handles: Sequence[int], outcome: RowOutcome) -> None:
        """Record one outcome for several rows, given in ascending order."""
        if not isinstance(handles, range):
            for handle in handles:
                self.settle(handle, outcome)
            return
        if handles and handles[0] < self._base + self._start:
            raise AssertionError(f"row {handles[0]} is already settled")
        offsets = slice(handles.start - self._base, handles.stop - self._base, handles.step)
        if any(self._outcomes[offsets]):
            raise AssertionError(f"some of rows {handles} are already settled")
        self._outcomes[offsets] = bytes([outcome]) * len(handles)

    def _advance(self) -> None:
        outcomes, start = self._outcomes, self._start
        stop = outcomes.find(0, start)
        if stop < 0:
            stop = len(outcomes)
        for outcome in RowOutcome:
            self._tally[outcome] += outcomes.count(outcome, start, stop)
        self._start = stop
        if stop >= _KEPT:
            del outcomes[:stop]
            self._base += stop
            self._start = 0
