"""Which rows go in which request, and when. Pure: no I/O, and time is passed in.

The scheduler knows rows by handle and key alone. A driver asks it for the next step, sends
the batches, and tells it the answers. Two laws hold whatever the answers are:

- Of one key at most one row is under way: sent and not answered, or returned and waiting to
  be sent again (`unsettled`).
- A row is settled once, by an answer that says what became of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ddbload.contracts.results import WriteStats
from ddbload.dynamodb import limits
from ddbload.errors import DdbloadError
from ddbload.write.pacing.adaptive_rate import FEW_BACK
from ddbload.write.pacing.pacing import (
    MAX_LEVEL,
    NOTHING_RETURNED,
    Pacing,
    ReturnedUnits,
    SentUnits,
)
from ddbload.write.scheduler import row_limits
from ddbload.write.scheduler.key_ordering import QueuedRow
from ddbload.write.scheduler.messages import (
    Accepted,
    Answer,
    Batch,
    Fatal,
    Finished,
    Refused,
    Step,
    Throttled,
    Unsure,
    Wait,
)
from ddbload.write.scheduler.outcome_tracker import OutcomeTracker, RowOutcome
from ddbload.write.scheduler.unique_key_batches import UniqueKeyBatch
from ddbload.write.scheduler.unsettled_rows import UnsettledRows

RETURNED_LEVEL = 4
"""A row that came back waits for 0.8 s at most: the rate slows what follows, and the row itself may
hold up all others, which may run ahead of it only so far."""
STUBBORN = FEW_BACK - 1
"""A row that came back more often than this is no sign that others will, and alone it is none."""


@dataclass(slots=True)
class _Flight:
    """A request that is under way: of rows one by one, or of a clean batch."""

    singles: list[QueuedRow]
    clean: UniqueKeyBatch | None
    sent: SentUnits


class Scheduler:
    """Takes rows in order, gives out batches, and settles rows by the answers."""

    def __init__(
        self,
        *,
        concurrency: int,
        deadline: float,
        rng: random.Random,
        pacing: Pacing | None = None,
        batch_rows: int | None = None,
        first_wins: bool = False,
        released: Callable[[Sequence[int]], None] = lambda _handles: None,
    ) -> None:
        """Make one for a byte range.

        `deadline`: from then on nothing more is sent. But where nothing was, one request may go:
        a worker that takes that long to read a row would never send any. `pacing`: that of the
        worker, when it writes more than one range. `batch_rows`: of one request, at most; None: as
        many as DynamoDB takes. `first_wins`: rows of equal keys are written one after the other, in
        order; otherwise a later one may take the place of an earlier one. `released` is told of
        handles that will not be asked for again, once of each.
        """
        self.settlement = OutcomeTracker()
        self.refused: dict[int, Refused] = {}
        """Handles that DynamoDB refused, and its words. They may carry row data."""
        self.fatal: DdbloadError | None = None
        self.identical: list[int] = []
        """Handles of settled rows that found an identical item. None of their own requests put it;
        one of another invocation may have. `released` takes them out."""
        self.trouble: str | None = None
        """Why a request was last not answered well: a code, no text of anybody's."""
        self.paced = False
        """Whether requests had to wait, at any time, for a rate or a budget."""
        self.deadline = deadline
        self._concurrency = concurrency
        self._released = released
        self._pacing = pacing or Pacing(rng)
        self._batch_rows = limits.MAX_BATCH_ROWS if batch_rows is None else batch_rows
        self._rows = UnsettledRows(self._batch_rows, rng, first_wins=first_wins)
        # Rows that are not settled, of which a request may have been carried out.
        self._doubtful: set[int] = set()
        self._flights: dict[int, _Flight] = {}
        self._sent = 0
        self._throttled = 0
        self._retries = 0
        self._consumed = 0.0
        self._closed = False
        self._stopped = False
        self._expired = False

    # Taking rows.

    def room(self) -> int:
        """How many rows may be told of now."""
        if self._closed or self._stopped or self._expired:
            return 0
        if self._rows.bytes >= row_limits.MAX_HELD_BYTES:
            return 0
        if self._rows.ready >= row_limits.READY_ROWS:
            return 0
        return min(row_limits.READY_ROWS, row_limits.MAX_AHEAD - self.settlement.ahead)

    def reserve_handles(self, count: int = 1) -> int:
        """Tell that there are so many more rows; the first one's handle.

        Then each of them is to be offered or rejected, in their order, before anything else.
        """
        return self.settlement.add(count)

    def offer(self, handle: int, key: Hashable, size: int, wire_bytes: int) -> None:
        """Tell of a row. `size`: bytes that DynamoDB counts; `wire_bytes`: of its JSON."""
        self._rows.add(QueuedRow(handle, key, -(-size // 1024), wire_bytes))

    def offer_all(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
    ) -> None:
        """Tell of rows at once, in order. `units`: write units of each, None: one.

        `row_bytes`: of the JSON of one, on the average; none is longer than a 25th of a request.
        """
        self._rows.add_all(handles, keys, units, row_bytes, self._spread())

    def reject(self, handle: int) -> None:
        """Tell of a row that is not to be sent."""
        self.settlement.settle(handle, RowOutcome.REJECTED)

    def close(self) -> None:
        """Say that there are no more rows."""
        self._closed = True

    def stop(self) -> None:
        """Send nothing more: what is under way is waited for."""
        self._stopped = True

    def expire(self) -> None:
        """Take no more rows: the deadline is reached. One request may still go, see `deadline`."""
        self._expired = True

    @property
    def is_full(self) -> bool:
        """Whether there is a request to send that more rows would not join."""
        return self._rows.is_full

    def _spread(self) -> int:
        """Rows to be dealt out to requests at a time: so many are open when a deadline comes.

        Few at first: a table may take so little that more of them would never be done.
        """
        at_once = limits.MAX_BATCH_ROWS * self._concurrency
        most = min(row_limits.SPREAD_ROUNDS * at_once, max(at_once, self.settlement.frontier))
        slow = self._pacing.limit * row_limits.SPREAD_SECONDS
        return int(min(row_limits.SPREAD_ROWS, max(self._batch_rows, min(most, slow))))

    # Giving out work.

    def next(self, now: float) -> Step:
        """What to do now."""
        if now >= self.deadline:
            self._expired = True
        if self._expired and self._sent:
            self._stopped = True
        if self._stopped:
            return Wait(None) if self._flights else Finished()
        if len(self._flights) >= self._concurrency:
            return Wait(None)
        free = self._pacing.ready_at(now)
        if free > now:
            self.paced = True
        else:
            batch = self._batch(now)
            if batch is not None:
                return batch
        if self._expired:
            return Finished()
        if self._rows.is_empty:
            return Finished() if self._closed else Wait(None)
        until = max(self._rows.ready_at(now), free)
        return Wait(None) if until == math.inf else Wait(min(until, self.deadline))

    def doubt(self, batch: Batch) -> None:
        """Tell that a batch went twice: the first request may have been carried out."""
        self._doubtful.update(batch.handles)

    def last_put(self) -> int | None:
        """The last handle from the frontier on whose row may have been put, if any.

        To be asked when nothing is under way.
        """
        written = self.settlement.last_written()
        found = self._doubtful if written is None else {written, *self._doubtful}
        return max(found, default=None)

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        """Tell what came of a batch."""
        flight = self._flights.pop(batch.number)
        clean, sent = flight.clean, flight.sent
        if clean is not None and clean.is_open:
            doubtful = bool(self._doubtful) and not self._doubtful.isdisjoint(clean.handles)
            if isinstance(answer, Accepted) and not answer.unprocessed and not doubtful:
                self._clean_accepted(clean, sent, answer, now)
                return
            self._rows.dissolve(clean)
        rows = flight.singles if clean is None else clean.rows
        for row in rows:
            row.flying = False
        match answer:
            case Accepted():
                self._accepted(rows, sent, answer, now)
            case Throttled():
                self._refused_for_now(rows, sent, answer, now)
            case Unsure(reason):
                self.trouble = reason
                if not answer.refused:
                    self._doubtful.update(row.handle for row in rows)
                self._pacing.unsure(sent, now)
                self._retry(rows, now, MAX_LEVEL)
            case Refused():
                self._pacing.refused(sent)
                self._refuse(rows, answer)
            case Fatal(error):
                if answer.unsure:
                    self._doubtful.update(row.handle for row in rows)
                self.fatal = self.fatal or error
                self._stopped = True

    @property
    def work(self) -> WriteStats:
        """What was done so far."""
        return WriteStats(self._sent, self._throttled, self._retries, self._consumed)

    def _batch(self, now: float) -> Batch | None:
        rows = self._rows.take(now, self._pacing.request_units(self._concurrency))
        if isinstance(rows, UniqueKeyBatch):
            return self._begin(rows.handles, rows.units, [], rows, now)
        if not rows:
            return None
        self._retries += any(row.sent for row in rows)
        for row in rows:
            row.flying = row.sent = True
            row.attempts += 1
        units = sum(row.units for row in rows)
        return self._begin(tuple(row.handle for row in rows), units, rows, None, now)

    def _begin(
        self,
        handles: Sequence[int],
        units: int,
        singles: list[QueuedRow],
        clean: UniqueKeyBatch | None,
        now: float,
    ) -> Batch:
        batch = Batch(self._sent, handles)
        self._flights[batch.number] = _Flight(singles, clean, self._pacing.send(units, now))
        self._sent += 1
        return batch

    # Settling.

    def _clean_accepted(
        self, clean: UniqueKeyBatch, sent: SentUnits, answer: Accepted, now: float
    ) -> None:
        self._rows.done(clean)
        self.settlement.settle_all(clean.handles, answer.outcome)
        if answer.outcome is RowOutcome.IDENTICAL:
            self.identical.extend(clean.handles)
        self._released(clean.handles)
        self._consumed += answer.consumed
        self._pacing.accepted(sent, sent.units, NOTHING_RETURNED, answer.consumed, now)

    def _accepted(
        self, rows: Sequence[QueuedRow], sent: SentUnits, answer: Accepted, now: float
    ) -> None:
        unprocessed, consumed = set(answer.unprocessed), answer.consumed
        self._consumed += consumed
        back = self._back(rows, unprocessed, sent, now)
        taken = 0
        for place, row in enumerate(rows):
            if place in unprocessed:
                self._rows.retry(row, now, RETURNED_LEVEL)
            else:
                taken += row.units
                self._written(row, answer.outcome)
        if unprocessed:
            self.trouble = "UnprocessedItems"
            self._throttled += 1
        self._pacing.accepted(sent, taken, back, consumed, now)

    def _refused_for_now(
        self, rows: Sequence[QueuedRow], sent: SentUnits, answer: Throttled, now: float
    ) -> None:
        self.trouble = answer.code
        self._throttled += 1
        every = set(range(len(rows)))
        back = self._back(rows, every, sent, now, key_range=answer.key_range)
        self._pacing.throttled(sent, back, now)
        self._retry(rows, now, RETURNED_LEVEL)

    def _back(
        self,
        rows: Sequence[QueuedRow],
        returned: set[int],
        sent: SentUnits,
        now: float,
        *,
        key_range: bool = False,
    ) -> ReturnedUnits:
        """What came back for the table's sake."""
        explained = self._rows.hot.answered(rows, returned, sent.at, now, key_range=key_range)
        units = sum(rows[place].units for place in returned) - explained
        stubborn = again = 0
        for place, row in enumerate(rows):
            if row.attempts > STUBBORN:
                stubborn += row.units
                again += row.units * (place in returned)
        return ReturnedUnits(units, stubborn, max(0, units - again))

    def _retry(self, rows: Sequence[QueuedRow], now: float, most: int) -> None:
        for row in rows:
            self._rows.retry(row, now, most)

    def _refuse(self, rows: Sequence[QueuedRow], answer: Refused) -> None:
        if len(rows) > 1:
            self._rows.part(rows)
            return
        (row,) = rows
        self._rows.refused(row)
        self.refused[row.handle] = answer
        self._settle(row, RowOutcome.REJECTED)

    def _written(self, row: QueuedRow, outcome: RowOutcome) -> None:
        if outcome is RowOutcome.IDENTICAL and not row.preceded:
            if row.handle in self._doubtful:
                outcome = RowOutcome.WRITTEN
            else:
                self.identical.append(row.handle)
        for each in self._rows.written(row):
            self._settle(each, outcome if each is row else RowOutcome.SUPERSEDED)

    def _settle(self, row: QueuedRow, outcome: RowOutcome) -> None:
        self.settlement.settle(row.handle, outcome)
        self._doubtful.discard(row.handle)
        self._released((row.handle,))
