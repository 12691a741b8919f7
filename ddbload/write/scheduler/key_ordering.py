"""Rows of equal keys: which of them is under way, and which stands in for which. Pure.

Of one key at most one row is *current*: ready to go, sent and not answered, or waiting to be
sent again. A later row with that key waits while the current one is sent, or takes its place,
and the earlier one is then *superseded*. It is settled as such only when the later one is
written: should DynamoDB refuse that, the earlier one is sent after all.

Where the first row of a key is to win, none takes another's place (`FirstWins`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable


class QueuedRow:
    """A row that is known and not settled."""

    __slots__ = (
        "attempts",
        "bytes",
        "flying",
        "handle",
        "key",
        "older",
        "preceded",
        "sent",
        "successor",
        "units",
    )

    def __init__(self, handle: int, key: Hashable, units: int, wire_bytes: int) -> None:
        self.handle = handle
        self.key = key
        self.bytes = wire_bytes
        self.units = units
        # Of the key: a row that takes another's place takes its back-off as well.
        self.attempts = 0
        self.sent = False
        self.flying = False
        # Whether an earlier row of the key found or put an item there before this one was sent.
        self.preceded = False
        # The later row that goes in this one's place in a queue.
        self.successor: QueuedRow | None = None
        # Earlier rows of the same key that this one stands in for, in order.
        self.older: list[QueuedRow] = []

    def newest(self) -> QueuedRow:
        """The row that goes in this one's place: itself, as long as none came later."""
        row = self
        while row.successor is not None:
            row = row.successor
        return row

    @property
    def first(self) -> int:
        """The handle of the first row that waits for this one to be written."""
        return self.older[0].handle if self.older else self.handle

    def again(self) -> QueuedRow:
        """The same row anew, to be sent after one that stood in for it."""
        row = QueuedRow(self.handle, self.key, self.units, self.bytes)
        row.sent = self.sent
        return row


class RowQueue:
    """Rows to be sent, what waits longest first: it may be what all progress waits for."""

    def __init__(self, rows: Iterable[QueuedRow] = ()) -> None:
        self._rows = [(row.first, row) for row in rows]
        heapq.heapify(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def push(self, row: QueuedRow) -> None:
        """Add a row. No two wait for the same one."""
        heapq.heappush(self._rows, (row.first, row))

    def peek(self) -> QueuedRow:
        """The row that goes next."""
        return self._rows[0][1].newest()

    def pop(self) -> None:
        """Take that row out."""
        heapq.heappop(self._rows)


class KeyOrdering:
    """The current row of each key, and the one that waits for it."""

    def __init__(self) -> None:
        self.current: dict[Hashable, QueuedRow] = {}
        self._next: dict[Hashable, QueuedRow] = {}

    def add(self, row: QueuedRow) -> bool:
        """Take the latest row; whether it is to be queued, having no earlier one's place."""
        current = self.current.get(row.key)
        if current is None:
            self.current[row.key] = row
            return True
        if current.flying:
            waiting = self._next.get(row.key)
            if waiting is not None:
                _stand_in(row, waiting)
            self._next[row.key] = row
        else:
            # In its place in the queue, and with its back-off: were the later row sent last, the
            # earlier one would hold the frontier until then.
            current.successor = row
            _stand_in(row, current)
            self.current[row.key] = row
            row.attempts = current.attempts
        return False

    def to_send(self, row: QueuedRow) -> QueuedRow:
        """The row to send where this one came back: the one that waits for it, if any."""
        waiting = self._next.pop(row.key, None)
        if waiting is None:
            return row
        _stand_in(waiting, row)
        waiting.attempts = row.attempts
        self.current[row.key] = waiting
        return waiting

    def done(self, row: QueuedRow) -> QueuedRow | None:
        """Let go of a row that was taken; the one that waited for it, to be sent now."""
        waiting = self._next.pop(row.key, None)
        if waiting is None:
            del self.current[row.key]
        else:
            self.current[row.key] = waiting
        return waiting

    def refused(self, row: QueuedRow) -> QueuedRow | None:
        """Let go of a row that DynamoDB refused; the one to be sent now in its stead."""
        heir = self._next.pop(row.key, None)
        del self.current[row.key]
        older, row.older = row.older, []
        if heir is not None:
            heir.older[:0] = older
        elif older:
            # A new object: the old one has a successor.
            heir = older.pop().again()
            heir.older = older
        if heir is not None:
            self.current[heir.key] = heir
        return heir


class FirstWins:
    """The same where rows of a key go one after the other, in order, each on its own account."""

    def __init__(self) -> None:
        self.current: dict[Hashable, QueuedRow] = {}
        self._later: dict[Hashable, deque[QueuedRow]] = {}

    def add(self, row: QueuedRow) -> bool:
        """Take the latest row; whether it is to be queued, there being no earlier one."""
        if row.key not in self.current:
            self.current[row.key] = row
            return True
        self._later.setdefault(row.key, deque()).append(row)
        return False

    def to_send(self, row: QueuedRow) -> QueuedRow:
        """The row to send where this one came back: itself."""
        return row

    def done(self, row: QueuedRow) -> QueuedRow | None:
        """Let go of a row that is settled; the next one of its key, to be sent now."""
        heir = self._next(row)
        if heir is not None:
            heir.preceded = True
        return heir

    def refused(self, row: QueuedRow) -> QueuedRow | None:
        """Let go of a row that DynamoDB refused; the next one of its key, to be sent now."""
        heir = self._next(row)
        if heir is not None:
            heir.preceded = row.preceded
        return heir

    def _next(self, row: QueuedRow) -> QueuedRow | None:
        later = self._later.get(row.key)
        if later is None:
            del self.current[row.key]
            return None
        heir = self.current[row.key] = later.popleft()
        if not later:
            del self._later[row.key]
        return heir


def _stand_in(later: QueuedRow, earlier: QueuedRow) -> None:
    # The list is handed on, not copied: a file may hold one key thousands of times.
    chain = earlier.older
    chain.append(earlier)
    chain.extend(later.older)
    later.older, earlier.older = chain, []
