"""Order rows that have the same key. Pure.

At most one row of a key is *current*: ready to send, in flight, or waiting to be sent again. While
the current row is in flight, a later row with its key waits; otherwise the later row replaces it,
and the earlier row is *superseded*. It is settled as superseded only once the later row is written:
if DynamoDB refuses the later row, the earlier one is sent after all.

In mode `insert` the first row of a key wins, and conditional writes each count. So no row replaces
another there: they are sent one after the other (`SequentialOrdering`).

Updates of one key are merged into one, which does what they would do one after the other; the
earlier rows are superseded then. Where no request can do the same as two, or they are long, they
are sent one after the other (`MergingOrdering`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import Protocol

MAX_MERGED_BYTES = 16 * 1024
"""Most bytes of JSON of rows that are merged into one.

Each merge takes time for all of them, as sets to add to are united.
"""


class RowOrder(Enum):
    """Order in which rows with equal keys are written."""

    LAST_WINS = "last wins"
    """A later row may replace an earlier one that is not written yet."""
    FIRST_WINS = "first wins"
    """One after the other; only the first can be written."""
    ALL = "all"
    """One after the other; each may be written."""


class QueuedRow:
    """An unsettled row, and the rows of its key that it replaces or that replace it."""

    __slots__ = (
        "alone",
        "attempts",
        "bytes",
        "handle",
        "has_predecessor",
        "in_flight",
        "key",
        "sent",
        "successor",
        "superseded",
        "units",
        "unmerged",
    )

    def __init__(self, handle: int, key: Hashable, units: int, json_bytes: int) -> None:
        self.handle = handle
        self.key = key
        self.bytes = json_bytes
        self.units = units
        # The row shares no request with others.
        self.alone = False
        # Attempts of the key: a row that replaces another inherits its back-off.
        self.attempts = 0
        self.sent = False
        self.in_flight = False
        # The row is sent by itself, because the service refused it together with others of its key.
        self.unmerged = False
        # An earlier row of the key found or put an item before this one was sent.
        self.has_predecessor = False
        # The later row that replaces this one in a queue.
        self.successor: QueuedRow | None = None
        # Copies of the earlier rows of the key that this one replaces, in order.
        self.superseded: list[QueuedRow] = []

    def newest(self) -> QueuedRow:
        """Follow the replacements to the row that is sent in place of this one."""
        row = self
        while row.successor is not None:
            row = row.successor
        return row

    @property
    def first_handle(self) -> int:
        """Handle of the first row that is settled when this one is written."""
        return self.superseded[0].handle if self.superseded else self.handle

    def fresh_copy(self) -> QueuedRow:
        """Copy the row without the row that replaces it: it is sent if that one is refused."""
        row = QueuedRow(self.handle, self.key, self.units, self.bytes)
        row.sent = self.sent
        row.alone = self.alone
        row.unmerged = self.unmerged
        return row


class RowQueue:
    """Rows to send, the longest waiting first: the frontier may depend on it."""

    def __init__(self, rows: Iterable[QueuedRow] = ()) -> None:
        self._rows = [(row.first_handle, row) for row in rows]
        heapq.heapify(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def up_to(self, last: int) -> RowQueue:
        """Return a queue of the rows up to this one."""
        return RowQueue(row for first, row in self._rows if first <= last)

    def push(self, row: QueuedRow) -> None:
        """Add a row. A row is replaced by one other row at most, so no two rows tie."""
        heapq.heappush(self._rows, (row.first_handle, row))

    def peek(self) -> QueuedRow:
        """Return the next row to send."""
        return self._rows[0][1].newest()

    def pop(self) -> None:
        """Remove the next row."""
        heapq.heappop(self._rows)


class KeyOrdering:
    """The current row of each key, and the later row that waits for its answer."""

    def __init__(self) -> None:
        self.current: dict[Hashable, QueuedRow] = {}
        self._waiting: dict[Hashable, QueuedRow] = {}

    def add(self, row: QueuedRow) -> bool:
        """Add the latest row; return whether the caller must queue it.

        A row that waits for its key's current row, or replaces it in the queue, is not queued.
        """
        current = self.current.get(row.key)
        if current is None:
            self.current[row.key] = row
            return True
        if current.in_flight:
            waiting = self._waiting.get(row.key)
            if waiting is not None:
                _supersede(row, waiting)
            self._waiting[row.key] = row
        else:
            # It inherits the queue position and the back-off: if the later row were sent last, the
            # earlier one would hold the frontier until then.
            current.successor = row
            _supersede(row, current)
            self.current[row.key] = row
            row.attempts = current.attempts
        return False

    def keep_up_to(self, last: int) -> None:
        """Send the latest row of each key up to this one. Nothing may be in flight."""
        for key, row in list(self.current.items()):
            self.current[key] = _latest_up_to(last, row)

    def row_to_retry(self, row: QueuedRow) -> QueuedRow:
        """Choose the row to send after this one was returned: a later one of its key, if any."""
        waiting = self._waiting.pop(row.key, None)
        if waiting is None:
            return row
        _supersede(waiting, row)
        waiting.attempts = row.attempts
        self.current[row.key] = waiting
        return waiting

    def remove_settled(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a written row; return the row that waited for it, to be sent now."""
        waiting = self._waiting.pop(row.key, None)
        if waiting is None:
            del self.current[row.key]
        else:
            self.current[row.key] = waiting
        return waiting

    def remove_refused(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a refused row; return the row of its key to send now, if any."""
        next_row = self._waiting.pop(row.key, None)
        del self.current[row.key]
        superseded, row.superseded = row.superseded, []
        if next_row is not None:
            next_row.superseded[:0] = superseded
        elif superseded:
            next_row = superseded.pop()
            next_row.superseded = superseded
        if next_row is not None:
            self.current[next_row.key] = next_row
        return next_row


class SequentialOrdering:
    """Rows of a key sent one after the other, in order; none replaces another."""

    def __init__(self, *, first_wins: bool) -> None:
        """`first_wins`: a row that follows another of its key finds an item, and is not written."""
        self._first_wins = first_wins
        self.current: dict[Hashable, QueuedRow] = {}
        self._later: dict[Hashable, deque[QueuedRow]] = {}

    def add(self, row: QueuedRow) -> bool:
        """Add the latest row; return whether the caller must queue it: its key has no other."""
        if row.key not in self.current:
            self.current[row.key] = row
            return True
        self._later.setdefault(row.key, deque()).append(row)
        return False

    def keep_up_to(self, last: int) -> None:
        """Do nothing: a row that waits for another of its key is queued after that one only."""

    def row_to_retry(self, row: QueuedRow) -> QueuedRow:
        """Choose the row to send after this one was returned: the same one."""
        return row

    def remove_settled(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a settled row; return the next one of its key, to be sent now."""
        next_row = self._pop_current(row)
        if next_row is not None:
            next_row.has_predecessor = self._first_wins
        return next_row

    def remove_refused(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a refused row; return the next one of its key, to be sent now."""
        next_row = self._pop_current(row)
        if next_row is not None:
            next_row.has_predecessor = row.has_predecessor
        return next_row

    def _pop_current(self, row: QueuedRow) -> QueuedRow | None:
        later = self._later.get(row.key)
        if later is None:
            del self.current[row.key]
            return None
        next_row = self.current[row.key] = later.popleft()
        if not later:
            del self._later[row.key]
        return next_row


class RowMerger(Protocol):
    """Knows what rows hold, and so which of them can be merged."""

    def merge(self, earlier: int, later: int) -> bool:
        """Merge the row `earlier` into `later`, which is sent for both from now on.

        False if no request does what both would do one after the other; nothing changes then.
        """

    def restore(self, handles: Sequence[int]) -> None:
        """Merge only these rows into the last of them."""


class MergingOrdering(SequentialOrdering):
    """Rows of a key merged into one while none of them is in flight, else one after the other."""

    def __init__(self, merger: RowMerger) -> None:
        super().__init__(first_wins=False)
        self._merger = merger

    def add(self, row: QueuedRow) -> bool:
        """Add the latest row; return whether the caller must queue it: its key has no other."""
        current = self.current.get(row.key)
        if current is None:
            return super().add(row)
        later = self._later.get(row.key)
        last = later[-1] if later else current
        if last.in_flight or last.unmerged or not self._merges(last, row):
            return super().add(row)
        row.units = max(row.units, last.units)
        _supersede(row, last)
        if later:
            later[-1] = row
        else:
            last.successor = self.current[row.key] = row
            row.attempts = last.attempts
        return False

    def _merges(self, last: QueuedRow, row: QueuedRow) -> bool:
        """Merge a row with the last of its key, if a request can do what both would do."""
        merged_bytes = sum(each.bytes for each in (*last.superseded, last, row))
        return merged_bytes <= MAX_MERGED_BYTES and self._merger.merge(last.handle, row.handle)

    def unmerge(self, row: QueuedRow) -> QueuedRow:
        """Send the rows that were merged one after the other; return the first of them."""
        rows = [*row.superseded, row]
        row.superseded = []
        for each in rows:
            each.unmerged = True
            self._merger.restore([each.handle])
        first = self.current[row.key] = rows[0]
        self._later.setdefault(row.key, deque()).extendleft(reversed(rows[1:]))
        return first

    def keep_up_to(self, last: int) -> None:
        """Send the rows of each key up to this one. Nothing may be in flight."""
        for key, row in list(self.current.items()):
            self.current[key] = self._latest_up_to(last, row)
        for rows in self._later.values():
            rows.extend([self._latest_up_to(last, rows.popleft()) for _ in range(len(rows))])

    def _latest_up_to(self, last: int, row: QueuedRow) -> QueuedRow:
        latest = _latest_up_to(last, row)
        if latest is not row:
            self._merger.restore([each.handle for each in (*latest.superseded, latest)])
        return latest


def _latest_up_to(last: int, row: QueuedRow) -> QueuedRow:
    """Return the latest row up to `last` among a row and those that it replaces.

    If there is none, the row is returned as it is: nothing of it will be sent.
    """
    if not row.first_handle <= last < row.handle:
        return row
    chain, row.superseded = row.superseded, []
    kept = [each for each in chain if each.handle <= last]
    latest = row.successor = kept.pop()
    latest.superseded = kept
    latest.attempts = row.attempts
    return latest


def _supersede(later: QueuedRow, earlier: QueuedRow) -> None:
    # Hand the list over instead of copying it: a file may repeat one key thousands of times.
    chain = earlier.superseded
    # The row itself may refer to the later one: a reference cycle.
    chain.append(earlier.fresh_copy())
    chain.extend(later.superseded)
    later.superseded, earlier.superseded = chain, []
