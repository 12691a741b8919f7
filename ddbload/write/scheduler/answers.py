"""Settle rows, or queue them again, by the answers of requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ddbload.errors import DdbloadError
from ddbload.write.pacing.pacing import MAX_LEVEL, Pacing, SentUnits
from ddbload.write.scheduler.key_ordering import QueuedRow
from ddbload.write.scheduler.messages import (
    Accepted,
    Answer,
    Batch,
    Fatal,
    OutcomeTracker,
    Refused,
    RowOutcome,
    Throttled,
    Unsure,
)
from ddbload.write.scheduler.unsettled_rows import UniqueKeyBatch, UnsettledRows

RETURNED_LEVEL = 4
"""Highest back-off level of a returned row: waits of up to 0.8 s.

The rate already slows the requests that follow, and a row that waits for long would stop all
others, which may run ahead of it by `MAX_AHEAD` rows only.
"""
FOREIGN_SECONDS = 30.0
"""Time in which only another server than the service's answers, after which the run ends."""
STUBBORN_ATTEMPTS = 2
"""A row returned more often than this is no evidence for others: the table may refuse it alone."""
WINDOW_ROWS = 200
"""Rows over which the share of those that found an item is averaged."""
MOST_FOUND = 0.1
"""Share from which on rows go alone: they cost at most a tenth more write units than they must."""
FEW_FOUND = 0.05
"""Share below which rows go together again."""
_MAY_BE_OWN = frozenset((RowOutcome.IDENTICAL, RowOutcome.UNSEEN))
"""Outcomes of rows whose item this run may have put before."""


class BatchSize:
    """Most rows of a request, where rows may have to be sent a second time, alone.

    In mode `insert` the answer for a batch does not show what a row found in the table, so each row
    that found an item is sent again by itself. That is cheap while few do: one request for 25 rows
    instead of 25. But DynamoDB bills the row twice, so where many rows find an item, each goes
    alone at once.
    """

    def __init__(self, most_rows: int) -> None:
        self.rows = self._most_rows = most_rows
        """Most rows of a request now."""
        self._found = 0.0

    def answered(self, rows: int, answer: Accepted) -> None:
        """Learn from the answer to a request's first attempt."""
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
    """Applies the answers of requests to their rows, and keeps what they say about the run."""

    def __init__(
        self,
        rows: UnsettledRows,
        outcomes: OutcomeTracker,
        pacing: Pacing,
        on_release: Callable[[Sequence[int]], None],
    ) -> None:
        self.refused: dict[int, Refused] = {}
        """DynamoDB's refusals by handle. The message may quote row data."""
        self.fatal: DdbloadError | None = None
        """Error that ends the run."""
        self.identical: list[int] = []
        """Handles of settled rows that found an identical item, or one that the answer did not
        show: another invocation of this run put it, or someone else. `on_release` clears the list.
        """
        self.last_error: str | None = None
        """Code or short reason of the last error. Never its message: that may quote row data."""
        self.maybe_written: set[int] = set()
        """Handles of unsettled rows of requests whose effect is unknown."""
        self.most_level = MAX_LEVEL
        """Highest back-off level of a row."""
        self.throttled_requests = 0
        self.consumed_units = 0.0
        self._rows = rows
        self._outcomes = outcomes
        self._pacing = pacing
        self._batch = BatchSize(rows.batch_rows)
        self._on_release = on_release
        # Since when another server than the service's answers; None if the service does.
        self._foreign_since: float | None = None

    def take(self, batch: Batch, answer: Answer, now: float) -> None:
        """Settle the rows of a request, or queue them again, as its answer says."""
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
                self._retry(rows, now, MAX_LEVEL)
            case Refused():
                self._pacing.refused(sent, now)
                self._handle_refused(rows, answer)
            case Fatal(error):
                if answer.unsure:
                    self.maybe_written.update(row.handle for row in rows)
                self._stop_for(error)

    def _note_foreign(self, error: DdbloadError | None, now: float) -> None:
        """End the run if nothing else than the service answers for long. `error`: what to say."""
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

        `throttled`: the code for rows that came back. `key_range`: the reasons name a partition.
        """
        unprocessed, alone = set(answer.unprocessed), set(answer.alone)
        self.consumed_units += answer.consumed
        self._count_returned(rows, unprocessed, sent, now, key_range=key_range)
        self.maybe_written.update(rows[index].handle for index in answer.unsure)
        # DynamoDB bills a condition that does not hold.
        written = sum(row.units for index, row in enumerate(rows) if index not in unprocessed)
        self._pacing.answered(sent, written, answer.consumed, now)
        for index, row in enumerate(rows):
            if index in unprocessed:
                self._rows.retry(row, now, RETURNED_LEVEL)
            elif index in alone:
                self._rows.send_alone(row)
            else:
                self._settle_written(row, answer.outcome)
        if unprocessed:
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
        """Count the returned units that are due to the table, and not to a hot key.

        `returned`: indexes of the rows that came back.
        """
        explained = self._rows.hot_keys.answered(rows, returned, sent.at, now, key_range=key_range)
        units = sum(rows[index].units for index in returned)
        stubborn = sum(
            rows[index].units for index in returned if rows[index].attempts > STUBBORN_ATTEMPTS
        )
        sent.returned = units - explained
        sent.evidence = max(0, sent.returned - stubborn)
        sent.ignored = units - sent.evidence

    def _retry(self, rows: Sequence[QueuedRow], now: float, max_level: int) -> None:
        for row in rows:
            self._rows.retry(row, now, min(max_level, self.most_level))

    def _handle_refused(self, rows: Sequence[QueuedRow], answer: Refused) -> None:
        if len(rows) > 1:
            self._rows.split(rows)
            return
        (row,) = rows
        if not self._rows.unmerge(row):
            self._reject_refused(row, answer)

    def _reject_refused(self, row: QueuedRow, answer: Refused) -> None:
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
