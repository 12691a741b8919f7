"""Order rows that have the same key. Pure.

At most one row of a key is *current*: ready to send, in flight, or waiting to be sent again. While
the current row is in flight, a later row with its key waits; otherwise the later row replaces it,
and the earlier row is *superseded*. It is settled as superseded only once the later row is written:
if DynamoDB refuses the later row, the earlier one is sent after all.

In mode `insert` the first row of a key wins, and each conditional write counts. So no row replaces
another in these modes: they are sent one after the other.

Updates of one key are merged into one with the same effect; the earlier rows are then superseded.
If no single request has the same effect, or the rows are long, they are sent one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Protocol

MAX_MERGED_BYTES = 16 * 1024
"""Maximum bytes of JSON of rows that are merged into one.

Each merge takes time proportional to all of them, for example to unite sets to add.
"""


class RowOrder(Enum):
    """Order in which rows with equal keys are written."""

    LAST_WINS = "last wins"
    """A later row may replace an earlier one that is not written yet."""
    FIRST_WINS = "first wins"
    """One after the other; only the first one can be written."""
    ALL = "all"
    """One after the other; each may be written."""


class QueuedRow:
    """Unsettled row, linked with the rows of its key that it replaces or that replace it."""

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
        # The row must be alone in its request.
        self.alone = False
        # Number of attempts. A row that replaces another inherits its back-off.
        self.attempts = 0
        self.sent = False
        self.in_flight = False
        # The row is sent separately, because DynamoDB refused it merged with others of its key.
        self.unmerged = False
        # An earlier row of the key found or put an item before this one was sent.
        self.has_predecessor = False
        # Later row that replaces this one in a queue.
        self.successor: QueuedRow | None = None
        # Copies of the key's earlier rows that this one replaces, in order.
        self.superseded: list[QueuedRow] = []

    def newest(self) -> QueuedRow:
        """Return the row that is sent in place of this one, following all replacements."""
        row = self
        while row.successor is not None:
            row = row.successor
        return row

    @property
    def first_handle(self) -> int:
        """Handle of the first row that is settled when this one is written."""
        return self.superseded[0].handle if self.superseded else self.handle

    def fresh_copy(self) -> QueuedRow:
        """Copy the row without its replacement, to send it if the replacement is refused."""
        row = QueuedRow(self.handle, self.key, self.units, self.bytes)
        row.sent = self.sent
        row.alone = self.alone
        row.unmerged = self.unmerged
        return row


class KeyOrdering:
    """Current row of each key, and the later rows that wait for its answer, in order."""

    def __init__(self, order: RowOrder, merger: RowMerger | None = None) -> None:
        """`merger`: merges rows of a key that would otherwise be sent one after the other."""
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
            # The later row inherits queue position and back-off: if it were sent last, the earlier
            # one would hold back the frontier until then.
            last.successor = self.current[row.key] = row
            row.attempts = last.attempts
        return False

    def _replaces(self, row: QueuedRow, last: QueuedRow) -> bool:
        """Return whether a row is sent in place of its key's last one; merge them if needed."""
        if self._merger is None or last.unmerged:
            return self._latest_only
        merged_bytes = sum(each.bytes for each in (*last.superseded, last, row))
        if merged_bytes > MAX_MERGED_BYTES or not self._merger.merge(last.handle, row.handle):
            return False
        row.units = max(row.units, last.units)
        return True

    def row_to_retry(self, row: QueuedRow) -> QueuedRow:
        """Return the row to send after this one was returned: the latest one that replaces it."""
        if not self._latest_only or row.key not in self._later:
            return row
        waiting = self._later.pop(row.key)[0]
        _supersede(waiting, row)
        waiting.attempts = row.attempts
        self.current[row.key] = waiting
        return waiting

    def remove_settled(self, row: QueuedRow) -> QueuedRow | None:
        """Remove a settled row; return the next row of its key, to be sent now."""
        next_row = self._pop_current(row)
        if next_row is not None:
            next_row.has_predecessor = self._order is RowOrder.FIRST_WINS
        return next_row

    def remove_refused(self, row: QueuedRow) -> QueuedRow | None:
        """Remove a refused row; return the row of its key to send now, if any."""
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
        """Split a merged row into its rows, to be sent one after the other; return the first.

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
        """Limit the rows of each key to those up to this one. Nothing may be in flight."""
        for key, row in list(self.current.items()):
            self.current[key] = self._latest_up_to(last, row)
        for rows in self._later.values():
            rows.extend([self._latest_up_to(last, rows.popleft()) for _ in range(len(rows))])

    def _latest_up_to(self, last: int, row: QueuedRow) -> QueuedRow:
        """Return the latest row up to `last` among a row and those that it replaces.

        If there is none, the row is returned unchanged; it will not be sent.
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
    """Merger of rows, which knows their content."""

    def merge(self, earlier: int, later: int) -> bool:
        """Merge the row `earlier` into `later`, which is sent for both from now on.

        Returns false, and changes nothing, if no single request has the effect of both.
        """

    def restore(self, handles: Sequence[int]) -> None:
        """Merge only the rows with these handles, into the last of them."""


def _supersede(later: QueuedRow, earlier: QueuedRow) -> None:
    # Hand over the list instead of copying it: a file may repeat one key thousands of times.
    chain = earlier.superseded
    # Avoid a reference cycle, because the row itself may refer to the later one.
    chain.append(earlier.fresh_copy())
    chain.extend(later.superseded)
    later.superseded, earlier.superseded = chain, []
