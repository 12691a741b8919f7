"""Which rows go in which request, and when. Pure: no I/O, and time is passed in.

The scheduler knows rows by handle and key alone. A driver asks it for the next step, sends
the batches, and tells it the answers. Two laws hold whatever the answers are:

- Of one key at most one row is under way: sent and not answered, or returned and waiting to
  be sent again. A later row with that key waits, or takes the earlier one's place, which is
  then *superseded*. It is settled as such only when the later one is written: should
  DynamoDB refuse that, the earlier one is sent after all.
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
from ddbload.write.pacing import Pacing
from ddbload.write.settlement import Outcome, Settlement

MAX_BATCH_ROWS = 25
MAX_BATCH_BYTES = 15 * 1024 * 1024
"""DynamoDB's limit is 16 MB a request; the rest is for the envelope."""
MAX_AHEAD = 20_000
"""Rows that may be known from the first unsettled one on."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""JSON of the rows that are known and not settled."""
READY_ROWS = 2_000
"""More rows are asked for while fewer than these are ready to go."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one request, by handle."""

    number: int
    handles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may go before `until` (seconds), or, when that is None, before an answer."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is under way, and nothing is to be sent any more."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """DynamoDB took the request, but for the rows at these places of the batch."""

    unprocessed: Sequence[int] = ()
    consumed: float = 0.0


@dataclass(frozen=True, slots=True)
class Throttled:
    """DynamoDB refused the whole request for want of capacity."""

    code: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """No answer, or none to be believed: the rows may have been written."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """DynamoDB refuses the content of the request."""

    message: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """No request will pass."""

    error: DdbloadError


Answer = Accepted | Throttled | Unsure | Refused | Fatal
Step = Batch | Wait | Finished


class _Row:
    __slots__ = (
        "attempts",
        "bytes",
        "flying",
        "handle",
        "key",
        "older",
        "sent",
        "successor",
        "units",
    )

    def __init__(self, handle: int, key: Hashable, units: int, wire_bytes: int) -> None:
        self.handle = handle
        self.key = key
        self.bytes = wire_bytes
        self.units = units
        # Of the key: a row that takes another's place takes its back-off as well.
        self.attempts = 0
        self.sent = False
        self.flying = False
        # The later row that goes in this one's place in a queue.
        self.successor: _Row | None = None
        # Earlier rows of the same key that this one stands in for, in order.
        self.older: list[_Row] = []

    def again(self) -> _Row:
        row = _Row(self.handle, self.key, self.units, self.bytes)
        row.sent = self.sent
        return row


@dataclass(slots=True)
class _Flight:
    rows: list[_Row]
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
        released: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make one for a byte range.

        `deadline`: from then on nothing more is sent. `pacing`: that of the worker, when it
        writes more than one range. `released` is told each handle that will not be asked for
        again.
        """
        self.settlement = Settlement()
        self.refused: dict[int, str] = {}
        """Handles that DynamoDB refused, and its words. They may carry row data."""
        self.fatal: DdbloadError | None = None
        self.trouble: str | None = None
        """Why a request was last not answered well: a code, no text of anybody's."""
        self._concurrency = concurrency
        self.deadline = deadline
        self._rng = rng
        self._released = released
        pacing = pacing or Pacing(rng)
        self._calm, self._budget = pacing.calm, pacing.budget
        self._current: dict[Hashable, _Row] = {}
        self._next: dict[Hashable, _Row] = {}
        self._ready: deque[_Row] = deque()
        self._delayed: list[tuple[float, int, _Row]] = []
        # Parts of a refused batch, to find the rows that DynamoDB means.
        self._parts: deque[deque[_Row]] = deque()
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
        if self._closed or self._stopped or self._held_bytes >= MAX_HELD_BYTES:
            return 0
        if len(self._ready) >= READY_ROWS:
            return 0
        return min(READY_ROWS, MAX_AHEAD - self.settlement.ahead)

    def offer(self, key: Hashable, size: int, wire_bytes: int) -> int:
        """Tell of the next row; its handle. `size`: bytes that DynamoDB counts."""
        row = _Row(self.settlement.add(), key, -(-size // 1024), wire_bytes)
        self._held_bytes += wire_bytes
        current = self._current.get(key)
        if current is None:
            self._current[key] = row
            self._ready.append(row)
        elif current.flying:
            waiting = self._next.get(key)
            if waiting is not None:
                self._stand_in(row, waiting)
            self._next[key] = row
        else:
            # In its place in the queue, and with its back-off: were the later row sent last, the
            # earlier one would hold the frontier until then.
            current.successor = row
            self._stand_in(row, current)
            self._current[key] = row
            row.attempts = current.attempts
        return row.handle

    def reject(self) -> int:
        """Tell of a next row that is not to be sent; its handle."""
        handle = self.settlement.add()
        self.settlement.settle(handle, Outcome.REJECTED)
        return handle

    def close(self) -> None:
        """Say that there are no more rows."""
        self._closed = True

    def stop(self) -> None:
        """Send nothing more: what is under way is waited for."""
        self._stopped = True

    # Giving out work.

    def next(self, now: float) -> Step:
        """What to do now."""
        if now >= self.deadline:
            self._stopped = True
        if self._stopped:
            return Wait(None) if self._flights else Finished()
        if len(self._flights) >= self._concurrency:
            return Wait(None)
        rows = self._batch(now) if self._may_send_at(now) <= now else []
        if rows:
            return self._send(rows, now)
        if not self._current:
            return Finished() if self._closed else Wait(None)
        until = self._may_send_at(now)
        if not self._ready and not self._parts:
            if not self._delayed:
                return Wait(None)
            until = max(until, self._delayed[0][0])
        return Wait(min(until, self.deadline))

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        """Tell what came of a batch."""
        flight = self._flights.pop(batch.number)
        for row in flight.rows:
            row.flying = False
        match answer:
            case Accepted(unprocessed, consumed):
                self._accepted(flight, set(unprocessed), consumed, now)
            case Throttled(code):
                self.trouble = code
                self._throttled += 1
                self._refund(flight)
                self._again(flight, now)
            case Unsure(reason):
                self.trouble = reason
                # It may have been written, and so it may have used what was paid.
                self._again(flight, now)
            case Refused(message):
                self._refund(flight)
                self._refuse(flight.rows, message)
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

    def _batch(self, now: float) -> list[_Row]:
        while self._parts:
            part = self._parts[0]
            rows = self._fill(part)
            if not part:
                self._parts.popleft()
            if rows:
                return rows
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._delayed)[2])
        return self._fill(self._ready)

    def _fill(self, queue: deque[_Row]) -> list[_Row]:
        """Take the rows of one request."""
        rows: list[_Row] = []
        size = units = 0
        most = math.inf if self._budget is None else self._budget.request_units
        while queue and len(rows) < MAX_BATCH_ROWS:
            row = queue[0]
            while row.successor is not None:
                row = row.successor
            queue[0] = row
            size += row.bytes
            units += row.units
            if rows and (size > MAX_BATCH_BYTES or units > most):
                break
            rows.append(row)
            queue.popleft()
        return rows

    def _send(self, rows: list[_Row], now: float) -> Batch:
        units = sum(row.units for row in rows)
        paid = 0.0 if self._budget is None else self._budget.pay(units)
        flight = _Flight(rows, now, units, paid)
        batch = Batch(self._sent, tuple(row.handle for row in rows))
        self._flights[batch.number] = flight
        self._sent += 1
        self._retries += any(row.sent for row in rows)
        for row in rows:
            row.flying = row.sent = True
            row.attempts += 1
        return batch

    # Settling.

    def _accepted(
        self, flight: _Flight, unprocessed: set[int], consumed: float, now: float
    ) -> None:
        self._consumed += consumed
        written = 0
        for place, row in enumerate(flight.rows):
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
        if 2 * len(unprocessed) >= len(flight.rows):
            self._calm.trouble(flight.sent_at, now)
        elif not unprocessed:
            self._calm.passed()

    def _refund(self, flight: _Flight) -> None:
        if self._budget is not None:
            self._budget.refund(flight.paid)

    def _again(self, flight: _Flight, now: float) -> None:
        self._calm.trouble(flight.sent_at, now)
        for row in flight.rows:
            self._retry(row, now)

    def _retry(self, row: _Row, now: float) -> None:
        waiting = self._next.pop(row.key, None)
        if waiting is not None:
            self._stand_in(waiting, row)
            waiting.attempts = row.attempts
            self._current[row.key] = row = waiting
        self._delay(row, now + full_jitter(row.attempts, self._rng))

    def _delay(self, row: _Row, due: float) -> None:
        heapq.heappush(self._delayed, (due, row.handle, row))

    def _refuse(self, rows: list[_Row], message: str) -> None:
        if len(rows) > 1:
            half = len(rows) // 2
            for part in (rows[:half], rows[half:]):
                self._parts.append(deque(self._renewed(row) for row in part))
            return
        (row,) = rows
        self.refused[row.handle] = message
        heir = self._next.pop(row.key, None)
        del self._current[row.key]
        older = row.older
        row.older = []
        self._settle(row, Outcome.REJECTED)
        if heir is not None:
            heir.older[:0] = older
        elif older:
            # A new object: the old one has a successor.
            heir = older.pop().again()
            heir.older = older
        if heir is not None:
            self._current[heir.key] = heir
            self._ready.appendleft(heir)

    def _renewed(self, row: _Row) -> _Row:
        """The row to send for this one: the one that waits for it, if any."""
        waiting = self._next.pop(row.key, None)
        if waiting is None:
            return row
        self._stand_in(waiting, row)
        self._current[row.key] = waiting
        return waiting

    def _written(self, row: _Row) -> None:
        waiting = self._next.pop(row.key, None)
        if waiting is None:
            del self._current[row.key]
        else:
            self._current[row.key] = waiting
            # First, for it may stand in for rows that have waited long.
            self._ready.appendleft(waiting)
        for earlier in row.older:
            self._settle(earlier, Outcome.SUPERSEDED)
        self._settle(row, Outcome.WRITTEN)

    def _settle(self, row: _Row, outcome: Outcome) -> None:
        self._held_bytes -= row.bytes
        self.settlement.settle(row.handle, outcome)
        self._released(row.handle)

    @staticmethod
    def _stand_in(later: _Row, earlier: _Row) -> None:
        # The list is handed on, not copied: a file may hold one key thousands of times.
        chain = earlier.older
        chain.append(earlier)
        chain.extend(later.older)
        later.older, earlier.older = chain, []
