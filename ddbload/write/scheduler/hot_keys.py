"""Partition keys that take more than one partition gives, each slowed by itself. Pure.

A key is hot when its rows come back again and again while those of others pass: by the answers
themselves, because returned items carry no reason, or sooner where DynamoDB names a key range.
Its rows then stand in a queue of their own, which flows at a rate of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence

from ddbload.dynamodb import limits
from ddbload.write.pacing.adaptive_rate import PERIOD, AdaptiveRate
from ddbload.write.scheduler.key_ordering import QueuedRow, RowQueue

FIRST_RATE = 1000.0
"""Units a second that one partition takes, as DynamoDB's manual has it."""
SUSPICIOUS = 150
"""Units of one key that came back within a period."""
SHARE = 0.75
"""The share of its units that came back, in requests of which most of the others passed."""
SLOWEST = 50.0
"""Units a second that a key is tried with. Where that is too much, it is not for the key."""
RAISE = 0.03
"""By which share a key's rate rises in a second. All others may have to wait for its rows."""
MOST = 4
"""Hot keys at a time. If there are more, it is not for the keys."""
FORGOTTEN = 10 * PERIOD


def partition_key(key: Hashable) -> Hashable:
    """The partition key of a row's key: the first of a tuple."""
    return key[0] if isinstance(key, tuple) else key


class _Hot:
    """One key."""

    __slots__ = ("queue", "rate", "seen_at")

    def __init__(self, now: float) -> None:
        self.rate = AdaptiveRate(now, FIRST_RATE, SLOWEST, RAISE)
        self.queue = RowQueue()
        self.seen_at = now


class HotKeys:
    """The keys that are hot now, and their rows that are ready to go."""

    def __init__(self, batch_rows: int = limits.MAX_BATCH_ROWS) -> None:
        self._batch_rows = batch_rows
        self.hot: dict[Hashable, _Hot] = {}
        # Of each key that came back lately: units, those that came back, and since when.
        self._suspects: dict[Hashable, tuple[int, int, float, float]] = {}
        self._since = -math.inf

    def any_of(self, keys: Iterable[Hashable]) -> bool:
        """Whether there is a hot one among these rows' keys."""
        hot = self.hot
        return bool(hot) and any(partition_key(key) in hot for key in keys)

    def queue_of(self, row: QueuedRow) -> RowQueue | None:
        """Where to put a row that is ready; None: nowhere special."""
        hot = self.hot.get(partition_key(row.key))
        return None if hot is None else hot.queue

    def ready_at(self, now: float) -> float:
        """When a row of a hot key may go; infinity: there is none."""
        return min(
            (hot.rate.ready_at(now) for hot in self.hot.values() if hot.queue), default=math.inf
        )

    def take(self, now: float, most_units: float) -> list[QueuedRow]:
        """Rows that may go now, as many as one request may carry."""
        rows: list[QueuedRow] = []
        size = units = 0
        for hot in self.hot.values():
            queue, rate = hot.queue, hot.rate
            if not queue or rate.ready_at(now) > now:
                continue
            # It may go into debt for one request, as everybody may: single rows would cost more.
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
        """Rows at these places of a request came back; units of them that hot keys explain."""
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
        # Neighbours in a sorted file come back for a moment, and are done.
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
