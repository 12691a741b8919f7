"""Queue single rows that are ready, and slow down each hot partition key. Pure.

A key is hot if its rows are returned again and again while rows of other keys pass. This is
inferred from the answers, because unprocessed items carry no reason; a throttling reason that names
a key range counts as well. The rows of a hot key then wait in a separate queue with a separate
rate.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence

from ddbload.dynamodb import limits
from ddbload.write.pacing.pacing import AdaptiveRate
from ddbload.write.scheduler.key_ordering import QueuedRow

SUSPECT_SECONDS = 1.0
"""Seconds for which a key's rows are returned before it may be hot.

In a sorted file, neighboring keys are returned only for a moment.
"""
SUSPECT_UNITS = 150
"""Returned units of a key above which it may be hot."""
SUSPECT_SHARE = 0.75
"""Returned share of a key's units, in requests whose other rows mostly passed."""
MIN_KEY_RATE = 50.0
"""Lowest rate of a key in units per second. If even that is returned, the key is not the cause."""
MAX_HOT_KEYS = 4
"""Maximum number of hot keys. With more, single keys would not be the cause."""
FORGET_SECONDS = 10.0
"""Seconds without rows after which a key is no longer hot."""


def partition_key(key: Hashable) -> Hashable:
    """Return the partition key of a row's key: the first element of a tuple."""
    return key[0] if isinstance(key, tuple) else key


class RowQueue:
    """Queue of rows to send, the oldest first, because the frontier may depend on it."""

    def __init__(self, rows: Iterable[QueuedRow] = ()) -> None:
        self._rows = [(row.first_handle, row) for row in rows]
        heapq.heapify(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def up_to(self, last: int) -> RowQueue:
        """Return a queue of the rows up to this one."""
        return RowQueue(row for first, row in self._rows if first <= last)

    def push(self, row: QueuedRow) -> None:
        """Add a row. At most one other row replaces a row, so priorities are unique."""
        heapq.heappush(self._rows, (row.first_handle, row))

    def peek(self) -> QueuedRow:
        """Return the next row to send."""
        return self._rows[0][1].newest()

    def pop(self) -> None:
        """Remove the next row."""
        heapq.heappop(self._rows)


def fill_request(
    rows: list[QueuedRow],
    queue: RowQueue,
    most_rows: int,
    max_units: float,
    most_of_queue: float = math.inf,
) -> bool:
    """Move rows from a queue to a request; return false once the request is full.

    The last row may exceed `max_units`, and also `most_of_queue` (the maximum units from this
    queue). Otherwise a row larger than the maximum would never be sent.
    """
    size = sum(row.bytes for row in rows)
    units = sum(row.units for row in rows)
    max_total = units + most_of_queue
    while queue and len(rows) < most_rows and units < max_total:
        row = queue.peek()
        size += row.bytes
        if rows and (size > limits.MAX_BATCH_BYTES or units >= max_units):
            return False
        if rows and (row.alone or rows[0].alone):
            return False
        units += row.units
        rows.append(row)
        queue.pop()
    return True


class _HotKey:
    """Hot key with its ready rows and its rate."""

    __slots__ = ("queue", "rate", "seen_at")

    def __init__(self, now: float) -> None:
        self.rate = AdaptiveRate(now, limits.PARTITION_WRITE_UNITS, MIN_KEY_RATE)
        self.queue = RowQueue()
        self.seen_at = now


class HotKeys:
    """Hot partition keys, and their rows that are ready to be sent."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, _HotKey] = {}
        # By key: units, returned units, times of the first and the last return.
        self._suspects: dict[Hashable, tuple[int, int, float, float]] = {}
        self._cleaned_at = -math.inf

    def any_hot(self, keys: Iterable[Hashable]) -> bool:
        """Return whether any of these keys is hot."""
        hot = self.by_key
        return bool(hot) and any(partition_key(key) in hot for key in keys)

    def queue_of(self, row: QueuedRow) -> RowQueue | None:
        """Return the queue of the row's hot key; None if the key is not hot."""
        hot = self.by_key.get(partition_key(row.key))
        return None if hot is None else hot.queue

    def keep_up_to(self, last: int) -> None:
        """Drop the rows after this one."""
        for hot in self.by_key.values():
            hot.queue = hot.queue.up_to(last)

    def ready_at(self, now: float) -> float:
        """Return when a row of a hot key may be sent; infinity if no row waits."""
        return min(
            (hot.rate.ready_at(now) for hot in self.by_key.values() if hot.queue), default=math.inf
        )

    def take(self, now: float, max_units: float, most_rows: int) -> list[QueuedRow]:
        """Take the rows of hot keys that may be sent now, at most one request."""
        rows: list[QueuedRow] = []
        for hot in self.by_key.values():
            if not hot.queue or hot.rate.ready_at(now) > now:
                continue
            # A request may overdraw the rate once, because requests of single rows would cost more.
            before, most = len(rows), hot.rate.request_units()
            has_room = fill_request(rows, hot.queue, most_rows, max_units, most)
            hot.rate.charge(sum(row.units for row in rows[before:]))
            if not has_room:
                break
        return rows

    def answered(
        self,
        rows: Sequence[QueuedRow],
        returned: Collection[int],
        sent_at: float,
        now: float,
        *,
        key_range: bool = False,
    ) -> int:
        """Update the hot keys from a request's answer; return the returned units that they explain.

        `returned`: indexes of the returned rows.
        """
        if not returned and not self.by_key:
            return 0
        if now - self._cleaned_at >= SUSPECT_SECONDS:
            self._forget(now)
        all_units = all_returned = explained = 0
        tallies: dict[Hashable, list[int]] = {}
        for index, row in enumerate(rows):
            tally = tallies.setdefault(partition_key(row.key), [0, 0])
            tally[0] += row.units
            all_units += row.units
            if index in returned:
                tally[1] += row.units
                all_returned += row.units
        for key, (units, returned_units) in tallies.items():
            hot = self.by_key.get(key)
            if hot is not None:
                hot.seen_at = now
                if hot.rate.units_per_second > MIN_KEY_RATE:
                    explained += returned_units
                hot.rate.answered(units, returned_units, sent_at, now)
            elif returned_units:
                others, others_returned = all_units - units, all_returned - returned_units
                if key_range or (others and 2 * others_returned <= others):
                    self._note_returned(key, units, returned_units, now)
        return explained

    def _note_returned(self, key: Hashable, units: int, returned_units: int, now: float) -> None:
        units_before, returned_before, since, _ = self._suspects.get(key, (0, 0, now, now))
        units, returned_units = units_before + units, returned_before + returned_units
        self._suspects[key] = (units, returned_units, since, now)
        lasting = now - since >= SUSPECT_SECONDS
        if (
            lasting
            and returned_units >= max(SUSPECT_UNITS, SUSPECT_SHARE * units)
            and len(self.by_key) < MAX_HOT_KEYS
        ):
            del self._suspects[key]
            self.by_key[key] = _HotKey(now)

    def _forget(self, now: float) -> None:
        self._cleaned_at = now
        for key, (_, _, _, last) in list(self._suspects.items()):
            if now - last >= SUSPECT_SECONDS:
                del self._suspects[key]
        for key, hot in list(self.by_key.items()):
            if not hot.queue and now - hot.seen_at >= FORGET_SECONDS:
                del self.by_key[key]


class RetryQueues:
    """Queues of single rows, and the choice of the queue that fills the next request."""

    def __init__(self, hot_keys: HotKeys) -> None:
        self._hot_keys = hot_keys
        self._ready = RowQueue()
        self._backing_off: list[tuple[float, int, QueuedRow]] = []
        self._split_requests: deque[RowQueue] = deque()

    def __len__(self) -> int:
        """Return the number of rows that any request may carry."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """True if no row waits here, and no hot key would make one wait."""
        return not (
            self._ready or self._backing_off or self._split_requests or self._hot_keys.by_key
        )

    @property
    def any_alone(self) -> bool:
        """True if the next request carries a row that must be alone."""
        # Except for a half of a batch that DynamoDB refused.
        split = self._split_requests
        return bool(split and split[0]) and split[0].peek().alone

    def keep_up_to(self, last: int, at: float) -> None:
        """Drop the rows after this one; end the back-off of the others at the time `at`."""
        waiting = [self._ready, *self._split_requests]
        self._ready, *split = [queue.up_to(last) for queue in waiting]
        self._split_requests = deque(split)
        self._backing_off = [
            (min(until, at), handle, row)
            for until, handle, row in self._backing_off
            if row.newest().first_handle <= last
        ]
        heapq.heapify(self._backing_off)
        self._hot_keys.keep_up_to(last)

    def push(self, row: QueuedRow) -> None:
        """Add a row that may be sent at once."""
        self._ready.push(row)

    def push_backing_off(self, row: QueuedRow, at: float) -> None:
        """Add a row that may be sent from the time `at` on."""
        heapq.heappush(self._backing_off, (at, row.handle, row))

    def push_split(self, rows: Iterable[QueuedRow]) -> None:
        """Add rows that form separate requests, to find the one that DynamoDB refuses."""
        self._split_requests.append(RowQueue(rows))

    def take(
        self, now: float, max_units: float, most_rows: int, batch_handle: float
    ) -> list[QueuedRow]:
        """Take the rows of one request; none if a batch of unique keys has waited longer.

        `batch_handle`: first handle of that batch.
        """
        rows: list[QueuedRow] = []
        while self._split_requests:
            half = self._split_requests[0]
            fill_request(rows, half, most_rows, max_units)
            if not half:
                self._split_requests.popleft()
            if rows:
                return rows
        while self._backing_off and self._backing_off[0][0] <= now:
            self._ready.push(heapq.heappop(self._backing_off)[2].newest())
        if self._hot_keys.by_key:
            self._move_hot_rows()
            rows = self._hot_keys.take(now, max_units, most_rows)
            if rows:
                return rows
        if self._ready and self._ready.peek().first_handle < batch_handle:
            fill_request(rows, self._ready, most_rows, max_units)
        return rows

    def ready_at(self, now: float) -> float:
        """Return when a row may be sent; infinity if no row waits."""
        if self._ready or self._split_requests:
            return now
        later = self._backing_off[0][0] if self._backing_off else math.inf
        return min(later, self._hot_keys.ready_at(now))

    def _move_hot_rows(self) -> None:
        """Move rows of hot keys from the head of the ready queue to their keys' queues."""
        ready = self._ready
        kept: list[QueuedRow] = []
        while ready and len(kept) < limits.MAX_BATCH_ROWS:
            row = ready.peek()
            ready.pop()
            queue = self._hot_keys.queue_of(row)
            if queue is None:
                kept.append(row)
            else:
                queue.push(row)
        for row in kept:
            ready.push(row)
