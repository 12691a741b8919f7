"""Decide which rows are sent in which request, and when. Pure: no I/O; times are arguments.

A driver asks the scheduler for the next step, sends the batches, and reports their answers. The
scheduler knows rows only by handle and key. Two laws hold whatever DynamoDB answers:

- Of the rows with one key at most one is in flight or waiting to be sent again (`KeyOrdering`).
- Each row is settled exactly once, by an answer that states its outcome (`OutcomeTracker`).

A throttled row takes this path: `Scheduler.answered` reports the returned units to `hot_keys` and
`pacing`, then `UnsettledRows.retry` queues the row again, or a later row that replaces it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence

from ddbload.contracts.row_counts import WriteStats
from ddbload.dynamodb import limits
from ddbload.dynamodb.modes import RowOrder
from ddbload.errors import DdbloadError
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import (
    Answer,
    Answers,
    Batch,
    Finished,
    OutcomeTracker,
    RowOutcome,
    Step,
    Wait,
)
from ddbload.write.scheduler.single_rows import QueuedRow, RowMerger
from ddbload.write.scheduler.unsettled_rows import UniqueKeyBatch, UnsettledRows

SETTLE_BACKOFF_SECONDS = 0.8
"""Maximum back-off of a remaining row after a stop, when only seconds are left to settle it."""
SETTLE_LEVEL = 4
"""Maximum back-off level after a stop."""


class Scheduler:
    """Makes batches of rows, taken in source order, and settles rows by their answers."""

    # Limits on the rows that one worker holds.
    MAX_AHEAD = 20_000
    """Maximum number of rows from the first unsettled one on."""
    MAX_HELD_BYTES = 16 * 1024 * 1024
    """Maximum bytes of JSON of unsettled rows. Request bodies in flight take as much again."""
    READY_ROWS = 2_000
    """Number of ready rows below which more are read."""

    # Rows are dealt out to requests in turn, so that neighbors in a sorted source do not load a
    # single partition. Rows that are unsettled at a deadline are written again.
    SPREAD_ROWS = 2_000
    """Maximum rows that are dealt out together."""
    SPREAD_ROUNDS = 8
    """Maximum requests that rows are dealt out to, per concurrent request."""
    SPREAD_SECONDS = 2.0
    """Seconds of writing whose rows a slow run deals out together."""

    SETTLE_SECONDS = 10.0
    """Maximum seconds after a stop in which sent rows are settled."""

    def __init__(
        self,
        *,
        concurrency: int,
        deadline: float,
        rng: random.Random,
        now: float = -math.inf,
        pacing: Pacing | None = None,
        batch_rows: int = limits.MAX_BATCH_ROWS,
        order: RowOrder = RowOrder.LAST_WINS,
        merger: RowMerger | None = None,
        unanswered: set[Hashable] | None = None,
        is_proven: Callable[[], bool] = lambda: True,
        on_release: Callable[[Sequence[int]], None] = lambda _handles: None,
    ) -> None:
        """Make a scheduler for one byte range.

        Args:
            concurrency: Maximum requests in flight.
            deadline: Time from which on nothing is sent, except for one request if none was sent
                before: a worker that takes until then to read a row would never send any. See also
                `_may_ask_once_more`.
            rng: Source of jitter.
            now: Current time; the default is long before the deadline.
            pacing: Pacing of the worker, if it writes several byte ranges.
            batch_rows: Maximum rows of a request.
            order: Order in which rows with equal keys are written.
            merger: Merges rows with equal keys that are written one after the other.
            unanswered: Keys of the worker's rows that had a request without an answer, which may
                take effect after that of a later row with the key.
            is_proven: Until it returns true, one request is in flight at a time.
            on_release: Called once for each row, with handles whose items are not needed any more.
        """
        self.outcomes = OutcomeTracker()
        self.waited_for_capacity = False
        """True if a request had to wait for the rate or the budget at least once."""
        self.deadline = deadline
        # Time of the last step.
        self._now = now
        self._concurrency = concurrency
        self._is_proven = is_proven
        self._pacing = pacing or Pacing(rng)
        self._rows = UnsettledRows(batch_rows, rng, order, merger, unanswered)
        self._answers = Answers(self._rows, self.outcomes, self._pacing, on_release)
        self.refused, self.identical = self._answers.refused, self._answers.identical
        # Time at which settling ends after a stop.
        self._settles_until: float | None = None
        # No request in flight was sent before this time.
        self._settles_rest = False
        self._told_to_stop = False
        self._in_flight: dict[int, Batch] = {}
        self._sent_requests = 0
        self._retried_requests = 0
        self._closed = False
        self._stopped = False
        self._expired = False

    # Incoming rows.

    def room(self) -> int:
        """Return the number of rows that may be added now."""
        if self._closed or self._stopped or self._expired:
            return 0
        if self._rows.bytes >= self.MAX_HELD_BYTES:
            return 0
        # Fewer before the deadline, so that all rows that are dealt out are sent in time.
        in_time = self._rows_in((self.deadline - self._now) / 2)
        most = int(min(self.READY_ROWS, max(self._rows.batch_rows, in_time)))
        if self._rows.ready >= most:
            return 0
        return min(most, self.MAX_AHEAD - self.outcomes.ahead)

    def reserve_handles(self, count: int = 1) -> int:
        """Reserve handles for the next rows; return the first one.

        Each of these rows must be offered or rejected, in order, before any other call.
        """
        return self.outcomes.add(count)

    def offer(
        self,
        handle: int,
        key: Hashable,
        item_bytes: int,
        json_bytes: int,
        *,
        alone: bool = False,
    ) -> None:
        """Add a row.

        Args:
            handle: Handle of the row.
            key: Key of the row's item.
            item_bytes: Size of the item as DynamoDB counts it.
            json_bytes: Size of the row's JSON.
            alone: Send the row in its own request.
        """
        row = QueuedRow(handle, key, -(-item_bytes // limits.WRITE_UNIT_BYTES), json_bytes)
        row.alone = alone
        self._rows.add(row)

    def offer_all(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
    ) -> None:
        """Add several rows, in order.

        Args:
            handles: Handles of the rows.
            keys: Keys of the rows' items.
            units: Write units of each row; None for one each.
            row_bytes: Average bytes of JSON per row. No row may exceed 1/25 of a request.
        """
        rows = UniqueKeyBatch(handles, keys, units or (1,) * len(keys), row_bytes, 0)
        self._rows.add_all(rows, self._spread_rows())

    def reject(self, handle: int) -> None:
        """Settle a row that is not sent."""
        self.outcomes.settle(handle, RowOutcome.REJECTED)

    def close(self) -> None:
        """Signal that no more rows follow."""
        self._closed = True

    def stop(self) -> None:
        """Send no new rows. Rows that were sent are settled, for at most `SETTLE_SECONDS`.

        Settling also ends at the deadline.
        """
        self._stopped = self._told_to_stop = True
        self._answers.most_level = SETTLE_LEVEL

    def expire(self) -> None:
        """Take no more rows after the deadline. See `deadline` for the one exception."""
        self._expired = True

    @property
    def is_full(self) -> bool:
        """True if a request is ready that later rows would not join."""
        return self._rows.is_full

    def _spread_rows(self) -> int:
        """Return the number of rows that are dealt out to requests together.

        Few at first: all of them are unsettled when a deadline comes, and a slow table might never
        finish more. Fewer before the deadline, so that they are settled by then: rows after an
        unsettled one are sent again, and consume write units again.
        """
        at_once = limits.MAX_BATCH_ROWS * self._concurrency
        most = min(self.SPREAD_ROUNDS * at_once, max(at_once, self.outcomes.frontier))
        left = self.deadline - self._now - self._rows.ready / max(1.0, self._pacing.limit)
        slow = self._rows_in(min(self.SPREAD_SECONDS, left / 2))
        return int(min(self.SPREAD_ROWS, max(self._rows.batch_rows, min(most, slow))))

    def _rows_in(self, seconds: float) -> float:
        """Return how many rows of one unit may be sent in this many seconds."""
        return self._pacing.limit * seconds if seconds > 0 else 0.0

    # Outgoing requests.

    def next(self, now: float) -> Step:
        """Decide the driver's next step: send a batch, wait, or finish."""
        self._now = now
        if now >= self.deadline:
            self._expired = True
        if self._expired and self._sent_requests and not self._stopped:
            if self._in_flight:
                return Wait(None)
            self._stopped = not self._may_ask_once_more()
        if self._stopped:
            return self._settle_sent(now)
        if len(self._in_flight) >= (self._concurrency if self._is_proven() else 1):
            return Wait(None)
        ready_at = self._pacing.ready_at(now)
        if ready_at > now:
            self.waited_for_capacity = True
        else:
            batch = self._make_batch(now)
            if batch is not None:
                return batch
        if self._expired:
            return Finished()
        if self._rows.is_empty:
            return Finished() if self._closed else Wait(None)
        until = max(self._rows.ready_at(now), ready_at)
        return Wait(None) if until == math.inf else Wait(min(until, self.deadline))

    def _may_ask_once_more(self) -> bool:
        """Return whether one more request may be sent after the deadline.

        If no row has an outcome because the only request found items, PutItem must identify one of
        them. Otherwise a worker with time for only one request would never settle a row.
        """
        return not self.outcomes.frontier and self._sent_requests == 1 and self._rows.any_alone

    def _settle_sent(self, now: float) -> Step:
        """Decide the next step after a stop.

        First the answers of requests in flight are awaited. Only rows before the first unsettled
        one count, and the next invocation begins there. So the rows up to the last one that may
        have been written are sent: those that were returned, and those that waited for others.
        """
        if not self._told_to_stop or now >= self.deadline:
            # After the deadline or an error. Requests have their own time limits.
            return Wait(None) if self._in_flight else Finished()
        if self._settles_until is None:
            self._settles_until = min(now + self.SETTLE_SECONDS, self.deadline)
        until = self._settles_until
        if now >= until:
            # The requests in flight count as lost: their answers are not awaited.
            for each in self._in_flight.values():
                self._answers.maybe_written.update(each.handles)
            self._in_flight.clear()
            return Finished()
        if self._in_flight and (not self._settles_rest or self.fatal is not None):
            return Wait(until)
        if self.fatal is not None:
            return Finished()
        if not self._settles_rest:
            last = self.last_possible_write()
            if last is None:
                # No row that the next invocation sends again has been written.
                return Finished()
            self._rows.keep_up_to(last, now + SETTLE_BACKOFF_SECONDS)
            self._settles_rest = True
        if len(self._in_flight) >= self._concurrency:
            return Wait(until)
        ready_at = self._pacing.ready_at(now)
        batch = self._make_batch(now) if ready_at <= now else None
        if batch is not None:
            return batch
        later = max(self._rows.ready_at(now), ready_at)
        if self._in_flight:
            return Wait(min(later, until))
        return Finished() if later >= until else Wait(later)

    def _make_batch(self, now: float) -> Batch | None:
        max_units = self._pacing.request_units(self._concurrency)
        if max_units <= 0:
            # Another thread has just removed the limit.
            return None
        rows = self._rows.take(now, max_units)
        if not rows:
            return None
        number = self._sent_requests
        self._sent_requests += 1
        if isinstance(rows, UniqueKeyBatch):
            batch = Batch(number, rows.handles, unique=rows)
            units = rows.units
        else:
            self._retried_requests += any(row.sent for row in rows)
            for row in rows:
                row.in_flight = row.sent = True
                row.attempts += 1
            batch = Batch(number, tuple(row.handle for row in rows), rows)
            units = sum(row.units for row in rows)
        batch.sent = self._pacing.send(len(batch.handles), units, now)
        self._in_flight[number] = batch
        return batch

    # Incoming answers.

    def note_resent(self, batch: Batch) -> None:
        """Record that the connection sent a batch twice: the first request may have succeeded."""
        self._answers.maybe_written.update(batch.handles)

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        """Process the answer to a batch."""
        self._answers.take(self._in_flight.pop(batch.number), answer, now)
        self._stopped |= self.fatal is not None

    @property
    def fatal(self) -> DdbloadError | None:
        """Error that ended the run; None while it can continue."""
        return self._answers.fatal

    @property
    def last_error(self) -> str | None:
        """Code or short reason of the last error. Never its message, which may quote row data."""
        return self._answers.last_error

    @property
    def stats(self) -> WriteStats:
        """Number of requests so far, and their consumed write units."""
        return WriteStats(
            self._sent_requests,
            self._answers.throttled_requests,
            self._retried_requests,
            self._answers.consumed_units,
        )

    @property
    def repeated(self) -> int:
        """Number of settled rows whose key occurred before.

        Only keys of rows in memory, and of rows that had a request without an answer, are known.
        """
        return self._rows.repeated_before(self.outcomes.frontier)

    def last_possible_write(self) -> int | None:
        """Return the last row at or after the frontier that may have been written, if any.

        Valid only while nothing is in flight.
        """
        written = self.outcomes.last_written()
        handles = (
            self._answers.maybe_written
            if written is None
            else {written, *self._answers.maybe_written}
        )
        return max(handles, default=None)
