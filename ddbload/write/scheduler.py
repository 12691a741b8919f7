"""Which rows go in which request, and when. Pure: no I/O, and time is passed in.

The scheduler knows rows by handle and key alone. A driver asks it for the next step, sends
the batches, and tells it the answers. Two laws hold whatever the answers are:

- Of one key at most one row is under way: sent and not answered, or returned and waiting to
  be sent again (`succession`).
- A row is settled once, by an answer that says what became of it.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ddbload.aws_http.backoff import full_jitter
from ddbload.contracts import Work
from ddbload.errors import DdbloadError
from ddbload.write import limits
from ddbload.write.clean import CleanBatch, CleanLane
from ddbload.write.pacing import Pacing
from ddbload.write.settlement import Outcome, Settlement
from ddbload.write.steps import (
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
from ddbload.write.succession import Queue, Row, Succession


@dataclass(slots=True)
class _Flight:
    """A request that is under way: of rows one by one, or of a clean batch."""

    singles: list[Row]
    clean: CleanBatch | None
    sent_at: float
    units: int
    paid: float
    """Of the budget, if there is one."""


class Scheduler:
    """Takes rows in order, gives out batches, and settles rows by the answers."""

    def __init__(
        self,
        *,
        concurrency: int,
        deadline: float,
        rng: random.Random,
        pacing: Pacing | None = None,
        released: Callable[[Sequence[int]], None] = lambda _handles: None,
    ) -> None:
        """Make one for a byte range.

        `deadline`: from then on nothing more is sent. `pacing`: that of the worker, when it
        writes more than one range. `released` is told of handles that will not be asked for
        again, once of each.
        """
        self.settlement = Settlement()
        self.refused: dict[int, str] = {}
        """Handles that DynamoDB refused, and its words. They may carry row data."""
        self.fatal: DdbloadError | None = None
        self.trouble: str | None = None
        """Why a request was last not answered well: a code, no text of anybody's."""
        self.deadline = deadline
        self._concurrency = concurrency
        self._rng = rng
        self._released = released
        pacing = pacing or Pacing(rng)
        self._calm, self._budget = pacing.calm, pacing.budget
        self._clean = CleanLane()
        self._succession = Succession()
        self._ready = Queue()
        self._delayed: list[tuple[float, int, Row]] = []
        # Parts of a refused batch, to find the rows that DynamoDB means.
        self._parts: deque[Queue] = deque()
        self._flights: dict[int, _Flight] = {}
        self._held_bytes = 0
        self._sent = 0
        self._throttled = 0
        self._retries = 0
        self._consumed = 0.0
        self._closed = False
        self._stopped = False

    # Taking rows.

    def room(self) -> int:
        """How many rows may be told of now."""
        if self._closed or self._stopped or self._held_bytes >= limits.MAX_HELD_BYTES:
            return 0
        if len(self._ready) + self._clean.waiting >= limits.READY_ROWS:
            return 0
        return min(limits.READY_ROWS, limits.MAX_AHEAD - self.settlement.ahead)

    def know(self, count: int = 1) -> int:
        """Tell that there are so many more rows; the first one's handle.

        Then each of them is to be offered or rejected, in their order, before anything else.
        """
        return self.settlement.add(count)

    def offer(self, handle: int, key: Hashable, size: int, wire_bytes: int) -> None:
        """Tell of a row. `size`: bytes that DynamoDB counts; `wire_bytes`: of its JSON."""
        self._held_bytes += wire_bytes
        self._take(Row(handle, key, -(-size // 1024), wire_bytes))

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
        self._held_bytes += row_bytes * len(handles)
        known, current = self._clean.batch_of, self._succession.current
        fresh = set(keys)
        alone = len(fresh) == len(keys)
        if alone and known.keys().isdisjoint(fresh) and current.keys().isdisjoint(fresh):
            self._clean.add(handles, keys, units, row_bytes, self._spread())
            return
        seen: set[Hashable] = set()
        shared: set[Hashable] = set()
        for key in keys:
            if key in seen or key in known or key in current:
                shared.add(key)
            seen.add(key)
        plain = [place for place, key in enumerate(keys) if key not in shared]
        for handle, key, each in zip(handles, keys, units or [1] * len(keys), strict=True):
            if key in shared:
                self._take(Row(handle, key, each, row_bytes))
        self._clean.add(
            [handles[place] for place in plain],
            [keys[place] for place in plain],
            None if units is None else [units[place] for place in plain],
            row_bytes,
            self._spread(),
        )

    def reject(self, handle: int) -> None:
        """Tell of a row that is not to be sent."""
        self.settlement.settle(handle, Outcome.REJECTED)

    def close(self) -> None:
        """Say that there are no more rows."""
        self._closed = True

    def stop(self) -> None:
        """Send nothing more: what is under way is waited for."""
        self._stopped = True

    def _spread(self) -> int:
        """Rows to be dealt out to requests at a time: so many are open when a deadline comes."""
        most = limits.SPREAD_ROUNDS * limits.MAX_BATCH_ROWS * self._concurrency
        if self._budget is not None:
            most = min(most, int(self._budget.units_per_second * limits.SPREAD_SECONDS))
        return min(limits.SPREAD_ROWS, max(limits.MAX_BATCH_ROWS, most))

    def _take(self, row: Row) -> None:
        batch = self._clean.batch_of.get(row.key)
        if batch is not None:
            self._dissolve(batch)
        if self._succession.add(row):
            self._ready.push(row)

    def _dissolve(self, batch: CleanBatch) -> list[Row]:
        rows = self._clean.dissolve(batch)
        for row in rows:
            self._succession.add(row)
        if not batch.flying:
            for row in rows:
                self._ready.push(row)
        return rows

    # Giving out work.

    def next(self, now: float) -> Step:
        """What to do now."""
        if now >= self.deadline:
            self._stopped = True
        if self._stopped:
            return Wait(None) if self._flights else Finished()
        if len(self._flights) >= self._concurrency:
            return Wait(None)
        if self._may_send_at(now) <= now:
            most = math.inf if self._budget is None else self._budget.request_units
            clean = self._clean.first()
            rows = self._batch(now, most, clean)
            if rows:
                return self._send(rows, now)
            if clean < math.inf:
                return self._send_clean(self._clean.take(most), now)
        if not self._succession.current and not self._clean.batch_of:
            return Finished() if self._closed else Wait(None)
        until = self._may_send_at(now)
        if not self._ready and not self._parts and not self._clean.waiting:
            if not self._delayed:
                return Wait(None)
            until = max(until, self._delayed[0][0])
        return Wait(min(until, self.deadline))

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        """Tell what came of a batch."""
        flight = self._flights.pop(batch.number)
        clean = flight.clean
        if clean is not None and clean.rows is None:
            if isinstance(answer, Accepted) and not answer.unprocessed:
                self._clean_written(flight, clean, answer.consumed)
                return
            self._dissolve(clean)
        rows = flight.singles if clean is None else clean.rows or []
        for row in rows:
            row.flying = False
        match answer:
            case Accepted(unprocessed, consumed):
                self._accepted(flight, rows, set(unprocessed), consumed, now)
            case Throttled(code):
                self.trouble = code
                self._throttled += 1
                self._refund(flight)
                self._again(flight, rows, now)
            case Unsure(reason):
                self.trouble = reason
                # It may have been written, and so it may have used what was paid.
                self._again(flight, rows, now)
            case Refused(message):
                self._refund(flight)
                self._refuse(rows, message)
            case Fatal(error):
                self.fatal = self.fatal or error
                self._stopped = True

    @property
    def work(self) -> Work:
        """What was done so far."""
        return Work(self._sent, self._throttled, self._retries, self._consumed)

    def _may_send_at(self, now: float) -> float:
        ready = now if self._budget is None else self._budget.ready_at(now)
        return max(ready, self._calm.until)

    def _batch(self, now: float, most_units: float, clean: float) -> list[Row]:
        """Single rows to go now; none while those of `clean`, a handle, have waited longer."""
        while self._parts:
            part = self._parts[0]
            rows = self._fill(part, most_units)
            if not part:
                self._parts.popleft()
            if rows:
                return rows
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.push(heapq.heappop(self._delayed)[2].newest())
        if self._ready and self._ready.peek().first < clean:
            return self._fill(self._ready, most_units)
        return []

    def _fill(self, queue: Queue, most_units: float) -> list[Row]:
        """Take the rows of one request."""
        rows: list[Row] = []
        size = units = 0
        while queue and len(rows) < limits.MAX_BATCH_ROWS:
            row = queue.peek()
            size += row.bytes
            units += row.units
            if rows and (size > limits.MAX_BATCH_BYTES or units > most_units):
                break
            rows.append(row)
            queue.pop()
        return rows

    def _send(self, rows: list[Row], now: float) -> Batch:
        self._retries += any(row.sent for row in rows)
        for row in rows:
            row.flying = row.sent = True
            row.attempts += 1
        units = sum(row.units for row in rows)
        return self._begin(tuple(row.handle for row in rows), units, rows, None, now)

    def _send_clean(self, batch: CleanBatch, now: float) -> Batch:
        return self._begin(batch.handles, batch.units, [], batch, now)

    def _begin(
        self,
        handles: Sequence[int],
        units: int,
        singles: list[Row],
        clean: CleanBatch | None,
        now: float,
    ) -> Batch:
        paid = 0.0 if self._budget is None else self._budget.pay(units)
        batch = Batch(self._sent, handles)
        self._flights[batch.number] = _Flight(singles, clean, now, units, paid)
        self._sent += 1
        return batch

    # Settling.

    def _clean_written(self, flight: _Flight, clean: CleanBatch, consumed: float) -> None:
        self._clean.done(clean)
        self._held_bytes -= clean.bytes
        self.settlement.settle_all(clean.handles, Outcome.WRITTEN)
        self._released(clean.handles)
        self._consumed += consumed
        if self._budget is not None:
            self._budget.settle(flight.paid, flight.units, flight.units, consumed)
        self._calm.passed()

    def _accepted(
        self,
        flight: _Flight,
        rows: Sequence[Row],
        unprocessed: set[int],
        consumed: float,
        now: float,
    ) -> None:
        self._consumed += consumed
        written = 0
        for place, row in enumerate(rows):
            if place in unprocessed:
                self._retry(row, now)
            else:
                written += row.units
                self._written(row)
        if self._budget is not None:
            self._budget.settle(flight.paid, flight.units, written, consumed)
        if unprocessed:
            self.trouble = "UnprocessedItems"
            self._throttled += 1
        if 2 * len(unprocessed) >= len(rows):
            self._calm.trouble(flight.sent_at, now)
        elif not unprocessed:
            self._calm.passed()

    def _refund(self, flight: _Flight) -> None:
        if self._budget is not None:
            self._budget.refund(flight.paid)

    def _again(self, flight: _Flight, rows: Sequence[Row], now: float) -> None:
        self._calm.trouble(flight.sent_at, now)
        for row in rows:
            self._retry(row, now)

    def _retry(self, row: Row, now: float) -> None:
        attempts = row.attempts
        row = self._succession.to_send(row)
        heapq.heappush(self._delayed, (now + full_jitter(attempts, self._rng), row.handle, row))

    def _refuse(self, rows: Sequence[Row], message: str) -> None:
        if len(rows) > 1:
            half = len(rows) // 2
            for part in (rows[:half], rows[half:]):
                self._parts.append(Queue(self._succession.to_send(row) for row in part))
            return
        (row,) = rows
        heir = self._succession.refused(row)
        self.refused[row.handle] = message
        self._settle(row, Outcome.REJECTED)
        if heir is not None:
            self._ready.push(heir)

    def _written(self, row: Row) -> None:
        waiting = self._succession.written(row)
        if waiting is not None:
            self._ready.push(waiting)
        for earlier in row.older:
            self._settle(earlier, Outcome.SUPERSEDED)
        self._settle(row, Outcome.WRITTEN)

    def _settle(self, row: Row, outcome: Outcome) -> None:
        self._held_bytes -= row.bytes
        self.settlement.settle(row.handle, outcome)
        self._released((row.handle,))
