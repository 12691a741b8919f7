"""Rows that are known and not settled, and which of them may go in one request. Pure.

Most are in the clean lane, by the batch. The others stand in for one another by their keys
(`succession`), and wait in queues (`waiting`).
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
    """Takes rows in order, and gives them out in an order of its own."""

    def __init__(self, batch_rows: int, rng: random.Random, *, first_wins: bool) -> None:
        self.bytes = 0
        """JSON of all of them."""
        self._rng = rng
        self._batch_rows = batch_rows
        self._clean = UniqueKeyQueue(batch_rows)
        self._succession: KeyOrdering | FirstWins = FirstWins() if first_wins else KeyOrdering()
        self._waiting = RetryQueues(batch_rows)

    @property
    def is_empty(self) -> bool:
        """Whether all rows are settled."""
        return not self._succession.current and self._clean.is_empty

    @property
    def ready(self) -> int:
        """How many rows may go as soon as a request may."""
        return len(self._waiting) + self._clean.waiting

    @property
    def is_full(self) -> bool:
        """Whether one request takes all that it may of the rows that are ready."""
        # Rows that come later join no clean batch.
        return self._clean.waiting > 0 or len(self._waiting) >= self._batch_rows

    @property
    def hot(self) -> HotKeys:
        """The partition keys that have a rate of their own."""
        return self._waiting.hot

    def add(self, row: QueuedRow) -> None:
        """Take one more."""
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
        """Take several more; see `Scheduler.offer_all` and `CleanLane.add`."""
        self.bytes += row_bytes * len(handles)
        clean, current = self._clean, self._succession.current
        own = set(keys)
        hot = self.hot.hot
        alone = len(own) == len(keys) and not hot
        if alone and clean.is_apart(own) and current.keys().isdisjoint(own):
            clean.add(handles, keys, units, row_bytes, spread, own)
            return
        shared = clean.shared(own) | (current.keys() & own)
        seen: set[Hashable] = set()
        for key in keys:
            if key in seen or partition_key(key) in hot:
                shared.add(key)
            seen.add(key)
        plain = [place for place, key in enumerate(keys) if key not in shared]
        for handle, key, each in zip(handles, keys, units or [1] * len(keys), strict=True):
            if key in shared:
                self._add(QueuedRow(handle, key, each, row_bytes))
        clean.add(
            [handles[place] for place in plain],
            [keys[place] for place in plain],
            None if units is None else [units[place] for place in plain],
            row_bytes,
            spread,
        )

    def take(self, now: float, most_units: float) -> UniqueKeyBatch | list[QueuedRow]:
        """Rows of one request, which goes now; an empty list where none may go."""
        while True:
            clean = self._clean.head()
            if clean is not None and self._waiting.is_empty:
                return self._clean.take(most_units)
            rows = self._waiting.take(now, most_units, math.inf if clean is None else clean.first)
            if rows or clean is None:
                return rows
            if not self.hot.any_of(clean.keys):
                return self._clean.take(most_units)
            self.dissolve(clean)

    def ready_at(self, now: float) -> float:
        """When a row may go, for all that is known of it; infinity: after an answer."""
        return now if self._clean.waiting else self._waiting.ready_at(now)

    def dissolve(self, batch: UniqueKeyBatch) -> list[QueuedRow]:
        """A clean batch's rows, to go on one by one."""
        rows = self._clean.dissolve(batch)
        for row in rows:
            self._succession.add(row)
        if not batch.flying:
            for row in rows:
                self._waiting.push(row)
        return rows

    def retry(self, row: QueuedRow, now: float, most: int) -> None:
        """Have a row sent again, with a back-off of its own up to that level."""
        attempts = min(row.attempts, most)
        row = self._succession.to_send(row)
        self._waiting.push_later(row, now + full_jitter(attempts, self._rng))

    def part(self, rows: Sequence[QueuedRow]) -> None:
        """Have rows sent again in two requests, to find which of them DynamoDB refuses."""
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            self._waiting.push_apart(self._succession.to_send(row) for row in part)

    def done(self, batch: UniqueKeyBatch) -> None:
        """Let go of a clean batch that was taken."""
        self._clean.done(batch)
        self.bytes -= batch.bytes

    def written(self, row: QueuedRow) -> list[QueuedRow]:
        """Let go of a row that was taken; all rows that are settled by that, itself the last."""
        self._push(self._succession.done(row))
        settled = [*row.older, row]
        for each in row.older:
            # It knows the row that went in its place, and that row it: a circle.
            each.successor = None
        row.older = []
        self.bytes -= sum(each.bytes for each in settled)
        return settled

    def refused(self, row: QueuedRow) -> None:
        """Let go of a row that DynamoDB refused."""
        self._push(self._succession.refused(row))
        self.bytes -= row.bytes

    def _add(self, row: QueuedRow) -> None:
        batch = self._clean.find(row.key)
        if batch is not None:
            self.dissolve(batch)
        if self._succession.add(row):
            self._waiting.push(row)

    def _push(self, heir: QueuedRow | None) -> None:
        if heir is not None:
            self._waiting.push(heir)
