"""Queue single rows: ready, backing off, split after a refusal, or of a hot key. Pure."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable

from ddbload.dynamodb import limits
from ddbload.write.scheduler.hot_keys import HotKeys
from ddbload.write.scheduler.key_ordering import QueuedRow, RowQueue


class RetryQueues:
    """Queues of single rows, and the choice of the queue that fills the next request."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self.hot = HotKeys(batch_rows)
        self._batch_rows = batch_rows
        self._ready = RowQueue()
        self._later: list[tuple[float, int, QueuedRow]] = []
        self._split: deque[RowQueue] = deque()

    def __len__(self) -> int:
        """Number of rows that any request may carry."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """No row waits here, and no hot key would make one wait."""
        return not (self._ready or self._later or self._split or self.hot.hot)

    def push(self, row: QueuedRow) -> None:
        """Add a row that may be sent at once."""
        self._ready.push(row)

    def push_later(self, row: QueuedRow, at: float) -> None:
        """Add a row that may be sent from the time `at` on."""
        heapq.heappush(self._later, (at, row.handle, row))

    def push_apart(self, rows: Iterable[QueuedRow]) -> None:
        """Add rows that form requests of their own, to find the one that DynamoDB refuses."""
        self._split.append(RowQueue(rows))

    def take(self, now: float, most_units: float, batch_handle: float) -> list[QueuedRow]:
        """Take the rows of one request; none while a batch of unique keys has waited longer.

        `batch_handle`: that batch's first handle.
        """
        while self._split:
            half = self._split[0]
            rows = self._fill(half, most_units)
            if not half:
                self._split.popleft()
            if rows:
                return rows
        while self._later and self._later[0][0] <= now:
            self._ready.push(heapq.heappop(self._later)[2].newest())
        if self.hot.hot:
            self._park()
            rows = self.hot.take(now, most_units)
            if rows:
                return rows
        if self._ready and self._ready.peek().first < batch_handle:
            return self._fill(self._ready, most_units)
        return []

    def ready_at(self, now: float) -> float:
        """Compute when a row may be sent; infinity if there is none."""
        if self._ready or self._split:
            return now
        later = self._later[0][0] if self._later else math.inf
        return min(later, self.hot.ready_at(now))

    def _park(self) -> None:
        """Move rows of hot keys from the head of the ready queue to their keys' queues."""
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

        The last row may exceed `most_units`: otherwise a row larger than that would never go.
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
