"""Single rows that are to be sent: now, later, in part, or at a hot key's own rate. Pure."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable

from ddbload.dynamodb import limits
from ddbload.write.scheduler.hot_keys import HotKeys
from ddbload.write.scheduler.key_ordering import QueuedRow, RowQueue


class RetryQueues:
    """The queues, and which of them gives the rows of the next request."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self.hot = HotKeys(batch_rows)
        self._batch_rows = batch_rows
        self._ready = RowQueue()
        self._later: list[tuple[float, int, QueuedRow]] = []
        self._parts: deque[RowQueue] = deque()

    def __len__(self) -> int:
        """Rows that may go in any request."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """Whether no row waits here, and none would have to."""
        return not (self._ready or self._later or self._parts or self.hot.hot)

    def push(self, row: QueuedRow) -> None:
        """Take a row that may go at once."""
        self._ready.push(row)

    def push_later(self, row: QueuedRow, at: float) -> None:
        """Take a row that may go from then on."""
        heapq.heappush(self._later, (at, row.handle, row))

    def push_apart(self, rows: Iterable[QueuedRow]) -> None:
        """Take rows that go with no others, to find which of them DynamoDB refuses."""
        self._parts.append(RowQueue(rows))

    def take(self, now: float, most_units: float, clean: float) -> list[QueuedRow]:
        """Rows of one request; none while those of a clean batch have waited longer.

        `clean`: that batch's first handle.
        """
        while self._parts:
            part = self._parts[0]
            rows = self._fill(part, most_units)
            if not part:
                self._parts.popleft()
            if rows:
                return rows
        while self._later and self._later[0][0] <= now:
            self._ready.push(heapq.heappop(self._later)[2].newest())
        if self.hot.hot:
            self._park()
            rows = self.hot.take(now, most_units)
            if rows:
                return rows
        if self._ready and self._ready.peek().first < clean:
            return self._fill(self._ready, most_units)
        return []

    def ready_at(self, now: float) -> float:
        """When a row may go; infinity: there is none."""
        if self._ready or self._parts:
            return now
        later = self._later[0][0] if self._later else math.inf
        return min(later, self.hot.ready_at(now))

    def _park(self) -> None:
        """Put rows of hot keys from the head of the queue where they wait for their own rate."""
        ready = self._ready
        kept: list[QueuedRow] = []
        while ready and len(kept) < limits.MAX_BATCH_ROWS:
            row = ready.peek()
            ready.pop()
            queue = self.hot.queue_of(row)
            if queue is None:
                kept.append(row)
            else:
                queue.push(row)
        for row in kept:
            ready.push(row)

    def _fill(self, queue: RowQueue, most_units: float) -> list[QueuedRow]:
        """Take the rows of one request.

        The last one may go beyond what it may carry: were it left out, slow answers could keep too
        many units from ever going.
        """
        rows: list[QueuedRow] = []
        size = units = 0
        while queue and len(rows) < self._batch_rows:
            row = queue.peek()
            size += row.bytes
            if rows and (size > limits.MAX_BATCH_BYTES or units >= most_units):
                break
            units += row.units
            rows.append(row)
            queue.pop()
        return rows
