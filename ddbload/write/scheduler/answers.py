"""Requests, their answers, and the outcomes of rows. Pure.

Rows have handles: 0, 1, 2, … in source order. Outcomes arrive in any order, but only those before
the first unsettled row (the frontier) are counted.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ddbload.aws.backoff import MAX_LEVEL
from ddbload.contracts.results import REFUSED_BY_DYNAMODB
from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import DdbloadError
from ddbload.records import Record
from ddbload.write.pacing.pacing import Pacing, SentUnits
from ddbload.write.scheduler.single_rows import QueuedRow
from ddbload.write.scheduler.unsettled_rows import UniqueKeyBatch, UnsettledRows

_KEPT = 4096
"""Number of settled rows dropped together; dropping one by one would take quadratic time."""


class RowOutcome(IntEnum):
    """Outcome of one row."""

    WRITTEN = 1
    REJECTED = 2
    SUPERSEDED = 3
    SKIPPED = 4
    IDENTICAL = 5
    """The table holds an equal item. Counts as skipped, unless this run put that item itself."""
    UNSEEN = 6
    """The condition failed, and the answer lacks the item that DynamoDB would include.

    Counts as skipped, unless this run may have put the item itself.
    """
    UNCERTAIN = 7
    """Written by the row's own unanswered request, or present before. Counts as written."""


@dataclass(slots=True)
class Batch:
    """Request to send now, given as the handles of its rows."""

    number: int
    handles: Sequence[int]
    rows: list[QueuedRow] = field(default_factory=list, compare=False)
    """Rows of the request; None for a batch of unique keys."""
    unique: UniqueKeyBatch | None = field(default=None, compare=False)
    sent: SentUnits = field(default_factory=SentUnits, compare=False)


class Wait(Record):
    """Nothing to send before the time `until`; None: before an answer arrives."""

    until: float | None


class Finished(Record):
    """Nothing is left to send, and no answer is awaited."""


class Accepted(Record):
    """DynamoDB carried out the request, except for the rows listed here by index."""

    unprocessed: Sequence[int] = ()
    """Indexes of rows in the batch that were returned for lack of capacity."""
    consumed: float = 0.0
    """Consumed write capacity units."""
    outcome: RowOutcome = RowOutcome.WRITTEN
    """Outcome of all other rows: not WRITTEN if a condition failed."""
    alone: Sequence[int] = ()
    """Indexes of rows without an outcome that must be sent again, each in its own request."""
    unsure: Sequence[int] = ()
    """Indexes among `alone` of rows that may have been written."""
    single_rows: bool = False
    """True if every row must be sent in its own request from now on."""
    fatal: DdbloadError | None = None
    """Error after which no request can succeed. The rows still have the outcomes above."""

    @property
    def is_complete(self) -> bool:
        """True if every row has the outcome."""
        return not (self.unprocessed or self.alone)


class Throttled(Record):
    """The whole request was throttled."""

    code: str
    key_range: bool = False
    """True if every `ThrottlingReasons` entry names a partition, and none the table."""


class Unsure(Record):
    """No credible answer: the rows may or may not have been written."""

    reason: str
    refused: bool = False
    """True if DynamoDB states that the request had no effect; a retry may succeed."""
    error: DdbloadError | None = None
    """Error that ends the run if only such answers arrive for `FOREIGN_SECONDS`."""


class Refused(Record):
    """DynamoDB refuses the request's content, or the item that a row would replace."""

    message: str
    cause: str = REFUSED_BY_DYNAMODB
    """Cause of the resulting reject."""


class Fatal(Record):
    """No request can succeed: the run must stop."""

    error: DdbloadError
    unsure: bool = False
    """True if the rows may have been written nevertheless."""


Answer = Accepted | Throttled | Unsure | Refused | Fatal
Step = Batch | Wait | Finished


_NO_ROWS = [0] * (len(RowOutcome) + 1)
"""Number of rows by their outcome."""


class OutcomeTracker:
    """Outcomes by handle, and the frontier: handle of the first unsettled row."""

    def __init__(self) -> None:
        self.known = 0
        """Number of handles given out, which is the next handle."""
        # One byte per row from `_base` on: its outcome, or 0. Rows before `_start` are settled and
        # counted in the tally of their place.
        self._outcomes = bytearray()
        self._base = 0
        self._start = 0
        self._tallies = defaultdict[int, list[int]](lambda: [*_NO_ROWS])
        # Handles after rows of one place, and the place.
        self._shares: deque[tuple[int, int]] = deque()

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
        """Number of rows with an outcome, including those after the frontier."""
        return self._base + len(self._outcomes) - self._outcomes.count(0)

    def assign(self, end: int, place: int) -> None:
        """Count rows that are not assigned yet, up to handle `end`, for a place; by default 0."""
        if self._shares and self._shares[-1][1] == place:
            self._shares.pop()
        self._shares.append((end, place))

    @property
    def counts(self) -> RowCounts:
        """Counts of the rows before the frontier."""
        # Reading the frontier updates the tallies.
        _ = self.frontier
        return _counts(*self._tallies.values())

    def counts_of(self, place: int) -> RowCounts:
        """Return the counts of the rows of a place before the frontier."""
        _ = self.frontier
        return _counts(self._tallies[place])

    def count(self, outcome: RowOutcome, place: int = 0) -> int:
        """Return the number of rows of a place before the frontier with this outcome."""
        _ = self.frontier
        return self._tallies[place][outcome]

    def last_written(self) -> int | None:
        """Return the last written row at or after the frontier; None if there is none."""
        first = self.frontier - self._base
        offset = max(
            self._outcomes.rfind(each, first) for each in (RowOutcome.WRITTEN, RowOutcome.UNCERTAIN)
        )
        return None if offset < 0 else self._base + offset

    def add(self, count: int = 1) -> int:
        """Add rows; return the handle of the first one."""
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
        while start < stop:
            end, place = self._shares[0] if self._shares else (self._base + stop, 0)
            last = min(stop, end - self._base)
            tally = self._tallies[place]
            for outcome in RowOutcome:
                tally[outcome] += outcomes.count(outcome, start, last)
            if self._shares and self._base + last == end:
                self._shares.popleft()
            start = last
        self._start = stop
        if stop >= _KEPT:
            del outcomes[:stop]
            self._base += stop
            self._start = 0


def _counts(*tallies: list[int]) -> RowCounts:
    tally = [sum(of_places) for of_places in zip(_NO_ROWS, *tallies, strict=True)]
    return RowCounts(
        read=sum(tally),
        written=tally[RowOutcome.WRITTEN] + tally[RowOutcome.UNCERTAIN],
        rejected=tally[RowOutcome.REJECTED],
        superseded=tally[RowOutcome.SUPERSEDED],
        skipped=tally[RowOutcome.SKIPPED] + tally[RowOutcome.IDENTICAL] + tally[RowOutcome.UNSEEN],
    )


RETURNED_LEVEL = 4
"""Maximum back-off level of a returned row: waits of up to 0.8 s.

The rate already slows the following requests. A row that waits longer would stop all others, which
may be at most `MAX_AHEAD` rows ahead of it.
"""
FOREIGN_SECONDS = 30.0
"""Seconds in which only a server other than DynamoDB answers, after which the run ends."""
STUBBORN_ATTEMPTS = 2
"""Returns of a row after which it is no evidence: the table may refuse it alone."""
WINDOW_ROWS = 200
"""Number of rows over which the share of rows that found an item is averaged."""
MOST_FOUND = 0.1
"""Share from which on rows are sent alone: that costs at most a tenth more write units."""
FEW_FOUND = 0.05
"""Share below which rows are sent together again."""
_MAY_BE_OWN = frozenset((RowOutcome.IDENTICAL, RowOutcome.UNSEEN))
"""Outcomes of rows whose item this run may have put before."""


class BatchSize:
    """Maximum rows per request, if rows may have to be sent a second time, alone.

    In mode `insert` the answer for a batch does not show the item that a row found in the table, so
    each row that found one is sent again alone. While these are few, that is cheap: one request for
    25 rows instead of 25. But DynamoDB bills such a row twice, so if many rows find an item, each
    is sent alone from the start.
    """

    def __init__(self, most_rows: int) -> None:
        self.rows = self._most_rows = most_rows
        """Current maximum of rows per request."""
        self._found = 0.0

    def answered(self, rows: int, answer: Accepted) -> None:
        """Update the maximum from the answer to a request's first attempt."""
        if answer.single_rows:
            self.rows = self._most_rows = 1
        if self._most_rows == 1:
            return
        if answer.outcome is RowOutcome.WRITTEN:
            found = len(answer.alone) - len(answer.unsure)
            if not found and not self._found:
                return
        else:
            found = rows
        weight = min(1.0, rows / WINDOW_ROWS)
        self._found += (found / rows - self._found) * weight
        if self._found < 0.5 / WINDOW_ROWS:
            self._found = 0.0
        if self._found > MOST_FOUND:
            self.rows = 1
        elif self._found < FEW_FOUND:
            self.rows = self._most_rows


class Answers:
    """Applies answers to the rows of their requests, and keeps facts about the run."""

    def __init__(
        self,
        rows: UnsettledRows,
        outcomes: OutcomeTracker,
        pacing: Pacing,
        on_release: Callable[[Sequence[int]], None],
    ) -> None:
        self.refused: dict[int, Refused] = {}
        """DynamoDB's refusals by handle. Their messages may quote row data."""
        self.fatal: DdbloadError | None = None
        """Error that ended the run."""
        self.identical: list[int] = []
        """Handles of settled rows that found an identical item, or one not shown by the answer.

        Another invocation of this run may have put the item. `on_release` clears the list.
        """
        self.last_error: str | None = None
        """Code or short reason of the last error. Never its message, which may quote row data."""
        self.maybe_written: set[int] = set()
        """Handles of unsettled rows in requests whose effect is unknown."""
        self.most_level = MAX_LEVEL
        """Maximum back-off level of a row."""
        self.throttled_requests = 0
        self.consumed_units = 0.0
        self._rows = rows
        self._outcomes = outcomes
        self._pacing = pacing
        self._batch = BatchSize(rows.batch_rows)
        self._on_release = on_release
        # Time since which a server other than DynamoDB answers; None if DynamoDB does.
        self._foreign_since: float | None = None

    def take(self, batch: Batch, answer: Answer, now: float) -> None:
        """Settle the rows of a request, or queue them again, according to its answer."""
        unique, sent = batch.unique, batch.sent
        if unique is not None and unique.is_open:
            unknown = self.maybe_written
            sure = not unknown or unknown.isdisjoint(unique.handles)
            if isinstance(answer, Accepted) and answer.is_complete and sure:
                self._settle_unique(unique, sent, answer, now)
                return
            self._rows.dissolve(unique)
        rows = batch.rows if unique is None else unique.rows
        for row in rows:
            row.in_flight = False
        if not isinstance(answer, Unsure):
            self._foreign_since = None
        match answer:
            case Accepted():
                if not rows[0].alone:
                    self._learn_batch_size(len(rows), answer)
                self._handle_accepted(rows, sent, answer, now)
                self._stop_for(answer.fatal)
            case Throttled(code, key_range):
                all_rows = Accepted(range(len(rows)))
                self._handle_accepted(rows, sent, all_rows, now, code, key_range=key_range)
            case Unsure(reason):
                self.last_error = reason
                self._note_foreign(answer.error, now)
                if not answer.refused:
                    self.maybe_written.update(row.handle for row in rows)
                self._pacing.unsure(sent, now)
                self._rows.retry(rows, now, min(MAX_LEVEL, self.most_level))
            case Refused():
                self._pacing.refused(sent, now)
                self._handle_refused(rows, answer)
            case Fatal(error):
                if answer.unsure:
                    self.maybe_written.update(row.handle for row in rows)
                self._stop_for(error)

    def _note_foreign(self, error: DdbloadError | None, now: float) -> None:
        """End the run if only a server other than DynamoDB answers for long, with this `error`."""
        if error is None:
            return
        if self._foreign_since is None:
            self._foreign_since = now
        elif now - self._foreign_since >= FOREIGN_SECONDS:
            self._stop_for(error)

    def _stop_for(self, error: DdbloadError | None) -> None:
        if error is not None:
            self.fatal = self.fatal or error

    def _settle_unique(
        self, unique: UniqueKeyBatch, sent: SentUnits, answer: Accepted, now: float
    ) -> None:
        self._foreign_since = None
        self._rows.remove_batch(unique)
        self._outcomes.settle_all(unique.handles, answer.outcome)
        if answer.outcome in _MAY_BE_OWN:
            self.identical.extend(unique.handles)
        self._on_release(unique.handles)
        self._learn_batch_size(len(unique.handles), answer)
        self.consumed_units += answer.consumed
        self._pacing.answered(sent, sent.units, answer.consumed, now)

    def _handle_accepted(
        self,
        rows: Sequence[QueuedRow],
        sent: SentUnits,
        answer: Accepted,
        now: float,
        throttled: str = "UnprocessedItems",
        *,
        key_range: bool = False,
    ) -> None:
        """Settle rows that were written or found an item; queue the others again.

        `throttled`: error code for returned rows. `key_range`: the throttling reasons name a
        partition.
        """
        unprocessed, alone = set(answer.unprocessed), set(answer.alone)
        self.consumed_units += answer.consumed
        self._count_returned(rows, unprocessed, sent, now, key_range=key_range)
        self.maybe_written.update(rows[index].handle for index in answer.unsure)
        # DynamoDB also bills a write whose condition is false.
        written = sum(row.units for index, row in enumerate(rows) if index not in unprocessed)
        self._pacing.answered(sent, written, answer.consumed, now)
        for index, row in enumerate(rows):
            if index in unprocessed:
                continue
            if index in alone:
                self._rows.send_alone(row)
            else:
                self._settle_written(row, answer.outcome)
        if unprocessed:
            # An answer may name a row twice.
            returned = [row for index, row in enumerate(rows) if index in unprocessed]
            self._rows.retry(returned, now, RETURNED_LEVEL, whole=not written)
            self.last_error = throttled
            self.throttled_requests += 1

    def _learn_batch_size(self, rows: int, answer: Accepted) -> None:
        self._batch.answered(rows, answer)
        self._rows.batch_rows = self._batch.rows

    def _count_returned(
        self,
        rows: Sequence[QueuedRow],
        returned: set[int],
        sent: SentUnits,
        now: float,
        *,
        key_range: bool,
    ) -> None:
        """Count returned units that are due to the table, not to a hot key.

        `returned`: indexes of the returned rows.
        """
        hot = self._rows.hot_keys
        sent.returned, sent.share = hot.answered(rows, returned, sent.at, now, key_range=key_range)
        # A request that came back whole says nothing about single rows.
        some = returned if len(returned) < max(2, len(rows)) else ()
        stubborn = sum(
            rows[index].units for index in some if rows[index].attempts > STUBBORN_ATTEMPTS
        )
        sent.evidence = max(0, sent.returned - stubborn)

    def _handle_refused(self, rows: Sequence[QueuedRow], answer: Refused) -> None:
        if len(rows) > 1:
            self._rows.split(rows)
            return
        (row,) = rows
        if not self._rows.unmerge(row):
            self._rows.remove_refused(row)
            self.refused[row.handle] = answer
            self._settle(row, RowOutcome.REJECTED)

    def _settle_written(self, row: QueuedRow, outcome: RowOutcome) -> None:
        if outcome in _MAY_BE_OWN and not row.has_predecessor:
            if row.handle in self.maybe_written:
                outcome = RowOutcome.UNCERTAIN
            else:
                self.identical.append(row.handle)
        for each in self._rows.remove_written(row):
            if each.handle in self.maybe_written:
                self._rows.note_unanswered(each)
            self._settle(each, outcome if each is row else RowOutcome.SUPERSEDED)

    def _settle(self, row: QueuedRow, outcome: RowOutcome) -> None:
        self._outcomes.settle(row.handle, outcome)
        self.maybe_written.discard(row.handle)
        self._on_release((row.handle,))
