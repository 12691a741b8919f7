"""Hold all unsettled rows, and choose those of the next request. Pure.

Most rows have a key that no other unsettled row has; `unique_key_batches` keeps these by the
batch. The others go one by one: `key_ordering` decides which row of a key is sent, and
`retry_queues` when.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence

from ddbload.aws.backoff import full_jitter
from ddbload.write.scheduler.hot_keys import HotKeys, partition_key
from ddbload.write.scheduler.key_ordering import FirstWins, KeyOrdering, QueuedRow
from ddbload.write.scheduler.retry_queues import RetryQueues
from ddbload.write.scheduler.unique_key_batches import UniqueKeyBatch, UniqueKeyQueue


class UnsettledRows:
    """Unsettled rows, added in the order of the source and taken as requests need them."""

    def __init__(self, batch_rows: int, rng: random.Random, *, first_wins: bool) -> None:
        self.bytes = 0
        """Bytes of JSON of all unsettled rows."""
        self._rng = rng
        self._batch_rows = batch_rows
        self._unique = UniqueKeyQueue(batch_rows)
        self._ordering: KeyOrdering | FirstWins = FirstWins() if first_wins else KeyOrdering()
        self._queues = RetryQueues(batch_rows)

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
        return self._unique.waiting > 0 or len(self._queues) >= self._batch_rows

    @property
    def hot(self) -> HotKeys:
        """Partition keys that are slowed separately."""
        return self._queues.hot

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
        own = set(keys)
        hot = self.hot.hot
        alone = len(own) == len(keys) and not hot
        if alone and unique.is_apart(own) and current.keys().isdisjoint(own):
            unique.add(handles, keys, units, row_bytes, spread, own)
            return
        shared = unique.shared(own) | (current.keys() & own)
        seen: set[Hashable] = set()
        for key in keys:
            if key in seen or partition_key(key) in hot:
                shared.add(key)
            seen.add(key)
        plain = [place for place, key in enumerate(keys) if key not in shared]
        for handle, key, each in zip(handles, keys, units or [1] * len(keys), strict=True):
            if key in shared:
                self._add(QueuedRow(handle, key, each, row_bytes))
        unique.add(
            [handles[place] for place in plain],
            [keys[place] for place in plain],
            None if units is None else [units[place] for place in plain],
            row_bytes,
            spread,
        )

    def take(self, now: float, most_units: float) -> UniqueKeyBatch | list[QueuedRow]:
        """Take the rows of one request that is sent now; an empty list if none may go."""
        while True:
            batch = self._unique.head()
            if batch is not None and self._queues.is_empty:
                return self._unique.take(most_units)
            rows = self._queues.take(now, most_units, math.inf if batch is None else batch.first)
            if rows or batch is None:
                return rows
            if not self.hot.any_of(batch.keys):
                return self._unique.take(most_units)
            self.dissolve(batch)

    def ready_at(self, now: float) -> float:
        """Compute when a row may be sent; infinity: only after an answer."""
        return now if self._unique.waiting else self._queues.ready_at(now)

    def dissolve(self, batch: UniqueKeyBatch) -> list[QueuedRow]:
        """Turn a batch of unique keys into single rows, and return these."""
        rows = self._unique.dissolve(batch)
        for row in rows:
            self._ordering.add(row)
        if not batch.flying:
            for row in rows:
                self._queues.push(row)
        return rows

    def retry(self, row: QueuedRow, now: float, most: int) -> None:
        """Queue a row again, after a back-off that grows up to the level `most`."""
        attempts = min(row.attempts, most)
        row = self._ordering.to_send(row)
        self._queues.push_later(row, now + full_jitter(attempts, self._rng))

    def part(self, rows: Sequence[QueuedRow]) -> None:
        """Queue the rows again as two requests, to find the one that DynamoDB refuses."""
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            self._queues.push_apart(self._ordering.to_send(row) for row in part)

    def done(self, batch: UniqueKeyBatch) -> None:
        """Forget a batch of unique keys that was written."""
        self._unique.done(batch)
        self.bytes -= batch.bytes

    def written(self, row: QueuedRow) -> list[QueuedRow]:
        """Forget a written row; return the rows this settles, the written one last."""
        self._push(self._ordering.done(row))
        settled = [*row.older, row]
        for each in row.older:
            # The two refer to each other: break the reference cycle.
            each.successor = None
        row.older = []
        self.bytes -= sum(each.bytes for each in settled)
        return settled

    def refused(self, row: QueuedRow) -> None:
        """Forget a row that DynamoDB refused."""
        self._push(self._ordering.refused(row))
        self.bytes -= row.bytes

    def _add(self, row: QueuedRow) -> None:
        batch = self._unique.find(row.key)
        if batch is not None:
            self.dissolve(batch)
        if self._ordering.add(row):
            self._queues.push(row)

    def _push(self, heir: QueuedRow | None) -> None:
        if heir is not None:
            self._queues.push(heir)
