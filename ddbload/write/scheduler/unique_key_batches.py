"""Rows whose keys no other row has that is under way: kept by the batch, not one by one. Pure.

That is what nearly all rows are, and it takes a twentieth of the time. As soon as anything is
out of the ordinary (a later row of one of the keys, an answer that is not a plain yes) the batch
is *dissolved* into single rows, which the scheduler treats as any others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ddbload.dynamodb import limits
from ddbload.write.scheduler.key_ordering import QueuedRow

SLACK = 1.25
"""By which factor a request may take more than it should: none is left with a row or two."""

_ONES = (1,) * limits.MAX_BATCH_ROWS


class BatchGroup:
    """Batches that were told of together, and all of their keys.

    These stay known until the last of the batches is closed: one set for a thousand rows is let
    go in a fifth of the time that it takes to forget a thousand keys.
    """

    __slots__ = ("_index", "batches", "keys", "open")

    def __init__(self, keys: AbstractSet[Hashable]) -> None:
        self.keys = keys
        self.batches: list[UniqueKeyBatch] = []
        self.open = 0
        """How many batches are neither written nor dissolved."""
        self._index: dict[Hashable, UniqueKeyBatch] | None = None

    def add(self, batch: UniqueKeyBatch) -> None:
        """Take a batch with some of the keys."""
        self.batches.append(batch)
        self.open += 1
        self._index = None

    def close(self, batch: UniqueKeyBatch) -> bool:
        """Say that a batch is written or dissolved; whether it was the last that was open."""
        batch.is_open = False
        self.open -= 1
        if self.open:
            return False
        # They know it, too: a circle, that would be found by Python's collector only.
        self.batches.clear()
        self._index = None
        return True

    def find(self, key: Hashable) -> UniqueKeyBatch | None:
        """The batch with a row of this key, if it is open."""
        if key not in self.keys:
            return None
        if self._index is None:
            self._index = {each: batch for batch in self.batches for each in batch.keys}
        batch = self._index[key]
        return batch if batch.is_open else None


@dataclass(slots=True, eq=False)
class UniqueKeyBatch:
    """Rows that go together, all of different keys."""

    stretch: BatchGroup
    handles: Sequence[int]
    keys: Sequence[Hashable]
    row_units: Sequence[int]
    row_bytes: int
    """JSON of one row, on the average."""
    units: int
    """Write units of all rows."""
    is_open: bool = True
    """Whether it is neither written nor dissolved."""
    flying: bool = False
    rows: list[QueuedRow] = field(default_factory=list)
    """The rows one by one, once it is dissolved."""

    @property
    def first(self) -> int:
        """The handle of its first row."""
        return self.handles[0]

    @property
    def bytes(self) -> int:
        """JSON of all rows."""
        return self.row_bytes * len(self.handles)

    def part(self, start: int, stop: int) -> UniqueKeyBatch:
        """Some of its rows."""
        some = slice(start, stop)
        units = self.row_units[some]
        return UniqueKeyBatch(
            self.stretch, self.handles[some], self.keys[some], units, self.row_bytes, sum(units)
        )


class UniqueKeyQueue:
    """The batches that are ready or under way, in the order of their going."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self._batch_rows = batch_rows
        self.waiting = 0
        """Rows in batches that are not under way."""
        self._stretches: list[BatchGroup] = []
        self._ready: deque[UniqueKeyBatch] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether no batch is open."""
        return not self._stretches

    def is_apart(self, keys: AbstractSet[Hashable]) -> bool:
        """Whether none of these keys is one of an open stretch."""
        return all(stretch.keys.isdisjoint(keys) for stretch in self._stretches)

    def shared(self, keys: AbstractSet[Hashable]) -> set[Hashable]:
        """Those of the keys that are."""
        return {key for stretch in self._stretches for key in stretch.keys & keys}

    def find(self, key: Hashable) -> UniqueKeyBatch | None:
        """The open batch with a row of this key."""
        found = (stretch.find(key) for stretch in self._stretches)
        return next((batch for batch in found if batch is not None), None)

    def add(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
        spread: int,
        own: AbstractSet[Hashable] | None = None,
    ) -> None:
        """Take rows of keys that nobody has. `units` None: one each. `own`: the keys' set.

        They are dealt out to the batches in turn, so many as `spread` says at a time. Rows that
        stand together in a source that is sorted have the same partition key, or neighbours of
        it: a batch of them, and the batches that go at one time, would all load one partition.
        """
        if not handles:
            return
        stretch = BatchGroup(set(keys) if own is None else own)
        self._stretches.append(stretch)
        for start in range(0, len(handles), spread):
            some = slice(start, start + spread)
            self._deal(
                stretch,
                handles[some],
                keys[some],
                None if units is None else units[some],
                row_bytes,
            )
        self.waiting += len(handles)

    def _deal(
        self,
        stretch: BatchGroup,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
    ) -> None:
        batches = -(-len(handles) // limits.MAX_BATCH_ROWS)
        for place in range(batches):
            every = slice(place, None, batches)
            own = handles[every]
            each = _ONES[: len(own)] if units is None else units[every]
            batch = UniqueKeyBatch(stretch, own, keys[every], each, row_bytes, sum(each))
            rows, most = len(own), self._batch_rows
            # Requests of fewer rows go in the order that they would have within a full one.
            for part in (
                [batch]
                if rows <= most
                else [batch.part(start, start + most) for start in range(0, rows, most)]
            ):
                stretch.add(part)
                self._ready.append(part)

    def head(self) -> UniqueKeyBatch | None:
        """The next batch, if there is one."""
        ready = self._ready
        while ready and not ready[0].is_open:
            ready.popleft()
        return ready[0] if ready else None

    def take(self, most_units: float) -> UniqueKeyBatch:
        """The head, now under way; one that takes too much is cut into parts of about one size."""
        batch = self._ready.popleft()
        units = batch.units
        if units > most_units * SLACK:
            batch = self._cut(batch, units / math.ceil(units / (most_units * SLACK)))
        self.waiting -= len(batch.handles)
        batch.flying = True
        return batch

    def done(self, batch: UniqueKeyBatch) -> None:
        """Forget a batch: it is written, or its rows go on by themselves."""
        stretch = batch.stretch
        if stretch.close(batch):
            self._stretches.remove(stretch)

    def dissolve(self, batch: UniqueKeyBatch) -> list[QueuedRow]:
        """Its rows, no longer of this lane."""
        self.done(batch)
        if not batch.flying:
            self.waiting -= len(batch.handles)
        batch.rows = [
            QueuedRow(handle, key, units, batch.row_bytes)
            for handle, key, units in zip(batch.handles, batch.keys, batch.row_units, strict=True)
        ]
        for row in batch.rows:
            row.flying = row.sent = batch.flying
            row.attempts = int(batch.flying)
        return batch.rows

    def _cut(self, batch: UniqueKeyBatch, most_units: float) -> UniqueKeyBatch:
        units = 0
        for count, each in enumerate(batch.row_units):
            if units >= most_units:
                head, rest = batch.part(0, count), batch.part(count, len(batch.handles))
                self._ready.appendleft(rest)
                for part in (head, rest):
                    batch.stretch.add(part)
                batch.stretch.close(batch)
                return head
            units += each
        return batch
