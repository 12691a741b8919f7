"""Order rows that have the same key. Pure.

At most one row of a key is *current*: ready to send, in flight, or waiting to be sent again. While
the current row is in flight, a later row with its key waits; otherwise the later row replaces it,
and the earlier row is *superseded*. It is settled as superseded only once the later row is written:
if DynamoDB refuses the later row, the earlier one is sent after all.

In mode `insert` the first row of a key wins, and conditional writes each count. So no row replaces
another there: they are sent one after the other.

Updates of one key are merged into one, which does what they would do one after the other; the
earlier rows are superseded then. Where no request can do the same as two, or they are long, they
are sent one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
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


class KeyOrdering:
    """The current row of each key, and the later rows that wait for its answer, in order."""

    def __init__(self, order: RowOrder, merger: RowMerger | None = None) -> None:
        """`merger`: merges rows of a key that would go one after the other."""
        self.current: dict[Hashable, QueuedRow] = {}
        self._later: dict[Hashable, deque[QueuedRow]] = {}
        self._order = order
        self._merger = merger
        self._latest_only = order is RowOrder.LAST_WINS

    def add(self, row: QueuedRow) -> bool:
        """Add the latest row; return whether the caller must queue it.

        A row that waits for its key's current row, or replaces it in the queue, is not queued.
        """
        current = self.current.get(row.key)
        if current is None:
            self.current[row.key] = row
            return True
        later = self._later.get(row.key)
        last = later[-1] if later else current
        if last.in_flight or not self._replaces(row, last):
            self._later.setdefault(row.key, deque()).append(row)
            return False
        _supersede(row, last)
        if later:
            later[-1] = row
        else:
            # It inherits the queue position and the back-off: if the later row were sent last, the
            # earlier one would hold the frontier until then.
            last.successor = self.current[row.key] = row
            row.attempts = last.attempts
        return False

    def _replaces(self, row: QueuedRow, last: QueuedRow) -> bool:
        """Return whether a row is sent in place of the last one of its key; merge it if needed."""
        if self._merger is None or last.unmerged:
            return self._latest_only
        merged_bytes = sum(each.bytes for each in (*last.superseded, last, row))
        if merged_bytes > MAX_MERGED_BYTES or not self._merger.merge(last.handle, row.handle):
            return False
        row.units = max(row.units, last.units)
        return True

    def row_to_retry(self, row: QueuedRow) -> QueuedRow:
        """Choose the row to send after this one was returned: a later one that replaces it."""
        if not self._latest_only or row.key not in self._later:
            return row
        waiting = self._later.pop(row.key)[0]
        _supersede(waiting, row)
        waiting.attempts = row.attempts
        self.current[row.key] = waiting
        return waiting

    def remove_settled(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a settled row; return the next one of its key, to be sent now."""
        next_row = self._pop_current(row)
        if next_row is not None:
            next_row.has_predecessor = self._order is RowOrder.FIRST_WINS
        return next_row

    def remove_refused(self, row: QueuedRow) -> QueuedRow | None:
        """Forget a refused row; return the row of its key to send now, if any."""
        next_row = self._pop_current(row)
        superseded, row.superseded = row.superseded, []
        if next_row is not None:
            next_row.superseded[:0] = superseded
            next_row.has_predecessor = row.has_predecessor
        elif superseded:
            next_row = self.current[row.key] = superseded.pop()
            next_row.superseded = superseded
        return next_row

    def unmerge(self, row: QueuedRow) -> QueuedRow | None:
        """Send a row and those merged with it one after the other; return the first of them.

        None if no rows were merged.
        """
        if self._merger is None or not row.superseded:
            return None
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
        if self._merger is not None:
            self._merger.restore([each.handle for each in (*kept, latest)])
        return latest

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


def _supersede(later: QueuedRow, earlier: QueuedRow) -> None:
    # Hand the list over instead of copying it: a file may repeat one key thousands of times.
    chain = earlier.superseded
    # The row itself may refer to the later one: a reference cycle.
    chain.append(earlier.fresh_copy())
    chain.extend(later.superseded)
    later.superseded, earlier.superseded = chain, []
