"""Hold all unsettled rows, and choose the rows of the next request. Pure.

Most rows have a key that no other unsettled row has. They are kept in whole batches, which cost a
twentieth of the time of their single rows. A later row with one of the keys, or any answer but
complete success, *dissolves* a batch into single rows. These go one by one: `KeyOrdering` decides
which row of a key is sent, and `RetryQueues` when.
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ddbload.aws.backoff import full_jitter
from ddbload.dynamodb import limits
from ddbload.dynamodb.modes import RowOrder
from ddbload.write.scheduler.single_rows import (
    HotKeys,
    KeyOrdering,
    QueuedRow,
    RetryQueues,
    RowMerger,
    partition_key,
)

MAX_EXCESS = 1.25
"""Factor by which a request may exceed its units, so that no request of a row or two is left."""


@dataclass(slots=True, eq=False)
class UniqueKeyBatch:
    """Rows of one request, all with different keys."""

    handles: Sequence[int]
    keys: Sequence[Hashable]
    row_units: Sequence[int]
    row_bytes: int
    """Average bytes of JSON of one row."""
    units: int
    """Write units of all rows."""
    is_open: bool = True
    """True while the batch is neither written nor dissolved."""
    in_flight: bool = False
    rows: list[QueuedRow] = field(default_factory=list)
    """Single rows, once the batch was dissolved."""

    @property
    def first_handle(self) -> int:
        """Handle of the first row."""
        return self.handles[0]

    @property
    def bytes(self) -> int:
        """Bytes of JSON of all rows."""
        return self.row_bytes * len(self.handles)

    def pick(self, rows: slice) -> UniqueKeyBatch:
        """Return a batch of some of the rows."""
        units = self.row_units[rows]
        return UniqueKeyBatch(
            self.handles[rows], self.keys[rows], units, self.row_bytes, sum(units)
        )


class UniqueKeyQueue:
    """Batches that are ready or in flight, in sending order."""

    def __init__(self) -> None:
        self.waiting = 0
        """Number of rows in batches that are not in flight."""
        self._batch_of: dict[Hashable, UniqueKeyBatch] = {}
        """Open batch of each key."""
        self._ready: deque[UniqueKeyBatch] = deque()

    @property
    def is_empty(self) -> bool:
        """True if no batch is open."""
        return not self._batch_of

    def shared_keys(self, keys: AbstractSet[Hashable]) -> set[Hashable]:
        """Return the keys that an open batch has, too."""
        return self._batch_of.keys() & keys

    def find(self, key: Hashable) -> UniqueKeyBatch | None:
        """Find the open batch that has a row of this key."""
        return self._batch_of.get(key)

    def add(self, rows: UniqueKeyBatch, spread: int, most: int) -> None:
        """Divide rows into batches.

        Args:
            rows: Rows with unique keys.
            spread: Number of rows that are dealt out to their batches in turn. Neighbors in a
                sorted source have equal or similar partition keys: without dealing, all requests of
                a moment would load one partition.
            most: Maximum rows of a request.
        """
        count = len(rows.handles)
        for start in range(0, count, spread):
            stop = min(start + spread, count)
            batches = -(-(stop - start) // limits.MAX_BATCH_ROWS)
            for first in range(start, start + batches):
                batch = rows.pick(slice(first, stop, batches))
                size = len(batch.handles)
                # Smaller requests keep the order that their rows have in a full request.
                for request in (
                    [batch]
                    if size <= most
                    else [batch.pick(slice(at, at + most)) for at in range(0, size, most)]
                ):
                    self._open(request)
                    self._ready.append(request)
        self.waiting += count

    def head(self) -> UniqueKeyBatch | None:
        """Return the next batch; None if the queue is empty."""
        ready = self._ready
        while ready and not ready[0].is_open:
            ready.popleft()
        return ready[0] if ready else None

    def take(self, max_units: float, most: int) -> UniqueKeyBatch:
        """Take the next batch to send; a batch with too many units is cut into equal shares."""
        batch = self._ready.popleft()
        units = batch.units
        if units > max_units * MAX_EXCESS:
            batch = self._cut(batch, units / math.ceil(units / (max_units * MAX_EXCESS)))
        if len(batch.handles) > most:
            batch = self._cut_at(batch, most)
        self.waiting -= len(batch.handles)
        batch.in_flight = True
        return batch

    def remove(self, batch: UniqueKeyBatch) -> None:
        """Remove a batch that is written or dissolved."""
        batch.is_open = False
        for key in batch.keys:
            del self._batch_of[key]

    def dissolve(self, batch: UniqueKeyBatch) -> list[QueuedRow]:
        """Remove a batch and return its rows as single rows."""
        self.remove(batch)
        if not batch.in_flight:
            self.waiting -= len(batch.handles)
        batch.rows = [
            QueuedRow(handle, key, units, batch.row_bytes)
            for handle, key, units in zip(batch.handles, batch.keys, batch.row_units, strict=True)
        ]
        for row in batch.rows:
            row.in_flight = row.sent = batch.in_flight
            row.attempts = int(batch.in_flight)
        return batch.rows

    def _cut(self, batch: UniqueKeyBatch, max_units: float) -> UniqueKeyBatch:
        units = 0
        for count, each in enumerate(batch.row_units):
            if units >= max_units:
                return self._cut_at(batch, count)
            units += each
        return batch

    def _cut_at(self, batch: UniqueKeyBatch, count: int) -> UniqueKeyBatch:
        head, rest = batch.pick(slice(count)), batch.pick(slice(count, None))
        self._ready.appendleft(rest)
        self._open(head)
        self._open(rest)
        return head

    def _open(self, batch: UniqueKeyBatch) -> None:
        self._batch_of.update(dict.fromkeys(batch.keys, batch))


class UnsettledRows:
    """Unsettled rows, added in source order and taken as requests need them."""

    def __init__(
        self,
        batch_rows: int,
        rng: random.Random,
        order: RowOrder,
        merger: RowMerger | None = None,
        unanswered: set[Hashable] | None = None,
    ) -> None:
        """For the arguments see `Scheduler`."""
        self.bytes = 0
        """Bytes of JSON of all unsettled rows."""
        self.batch_rows = batch_rows
        """Maximum rows of a request, also of batches that are ready."""
        self.hot_keys = HotKeys()
        """Partition keys that are slowed down separately."""
        self._rng = rng
        self._unique = UniqueKeyQueue()
        self._ordering = KeyOrdering(order, merger)
        self._unanswered: set[Hashable] = set() if unanswered is None else unanswered
        # Handles of rows that were not the first with their key, in order.
        self._repeated = array("Q")
        self._queues = RetryQueues(self.hot_keys)
        # Rows after this one are not sent.
        self._last: float = math.inf

    @property
    def is_empty(self) -> bool:
        """True if all rows are settled."""
        return not self._ordering.current and self._unique.is_empty

    @property
    def ready(self) -> int:
        """Number of rows that the next requests may carry."""
        return len(self._queues) + self._unique.waiting

    @property
    def is_full(self) -> bool:
        """True if a full request is ready."""
        # Later rows never join an existing batch of unique keys.
        return self._unique.waiting > 0 or len(self._queues) >= self.batch_rows

    def add(self, row: QueuedRow) -> None:
        """Add one row."""
        self.bytes += row.bytes
        self._add(row)

    def add_all(self, rows: UniqueKeyBatch, spread: int) -> None:
        """Add several rows, whose keys need not be unique; see `UniqueKeyQueue.add`."""
        self.bytes += rows.bytes
        unique, current = self._unique, self._ordering.current
        handles, keys, units = rows.handles, rows.keys, rows.row_units
        key_set = set(keys)
        hot, unanswered = self.hot_keys.by_key, self._unanswered
        shared = unique.shared_keys(key_set) | (current.keys() & key_set) | (unanswered & key_set)
        if hot or len(key_set) < len(keys):
            seen: set[Hashable] = set()
            for key in keys:
                if key in seen or partition_key(key) in hot:
                    shared.add(key)
                seen.add(key)
        if shared:
            single = [index for index, key in enumerate(keys) if key in shared]
            for index in single:
                row = QueuedRow(handles[index], keys[index], units[index], rows.row_bytes)
                self._add(row)
            rest = [index for index, key in enumerate(keys) if key not in shared]
            handles, keys = [handles[index] for index in rest], [keys[index] for index in rest]
            units = [units[index] for index in rest]
            rows = UniqueKeyBatch(handles, keys, units, rows.row_bytes, 0)
        unique.add(rows, spread, self.batch_rows)

    def take(self, now: float, max_units: float) -> UniqueKeyBatch | list[QueuedRow]:
        """Take the rows of one request to send now; an empty list if none may be sent."""
        while True:
            batch = self._unique.head()
            if batch is not None and self._queues.is_empty:
                return self._unique.take(max_units, self.batch_rows)
            rows = self._queues.take(
                now, max_units, self.batch_rows, math.inf if batch is None else batch.first_handle
            )
            if rows or batch is None:
                return rows
            if not self.hot_keys.any_hot(batch.keys):
                return self._unique.take(max_units, self.batch_rows)
            self.dissolve(batch)

    def keep_up_to(self, last: int, at: float) -> None:
        """Drop the rows after this one; let the others be sent from the time `at` on.

        Nothing may be in flight.
        """
        self._last = last
        while (batch := self._unique.head()) is not None:
            self.dissolve(batch)
        self._ordering.keep_up_to(last)
        self._queues.keep_up_to(last, at)

    def ready_at(self, now: float) -> float:
        """Return when a row may be sent; infinity if only an answer can make one ready."""
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

    def retry(
        self, rows: Sequence[QueuedRow], now: float, max_level: int, *, whole: bool = True
    ) -> None:
        """Queue returned rows again, after a back-off that grows up to the level `max_level`.

        Those of a request that came back `whole` wait as long, so that they share a request again.
        """
        waits: dict[int, float] = {}
        for row in rows:
            level = min(row.attempts, max_level)
            if not whole or level not in waits:
                waits[level] = full_jitter(level, self._rng)
            row = self._ordering.row_to_retry(row)
            self._queues.push_backing_off(row, now + waits[level])

    @property
    def any_alone(self) -> bool:
        """True if a row waits for its own request."""
        return self._queues.any_alone

    def send_alone(self, row: QueuedRow) -> None:
        """Queue a row for its own request, which does not count as a retry."""
        row.alone, row.sent, row.attempts = True, False, 0
        self._queues.push_split([self._ordering.row_to_retry(row)])

    def split(self, rows: Sequence[QueuedRow]) -> None:
        """Queue the rows again as two requests, to find the one that DynamoDB refuses."""
        half = len(rows) // 2
        for rows_of_half in (rows[:half], rows[half:]):
            self._queues.push_split(self._ordering.row_to_retry(row) for row in rows_of_half)

    def remove_batch(self, batch: UniqueKeyBatch) -> None:
        """Remove a batch of unique keys that was written."""
        self._unique.remove(batch)
        self.bytes -= batch.bytes

    def remove_written(self, row: QueuedRow) -> list[QueuedRow]:
        """Remove a written row; return the rows that this settles, the written one last."""
        self._push_if_any(self._ordering.remove_settled(row))
        settled = [*row.superseded, row]
        row.superseded = []
        self.bytes -= sum(each.bytes for each in settled)
        return settled

    def note_unanswered(self, row: QueuedRow) -> None:
        """Record that a lost request for a row's key may take effect after a later row's."""
        self._unanswered.add(row.key)

    def repeated_before(self, handle: int) -> int:
        """Count the rows before this one whose key an earlier row had."""
        return bisect_left(self._repeated, handle)

    def unmerge(self, row: QueuedRow) -> bool:
        """Split a merged row that was refused; return false if no rows were merged."""
        first = self._ordering.unmerge(row)
        self._push_if_any(first)
        return first is not None

    def remove_refused(self, row: QueuedRow) -> None:
        """Remove a row that DynamoDB refused."""
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
