"""Keep rows whose keys no other unsettled row has in whole batches. Pure.

Nearly all rows are like that, and a batch costs a twentieth of the time of its single rows. A later
row with one of the keys, or any answer but complete success, *dissolves* the batch into single rows
that the scheduler handles one by one.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ddbload.dynamodb import limits
from ddbload.write.scheduler.key_ordering import QueuedRow

MAX_EXCESS = 1.25
"""A request may exceed its units by this factor, so that no request of a row or two is left."""

_ONES = (1,) * limits.MAX_BATCH_ROWS


class BatchGroup:
    """Batches that were added together, and the set of all their keys.

    The keys are kept until the last batch is closed: freeing one set takes a fifth of the time of
    removing a thousand keys.
    """

    __slots__ = ("_index", "batches", "keys", "open")

    def __init__(self, keys: AbstractSet[Hashable]) -> None:
        self.keys = keys
        self.batches: list[UniqueKeyBatch] = []
        self.open = 0
        """Number of batches that are neither written nor dissolved."""
        self._index: dict[Hashable, UniqueKeyBatch] | None = None

    def add(self, batch: UniqueKeyBatch) -> None:
        """Add a batch that has some of the keys."""
        self.batches.append(batch)
        self.open += 1
        self._index = None

    def close(self, batch: UniqueKeyBatch) -> bool:
        """Close a batch that is written or dissolved; return whether it was the last open one."""
        batch.is_open = False
        self.open -= 1
        return not self.open

    def find(self, key: Hashable) -> UniqueKeyBatch | None:
        """Find the open batch that has a row of this key."""
        if key not in self.keys:
            return None
        if self._index is None:
            self._index = {each: batch for batch in self.batches for each in batch.keys}
        batch = self._index[key]
        return batch if batch.is_open else None


@dataclass(slots=True, eq=False)
class UniqueKeyBatch:
    """Rows of one request, all with different keys."""

    group: int
    """Number of its group. A reference to it would be a cycle, which a scheduler that stops early
    would leave to the garbage collector."""
    handles: Sequence[int]
    keys: Sequence[Hashable]
    row_units: Sequence[int]
    row_bytes: int
    """Average bytes of JSON of one row."""
    units: int
    """Write units of all rows."""
    is_open: bool = True
    """The batch is neither written nor dissolved."""
    in_flight: bool = False
    rows: list[QueuedRow] = field(default_factory=list)
    """Single rows, after the batch was dissolved."""

    @property
    def first_handle(self) -> int:
        """Handle of the first row."""
        return self.handles[0]

    @property
    def bytes(self) -> int:
        """Bytes of JSON of all rows."""
        return self.row_bytes * len(self.handles)

    def slice(self, start: int, stop: int) -> UniqueKeyBatch:
        """Make a batch of the rows from `start` up to, not including, `stop`."""
        rows = slice(start, stop)
        units = self.row_units[rows]
        return UniqueKeyBatch(
            self.group, self.handles[rows], self.keys[rows], units, self.row_bytes, sum(units)
        )


class UniqueKeyQueue:
    """Batches that are ready or in flight, in the order in which they are sent."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self.batch_rows = batch_rows
        """Most rows of a request now."""
        self.waiting = 0
        """Number of rows in batches that are not in flight."""
        self._groups: dict[int, BatchGroup] = {}
        self._group_numbers = itertools.count()
        self._ready: deque[UniqueKeyBatch] = deque()

    @property
    def is_empty(self) -> bool:
        """No batch is open."""
        return not self._groups

    def is_disjoint(self, keys: AbstractSet[Hashable]) -> bool:
        """Return whether no open group has any of these keys."""
        return all(group.keys.isdisjoint(keys) for group in self._groups.values())

    def shared_keys(self, keys: AbstractSet[Hashable]) -> set[Hashable]:
        """Return the keys that an open group has."""
        return {key for group in self._groups.values() for key in group.keys & keys}

    def find(self, key: Hashable) -> UniqueKeyBatch | None:
        """Find the open batch that has a row of this key."""
        found = (group.find(key) for group in self._groups.values())
        return next((batch for batch in found if batch is not None), None)

    def add(
        self,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
        spread: int,
        key_set: AbstractSet[Hashable] | None = None,
    ) -> None:
        """Add rows whose keys are unique. `units` None: one each. `key_set`: the keys as a set.

        Each `spread` rows are dealt out to their batches in turn. Neighbours in a sorted source
        have equal or similar partition keys: without dealing, all requests of a moment would load
        one partition.
        """
        if not handles:
            return
        group = next(self._group_numbers)
        self._groups[group] = BatchGroup(set(keys) if key_set is None else key_set)
        for start in range(0, len(handles), spread):
            rows = slice(start, start + spread)
            self._deal(
                group,
                handles[rows],
                keys[rows],
                None if units is None else units[rows],
                row_bytes,
            )
        self.waiting += len(handles)

    def _deal(
        self,
        group: int,
        handles: Sequence[int],
        keys: Sequence[Hashable],
        units: Sequence[int] | None,
        row_bytes: int,
    ) -> None:
        add = self._groups[group].add
        batches = -(-len(handles) // limits.MAX_BATCH_ROWS)
        for first in range(batches):
            every = slice(first, None, batches)
            batch_handles = handles[every]
            row_units = _ONES[: len(batch_handles)] if units is None else units[every]
            batch = UniqueKeyBatch(
                group, batch_handles, keys[every], row_units, row_bytes, sum(row_units)
            )
            rows, most = len(batch_handles), self.batch_rows
            # Smaller requests keep the order that their rows have in a full one.
            for request in (
                [batch]
                if rows <= most
                else [batch.slice(start, start + most) for start in range(0, rows, most)]
            ):
                add(request)
                self._ready.append(request)

    def head(self) -> UniqueKeyBatch | None:
        """Return the next batch; None if the queue is empty."""
        ready = self._ready
        while ready and not ready[0].is_open:
            ready.popleft()
        return ready[0] if ready else None

    def take(self, max_units: float) -> UniqueKeyBatch:
        """Take the next batch to send; a batch of too many units is cut into equal shares."""
        batch = self._ready.popleft()
        units = batch.units
        if units > max_units * MAX_EXCESS:
            batch = self._cut(batch, units / math.ceil(units / (max_units * MAX_EXCESS)))
        if len(batch.handles) > self.batch_rows:
            batch = self._cut_at(batch, self.batch_rows)
        self.waiting -= len(batch.handles)
        batch.in_flight = True
        return batch

    def remove(self, batch: UniqueKeyBatch) -> None:
        """Forget a batch that is written or dissolved."""
        if self._groups[batch.group].close(batch):
            del self._groups[batch.group]

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
        head, rest = batch.slice(0, count), batch.slice(count, len(batch.handles))
        self._ready.appendleft(rest)
        group = self._groups[batch.group]
        for share in (head, rest):
            group.add(share)
        group.close(batch)
        return head
