"""Rows whose keys no other row has that is under way: kept by the batch, not one by one. Pure.

That is what nearly all rows are, and it takes a twentieth of the time. As soon as anything is
out of the ordinary (a later row of one of the keys, an answer that is not a plain yes) the batch
is *dissolved* into single rows, which the scheduler treats as any others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from ddbload.write import limits
from ddbload.write.succession import Row

_ONES = (1,) * limits.MAX_BATCH_ROWS


@dataclass(slots=True, eq=False)
class CleanBatch:
    """Rows that go together, all of different keys."""

    handles: Sequence[int]
    keys: Sequence[Hashable]
    row_units: Sequence[int]
    row_bytes: int
    """JSON of one row, on the average."""
    flying: bool = False
    rows: list[Row] | None = field(default=None)
    """The rows one by one, once it is dissolved."""

    @property
    def units(self) -> int:
        """Write units of all rows."""
        return sum(self.row_units)

    @property
    def first(self) -> int:
        """The handle of its first row."""
        return self.handles[0]

    @property
    def bytes(self) -> int:
        """JSON of all rows."""
        return self.row_bytes * len(self.handles)

    def part(self, start: int, stop: int) -> CleanBatch:
        """Some of its rows."""
        some = slice(start, stop)
        return CleanBatch(self.handles[some], self.keys[some], self.row_units[some], self.row_bytes)


class CleanLane:
    """The batches that are ready or under way, in the order of their going."""

    def __init__(self) -> None:
        self.batch_of: dict[Hashable, CleanBatch] = {}
        self.waiting = 0
        """Rows in batches that are not under way."""
        self._ready: deque[CleanBatch] = deque()

    def add(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
        spread: int,
    ) -> None:
        """Take rows of keys that nobody has. `units` None: one each.

        They are dealt out to the batches in turn, so many as `spread` says at a time. Rows that
        stand together in a source that is sorted have the same partition key, or neighbours of
        it: a batch of them, and the batches that go at one time, would all load one partition.
        """
        for start in range(0, len(handles), spread):
            some = slice(start, start + spread)
            self._deal(handles[some], keys[some], None if units is None else units[some], row_bytes)
        self.waiting += len(handles)

    def _deal(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
    ) -> None:
        batches = -(-len(handles) // limits.MAX_BATCH_ROWS)
        for place in range(batches):
            every = slice(place, None, batches)
            batch = CleanBatch(
                handles[every],
                keys[every],
                _ONES[: len(handles[every])] if units is None else units[every],
                row_bytes,
            )
            self._queue(batch)

    def head(self) -> CleanBatch | None:
        """The next batch, if there is one."""
        ready = self._ready
        while ready and ready[0].rows is not None:
            ready.popleft()
        return ready[0] if ready else None

    def take(self, most_units: float) -> CleanBatch:
        """The head, now under way; of one that takes too much, as many rows as may go."""
        batch = self._ready.popleft()
        if batch.units > most_units:
            batch = self._cut(batch, most_units)
        self.waiting -= len(batch.handles)
        batch.flying = True
        return batch

    def done(self, batch: CleanBatch) -> None:
        """Forget a batch: it is written, or its rows go on by themselves."""
        batch_of = self.batch_of
        for key in batch.keys:
            del batch_of[key]

    def dissolve(self, batch: CleanBatch) -> list[Row]:
        """Its rows, no longer of this lane."""
        self.done(batch)
        if not batch.flying:
            self.waiting -= len(batch.handles)
        batch.rows = [
            Row(handle, key, units, batch.row_bytes)
            for handle, key, units in zip(batch.handles, batch.keys, batch.row_units, strict=True)
        ]
        for row in batch.rows:
            row.flying = row.sent = batch.flying
            row.attempts = int(batch.flying)
        return batch.rows

    def _queue(self, batch: CleanBatch, *, first: bool = False) -> None:
        self.batch_of.update(dict.fromkeys(batch.keys, batch))
        if first:
            self._ready.appendleft(batch)
        else:
            self._ready.append(batch)

    def _cut(self, batch: CleanBatch, most_units: float) -> CleanBatch:
        units = 0
        for count, each in enumerate(batch.row_units):
            units += each
            if count and units > most_units:
                self._queue(batch.part(count, len(batch.handles)), first=True)
                head = batch.part(0, count)
                self.batch_of.update(dict.fromkeys(head.keys, head))
                return head
        return batch
