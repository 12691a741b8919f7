"""Hold all unsettled rows, and choose those of the next request. Pure.

Most rows have a key that no other unsettled row has; `unique_key_batches` keeps these by the
batch. The others go one by one: `key_ordering` decides which row of a key is sent, and
`RetryQueues` when.
"""

from __future__ import annotations

import heapq
import math
import random
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Sequence

from ddbload.aws.backoff import full_jitter
from ddbload.dynamodb import limits
from ddbload.write.scheduler.hot_keys import HotKeys, partition_key
from ddbload.write.scheduler.key_ordering import (
    KeyOrdering,
    QueuedRow,
    RowMerger,
    RowOrder,
    RowQueue,
)
from ddbload.write.scheduler.unique_key_batches import UniqueKeyBatch, UniqueKeyQueue


class UnsettledRows:
    """Unsettled rows, added in the order of the source and taken as requests need them."""

    def __init__(
        self,
        batch_rows: int,
        rng: random.Random,
        order: RowOrder,
        merger: RowMerger | None = None,
        unanswered: set[Hashable] | None = None,
    ) -> None:
        """See `Scheduler`."""
        self.bytes = 0
        """Bytes of JSON of all unsettled rows."""
        self.hot_keys = HotKeys(batch_rows)
        """Partition keys that are slowed separately."""
        self._rng = rng
        self._unique = UniqueKeyQueue(batch_rows)
        self._ordering = KeyOrdering(order, merger)
        self._unanswered: set[Hashable] = set() if unanswered is None else unanswered
        # Handles of rows that were not the first of their key, in order.
        self._repeated = array("Q")
        self._queues = RetryQueues(self.hot_keys, batch_rows)
        # Rows beyond this one are not sent.
        self._last: float = math.inf

    @property
    def is_empty(self) -> bool:
        """All rows are settled."""
        return not self._ordering.current and self._unique.is_empty

    @property
    def ready(self) -> int:
        """Number of rows that the next requests may carry."""
        return len(self._queues) + self._unique.waiting

    @property
    def is_full(self) -> bool:
        """A full request is ready."""
        # Later rows never join an existing batch of unique keys.
        return self._unique.waiting > 0 or len(self._queues) >= self._queues.batch_rows

    def set_batch_rows(self, rows: int) -> None:
        """Set the most rows of a request, also for batches that are ready."""
        self._unique.batch_rows = self._queues.batch_rows = self.hot_keys.batch_rows = rows

    def add(self, row: QueuedRow) -> None:
        """Add one row."""
        self.bytes += row.bytes
        self._add(row)

    def add_all(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
        spread: int,
    ) -> None:
        """Add several rows; see `Scheduler.offer_all` and `UniqueKeyQueue.add`."""
        self.bytes += row_bytes * len(handles)
        unique, current = self._unique, self._ordering.current
        key_set = set(keys)
        hot, unanswered = self.hot_keys.by_key, self._unanswered
        all_unique = len(key_set) == len(keys) and not hot and unanswered.isdisjoint(key_set)
        if all_unique and unique.is_disjoint(key_set) and current.keys().isdisjoint(key_set):
            unique.add(handles, keys, units, row_bytes, spread, key_set)
            return
        shared = unique.shared_keys(key_set) | (current.keys() & key_set) | (unanswered & key_set)
        seen: set[Hashable] = set()
        for key in keys:
            if key in seen or partition_key(key) in hot:
                shared.add(key)
            seen.add(key)
        unique_indexes = [index for index, key in enumerate(keys) if key not in shared]
        for handle, key, each in zip(handles, keys, units or [1] * len(keys), strict=True):
            if key in shared:
                self._add(QueuedRow(handle, key, each, row_bytes))
        unique.add(
            [handles[index] for index in unique_indexes],
            [keys[index] for index in unique_indexes],
            None if units is None else [units[index] for index in unique_indexes],
            row_bytes,
            spread,
        )

    def take(self, now: float, max_units: float) -> UniqueKeyBatch | list[QueuedRow]:
        """Take the rows of one request that is sent now; an empty list if none may go."""
        while True:
            batch = self._unique.head()
            if batch is not None and self._queues.is_empty:
                return self._unique.take(max_units)
            rows = self._queues.take(
                now, max_units, math.inf if batch is None else batch.first_handle
            )
            if rows or batch is None:
                return rows
            if not self.hot_keys.any_hot(batch.keys):
                return self._unique.take(max_units)
            self.dissolve(batch)

    def keep_up_to(self, last: int, at: float) -> None:
        """Send no rows beyond this one any more, and the others from the time `at` on at latest.

        Nothing may be in flight.
        """
        self._last = last
        while (batch := self._unique.head()) is not None:
            self.dissolve(batch)
        self._ordering.keep_up_to(last)
        self._queues.keep_up_to(last, at)

    def ready_at(self, now: float) -> float:
        """Compute when a row may be sent; infinity: only after an answer."""
        if self._unique.waiting:
            return now
        return self._queues.ready_at(now)

    def dissolve(self, batch: UniqueKeyBatch) -> list[QueuedRow]:
        """Turn a batch of unique keys into single rows, and return these."""
        rows = self._unique.dissolve(batch)
        for row in rows:
            self._ordering.add(row)
        if not batch.in_flight:
            for row in rows:
                self._queues.push(row)
        return rows

    def retry(self, row: QueuedRow, now: float, max_level: int) -> None:
        """Queue a row again, after a back-off that grows up to the level `max_level`."""
        attempts = min(row.attempts, max_level)
        row = self._ordering.row_to_retry(row)
        self._queues.push_backing_off(row, now + full_jitter(attempts, self._rng))

    @property
    def any_alone(self) -> bool:
        """A row waits for a request of its own."""
        return self._queues.any_alone

    def send_alone(self, row: QueuedRow) -> None:
        """Queue a row for a request of its own, which does not count as a retry."""
        row.alone, row.sent, row.attempts = True, False, 0
        self._queues.push_split([self._ordering.row_to_retry(row)])

    def split(self, rows: Sequence[QueuedRow]) -> None:
        """Queue the rows again as two requests, to find the one that DynamoDB refuses."""
        half = len(rows) // 2
        for rows_of_half in (rows[:half], rows[half:]):
            self._queues.push_split(self._ordering.row_to_retry(row) for row in rows_of_half)

    def remove_batch(self, batch: UniqueKeyBatch) -> None:
        """Forget a batch of unique keys that was written."""
        self._unique.remove(batch)
        self.bytes -= batch.bytes

    def remove_written(self, row: QueuedRow) -> list[QueuedRow]:
        """Forget a written row; return the rows this settles, the written one last."""
        self._push_if_any(self._ordering.remove_settled(row))
        settled = [*row.superseded, row]
        row.superseded = []
        self.bytes -= sum(each.bytes for each in settled)
        return settled

    def note_unanswered(self, row: QueuedRow) -> None:
        """Note that a lost request for a row's key may still arrive, after that of a later row."""
        self._unanswered.add(row.key)

    def repeated_before(self, handle: int) -> int:
        """Count the rows before this one whose key an earlier row had."""
        return bisect_left(self._repeated, handle)

    def unmerge(self, row: QueuedRow) -> bool:
        """Send a refused row and those merged with it one after the other; False if it has none."""
        first = self._ordering.unmerge(row)
        self._push_if_any(first)
        return first is not None

    def remove_refused(self, row: QueuedRow) -> None:
        """Forget a row that DynamoDB refused."""
        self._push_if_any(self._ordering.remove_refused(row))
        self.bytes -= row.bytes

    def _add(self, row: QueuedRow) -> None:
        batch = self._unique.find(row.key)
        if batch is not None:
            self.dissolve(batch)
        is_first = self._ordering.add(row)
        if is_first:
            self._queues.push(row)
        if not is_first or row.key in self._unanswered:
            self._repeated.append(row.handle)

    def _push_if_any(self, row: QueuedRow | None) -> None:
        if row is not None and row.handle <= self._last:
            self._queues.push(row)


class RetryQueues:
    """Queues of single rows, and the choice of the queue that fills the next request."""

    def __init__(self, hot_keys: HotKeys, batch_rows: int) -> None:
        self._hot_keys = hot_keys
        self.batch_rows = batch_rows
        self._ready = RowQueue()
        self._backing_off: list[tuple[float, int, QueuedRow]] = []
        self._split_requests: deque[RowQueue] = deque()

    def __len__(self) -> int:
        """Count the rows that any request may carry."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """No row waits here, and no hot key would make one wait."""
        return not (
            self._ready or self._backing_off or self._split_requests or self._hot_keys.by_key
        )

    @property
    def any_alone(self) -> bool:
        """The next request carries a row that shares it with no others."""
        # Not the half of a batch that DynamoDB refused.
        split = self._split_requests
        return bool(split and split[0]) and split[0].peek().alone

    def keep_up_to(self, last: int, at: float) -> None:
        """Drop the rows beyond this one; none of the others backs off after the time `at`."""
        waiting = [self._ready, *self._split_requests]
        self._ready, *split = [queue.up_to(last) for queue in waiting]
        self._split_requests = deque(split)
        self._backing_off = [
            (min(until, at), handle, row)
            for until, handle, row in self._backing_off
            if row.newest().first_handle <= last
        ]
        heapq.heapify(self._backing_off)
        self._hot_keys.keep_up_to(last)

    def push(self, row: QueuedRow) -> None:
        """Add a row that may be sent at once."""
        self._ready.push(row)

    def push_backing_off(self, row: QueuedRow, at: float) -> None:
        """Add a row that may be sent from the time `at` on."""
        heapq.heappush(self._backing_off, (at, row.handle, row))

    def push_split(self, rows: Iterable[QueuedRow]) -> None:
        """Add rows that form separate requests, to find the one that DynamoDB refuses."""
        self._split_requests.append(RowQueue(rows))

    def take(self, now: float, max_units: float, batch_handle: float) -> list[QueuedRow]:
        """Take the rows of one request; none while a batch of unique keys has waited longer.

        `batch_handle`: that batch's first handle.
        """
        while self._split_requests:
            half = self._split_requests[0]
            rows = self._fill(half, max_units)
            if not half:
                self._split_requests.popleft()
            if rows:
                return rows
        while self._backing_off and self._backing_off[0][0] <= now:
            self._ready.push(heapq.heappop(self._backing_off)[2].newest())
        if self._hot_keys.by_key:
            self._move_hot_rows()
            rows = self._hot_keys.take(now, max_units)
            if rows:
                return rows
        if self._ready and self._ready.peek().first_handle < batch_handle:
            return self._fill(self._ready, max_units)
        return []

    def ready_at(self, now: float) -> float:
        """Compute when a row may be sent; infinity if no row waits."""
        if self._ready or self._split_requests:
            return now
        later = self._backing_off[0][0] if self._backing_off else math.inf
        return min(later, self._hot_keys.ready_at(now))

    def _move_hot_rows(self) -> None:
        """Move rows of hot keys from the head of the ready queue to their keys' queues."""
        ready = self._ready
        kept: list[QueuedRow] = []
        while ready and len(kept) < limits.MAX_BATCH_ROWS:
            row = ready.peek()
            ready.pop()
            queue = self._hot_keys.queue_of(row)
            if queue is None:
                kept.append(row)
            else:
                queue.push(row)
        for row in kept:
            ready.push(row)

    def _fill(self, queue: RowQueue, max_units: float) -> list[QueuedRow]:
        """Take the rows of one request.

        The last row may exceed `max_units`: otherwise a row larger than that would never go.
        """
        rows: list[QueuedRow] = []
        size = units = 0
        while queue and len(rows) < self.batch_rows:
            row = queue.peek()
            size += row.bytes
            if rows and (size > limits.MAX_BATCH_BYTES or units >= max_units):
                break
            if rows and (row.alone or rows[0].alone):
                break
            units += row.units
            rows.append(row)
            queue.pop()
        return rows
