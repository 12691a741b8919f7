"""Single rows that wait: which row of a key is sent, and when. Pure.

At most one row of a key is *current*: ready to send, in flight, or waiting to be sent again. While
it is in flight, a later row with its key waits; otherwise the later row replaces it, and the
earlier row is *superseded*. It is settled as superseded only once the later row is written: if
DynamoDB refuses the later row, the earlier one is sent after all.

Where each row counts (see `RowOrder`), rows are sent one after the other. Updates of one key are
merged into one, which does what they would do one after the other, unless it would be long or no
request can do the same.

A key is *hot* when its rows are returned again and again while rows of other keys pass. This is
inferred from the answers, because unprocessed items carry no reason; a throttling reason that names
a key range counts as well. The rows of a hot key wait in a separate queue with a separate rate.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ddbload.dynamodb import limits
from ddbload.dynamodb.modes import RowOrder
from ddbload.write.pacing.pacing import AdaptiveRate

MAX_MERGED_BYTES = 16 * 1024
"""Most bytes of JSON of rows that are merged into one: each merge takes time for all of them."""


@dataclass(slots=True, eq=False)
class QueuedRow:
    """Unsettled row, linked with the rows of its key that it replaces or that replace it."""

    handle: int
    key: Hashable
    units: int
    bytes: int
    """Bytes of the row's JSON."""
    alone: bool = False
    """The row shares no request with others."""
    attempts: int = 0
    """Attempts of the key: a row that replaces another inherits its back-off."""
    sent: bool = False
    in_flight: bool = False
    unmerged: bool = False
    """The row is sent by itself: the service refused it together with others of its key."""
    has_predecessor: bool = False
    """An earlier row of the key found or put an item before this one was sent."""
    successor: QueuedRow | None = None
    """The later row that replaces this one in a queue."""
    superseded: list[QueuedRow] = field(default_factory=list)
    """Copies of the earlier rows of the key that this one replaces, in order."""

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
        copied = self.handle, self.key, self.units, self.bytes, self.alone
        return QueuedRow(*copied, sent=self.sent, unmerged=self.unmerged)


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
        """Send a row and those merged with it one by one; return the first, None without others."""
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


SUSPECT_SECONDS = 1.0
"""Seconds that a key is returned before it may be hot: neighbors in a file are for a moment."""
SUSPECT_UNITS = 150
"""Returned units of a key from which on it may be hot."""
SUSPECT_SHARE = 0.75
"""Returned share of a key's units, in requests whose other rows mostly passed."""
MIN_KEY_RATE = 50.0
"""Lowest rate of a key, units a second. If even that is too much, the key is not the cause."""
MAX_HOT_KEYS = 4
"""Most hot keys at one time. If there were more, the keys would not be the cause."""
LEAST_FULL = 1 / 3
"""Least share of units taken to be for what is full."""
FORGET_SECONDS = 10.0
"""Seconds without rows after which a key is no longer hot."""


def partition_key(key: Hashable) -> Hashable:
    """Return the partition key of a row's key: the first element of a tuple."""
    return key[0] if isinstance(key, tuple) else key


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

    def pop(self) -> QueuedRow:
        """Remove the next row to send, and return it."""
        return heapq.heappop(self._rows)[1].newest()


def fill_request(
    rows: list[QueuedRow],
    queue: RowQueue,
    most_rows: int,
    max_units: float,
    most_of_queue: float = math.inf,
) -> bool:
    """Move rows from a queue to a request; return False once it takes no more.

    The last row may exceed `max_units`, and `most_of_queue`, the units from this queue: otherwise a
    row larger than that would never go.
    """
    size = sum(row.bytes for row in rows)
    units = sum(row.units for row in rows)
    max_total = units + most_of_queue
    while queue and len(rows) < most_rows and units < max_total:
        row = queue.peek()
        size += row.bytes
        is_full = size > limits.MAX_BATCH_BYTES or units >= max_units
        if rows and (is_full or row.alone or rows[0].alone):
            return False
        units += row.units
        rows.append(row)
        queue.pop()
    return True


@dataclass(slots=True)
class _HotKey:
    """A hot key: its rate, its rows that are ready, and when an answer last named it."""

    rate: AdaptiveRate
    seen_at: float
    queue: RowQueue = field(default_factory=RowQueue)


class HotKeys:
    """Hot partition keys, and their rows that are ready to be sent."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, _HotKey] = {}
        # By key: units, returned units, time of the first and of the last return.
        self._suspects: dict[Hashable, tuple[int, int, float, float]] = {}
        self._cleaned_at = -math.inf

    def any_hot(self, keys: Iterable[Hashable]) -> bool:
        """Return whether any of these keys is hot."""
        hot = self.by_key
        return bool(hot) and any(partition_key(key) in hot for key in keys)

    def ready_at(self, now: float) -> float:
        """Compute when a row of a hot key may be sent; infinity if no row waits."""
        return min(
            (hot.rate.ready_at(now) for hot in self.by_key.values() if hot.queue), default=math.inf
        )

    def take(self, now: float, max_units: float, most_rows: int) -> list[QueuedRow]:
        """Take the rows of hot keys that may be sent now, up to one request."""
        rows: list[QueuedRow] = []
        for hot in self.by_key.values():
            if not hot.queue or hot.rate.ready_at(now) > now:
                continue
            # A request may overdraw the rate once: requests of single rows would cost more.
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
    ) -> tuple[int, float]:
        """Learn from a request's answer.

        Return the returned units that no hot key explains, and the share of all units for what is
        full: those of keys that come back, now or lately. It is 1 if rows are sent again, and if no
        key came back before: any row may then be for what is full. `returned`: indexes.
        """
        if not returned and not self.by_key:
            return 0, 1.0
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
        full, share = {key for key, tally in tallies.items() if tally[1]}, 1.0
        known = tallies.keys() & self._suspects.keys()
        if known & full and all(row.attempts == 1 for row in rows):
            share = max(LEAST_FULL, sum(tallies[key][0] for key in known | full) / all_units)
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
        return all_returned - explained, share

    def _note_returned(self, key: Hashable, units: int, returned_units: int, now: float) -> None:
        units_before, returned_before, since, _ = self._suspects.get(key, (0, 0, now, now))
        units, returned_units = units_before + units, returned_before + returned_units
        self._suspects[key] = (units, returned_units, since, now)
        if (
            now - since >= SUSPECT_SECONDS
            and returned_units >= max(SUSPECT_UNITS, SUSPECT_SHARE * units)
            and len(self.by_key) < MAX_HOT_KEYS
        ):
            del self._suspects[key]
            most = limits.PARTITION_WRITE_UNITS
            rate = AdaptiveRate(now, most, MIN_KEY_RATE, most)
            self.by_key[key] = _HotKey(rate, now)

    def _forget(self, now: float) -> None:
        self._cleaned_at = now
        self._suspects = {
            key: seen for key, seen in self._suspects.items() if now - seen[3] < SUSPECT_SECONDS
        }
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
        """Count the rows that any request may carry."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """No row waits here, and no hot key would make one wait."""
        return not (
            self._ready or self._backing_off or self._split_requests or self._hot_keys.by_key
        )

    @property
    def any_alone(self) -> bool:
        """The next request carries a row that shares it with no others."""
        # Not the half of a batch that DynamoDB refused.
        split = self._split_requests
        return bool(split and split[0]) and split[0].peek().alone

    def keep_up_to(self, last: int, at: float) -> None:
        """Drop the rows beyond this one; none of the others backs off after the time `at`."""
        self._ready = self._ready.up_to(last)
        self._split_requests = deque(half.up_to(last) for half in self._split_requests)
        self._backing_off = [
            (min(until, at), handle, row)
            for until, handle, row in self._backing_off
            if row.newest().first_handle <= last
        ]
        heapq.heapify(self._backing_off)
        for hot in self._hot_keys.by_key.values():
            hot.queue = hot.queue.up_to(last)

    def push(self, row: QueuedRow) -> None:
        """Add a row that may be sent at once, or as soon as its hot key's rate allows."""
        hot = self._hot_keys.by_key.get(partition_key(row.key))
        (self._ready if hot is None else hot.queue).push(row)

    def push_backing_off(self, row: QueuedRow, at: float) -> None:
        """Add a row that may be sent from the time `at` on."""
        heapq.heappush(self._backing_off, (at, row.handle, row))

    def push_split(self, rows: Iterable[QueuedRow]) -> None:
        """Add rows that form separate requests, to find the one that DynamoDB refuses."""
        self._split_requests.append(RowQueue(rows))

    def take(
        self, now: float, max_units: float, most_rows: int, batch_handle: float
    ) -> list[QueuedRow]:
        """Take the rows of one request; none while a batch from `batch_handle` on waits longer."""
        rows: list[QueuedRow] = []
        while self._split_requests:
            half = self._split_requests[0]
            fill_request(rows, half, most_rows, max_units)
            if not half:
                self._split_requests.popleft()
            if rows:
                return rows
        while self._backing_off and self._backing_off[0][0] <= now:
            self.push(heapq.heappop(self._backing_off)[2].newest())
        rows = self._hot_keys.take(now, max_units, most_rows)
        if not rows and self._ready and self._ready.peek().first_handle < batch_handle:
            fill_request(rows, self._ready, most_rows, max_units)
        return rows

    def ready_at(self, now: float) -> float:
        """Compute when a row may be sent; infinity if no row waits."""
        if self._ready or self._split_requests:
            return now
        later = self._backing_off[0][0] if self._backing_off else math.inf
        return min(later, self._hot_keys.ready_at(now))
