"""Slow each partition key that needs more than one partition gives. Pure.

A key is hot when its rows are returned again and again while rows of other keys pass. This is
inferred from the answers, because unprocessed items carry no reason; a throttling reason that
names a key range counts as well. The rows of a hot key then wait in a separate queue with a
separate rate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence

from ddbload.dynamodb import limits
from ddbload.write.pacing.adaptive_rate import PERIOD, AdaptiveRate
from ddbload.write.scheduler.key_ordering import QueuedRow, RowQueue

FIRST_RATE = 1000.0
"""Write units a second of one partition (DynamoDB developer guide, "Partitions")."""
SUSPICIOUS = 150
"""Returned units of a key from which on it may be hot."""
SHARE = 0.75
"""Returned share of a key's units, in requests whose other rows mostly passed."""
SLOWEST = 50.0
"""Lowest rate of a key, units a second. If even that is too much, the key is not the cause."""
RAISE = 0.03
"""Share by which a key's rate rises each second; steep, since all rows may wait for its rows."""
MOST = 4
"""Most hot keys at one time. If there were more, the keys would not be the cause."""
FORGOTTEN = 10 * PERIOD
"""Seconds without rows after which a key is no longer hot."""


def partition_key(key: Hashable) -> Hashable:
    """Return the partition key of a row's key: the first element of a tuple."""
    return key[0] if isinstance(key, tuple) else key


class _Hot:
    """A hot key: its rows that are ready, and its rate."""

    __slots__ = ("queue", "rate", "seen_at")

    def __init__(self, now: float) -> None:
        self.rate = AdaptiveRate(now, FIRST_RATE, SLOWEST, RAISE)
        self.queue = RowQueue()
        self.seen_at = now


class HotKeys:
    """Hot partition keys, and their rows that are ready to be sent."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self._batch_rows = batch_rows
        self.hot: dict[Hashable, _Hot] = {}
        # By key: units, returned units, time of the first and of the last return.
        self._suspects: dict[Hashable, tuple[int, int, float, float]] = {}
        self._since = -math.inf

    def any_of(self, keys: Iterable[Hashable]) -> bool:
        """Return whether any of these keys is hot."""
        hot = self.hot
        return bool(hot) and any(partition_key(key) in hot for key in keys)

    def queue_of(self, row: QueuedRow) -> RowQueue | None:
        """Return the queue of the row's hot key; None if the key is not hot."""
        hot = self.hot.get(partition_key(row.key))
        return None if hot is None else hot.queue

    def ready_at(self, now: float) -> float:
        """Compute when a row of a hot key may be sent; infinity if there is none."""
        return min(
            (hot.rate.ready_at(now) for hot in self.hot.values() if hot.queue), default=math.inf
        )

    def take(self, now: float, most_units: float) -> list[QueuedRow]:
        """Take the rows of hot keys that may be sent now, up to one request."""
        rows: list[QueuedRow] = []
        size = units = 0
        for hot in self.hot.values():
            queue, rate = hot.queue, hot.rate
            if not queue or rate.ready_at(now) > now:
                continue
            # A request may overdraw the rate once: requests of single rows would cost more.
            most = units + rate.request_units()
            while queue and len(rows) < self._batch_rows and units < most:
                row = queue.peek()
                size += row.bytes
                if rows and (size > limits.MAX_BATCH_BYTES or units >= most_units):
                    return rows
                units += row.units
                rate.pay(row.units)
                rows.append(row)
                queue.pop()
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
        """Learn from a request's answer; return the returned units that hot keys explain.

        `returned`: indexes of the rows that came back.
        """
        if not returned and not self.hot:
            return 0
        if now - self._since >= PERIOD:
            self._forget(now)
        all_units = all_back = explained = 0
        tallies: dict[Hashable, list[int]] = {}
        for place, row in enumerate(rows):
            tally = tallies.setdefault(partition_key(row.key), [0, 0])
            tally[0] += row.units
            all_units += row.units
            if place in returned:
                tally[1] += row.units
                all_back += row.units
        for key, (units, back) in tallies.items():
            hot = self.hot.get(key)
            if hot is not None:
                hot.seen_at = now
                if not hot.rate.slowest:
                    explained += back
                hot.rate.answered(units, back, sent_at, now)
            elif back:
                others, others_back = all_units - units, all_back - back
                if key_range or (others and 2 * others_back <= others):
                    self._suspect(key, units, back, now)
        return explained

    def _suspect(self, key: Hashable, units: int, back: int, now: float) -> None:
        units_before, back_before, since, _ = self._suspects.get(key, (0, 0, now, now))
        units, back = units_before + units, back_before + back
        self._suspects[key] = (units, back, since, now)
        # Neighbours in a sorted file are returned for a moment only.
        lasting = now - since >= PERIOD
        if lasting and back >= max(SUSPICIOUS, SHARE * units) and len(self.hot) < MOST:
            del self._suspects[key]
            self.hot[key] = _Hot(now)

    def _forget(self, now: float) -> None:
        self._since = now
        for key, (_, _, _, last) in list(self._suspects.items()):
            if now - last >= PERIOD:
                del self._suspects[key]
        for key, hot in list(self.hot.items()):
            if not hot.queue and now - hot.seen_at >= FORGOTTEN:
                del self.hot[key]
