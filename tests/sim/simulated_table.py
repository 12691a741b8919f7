"""A table's write capacity as the DynamoDB developer guide describes it, in virtual time.

The hash of a partition key selects a partition, and each partition takes 1,000 write units a
second. Partitions and tables save up to 300 seconds of unused capacity as burst capacity. A
partition that stays hot for minutes is split. An on-demand table takes twice its peak of more than
30 minutes ago; a provisioned table takes its provisioned units.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

PARTITION_WCU = 1000.0
BURST_SECONDS = 300.0
HOT_SHARE = 0.9
"""Share of a partition's rate that makes it hot when used for a minute."""
SPLIT_AFTER_MINUTES = 3
DOUBLE_AFTER_MINUTES = 30
_HASHES = 1 << 32


@dataclass(frozen=True)
class Capacity:
    """Capacity settings of a table."""

    partitions: int = 4
    on_demand: float = 4000.0
    """Units a second that an on-demand table takes at first."""
    provisioned: float | None = None
    """Units a second of a provisioned table; None for an on-demand table."""
    burst_seconds: float = BURST_SECONDS
    saved: float = 1.0
    """Share of the burst capacity that is saved up when the run begins."""
    splits: bool = True
    index_units: int = 0
    """Indexes; each adds the units of a row's write once more."""


class CapacityBucket:
    """Units that are refilled at a rate, up to the burst capacity of some seconds."""

    __slots__ = ("at", "ceiling", "rate", "units")

    def __init__(self, rate: float, burst_seconds: float, saved: float, now: float) -> None:
        self.rate = rate
        # At least one second: no real table returns the first requests of a second.
        self.ceiling = rate * max(1.0, burst_seconds)
        self.units = self.ceiling * saved
        self.at = now

    def fill(self, now: float) -> None:
        self.units = min(self.ceiling, self.units + (now - self.at) * self.rate)
        self.at = now


@dataclass
class Partition:
    """Range of key hashes, from `start` to the start of the next partition."""

    start: int
    bucket: CapacityBucket
    used: float = 0.0
    """Units written in the current minute."""
    hot_minutes: int = 0


@dataclass
class Usage:
    """Accepted and returned units, by second of virtual time."""

    accepted: list[float] = field(default_factory=list)
    returned: list[float] = field(default_factory=list)

    def add(self, second: int, accepted: float, returned: float) -> None:
        while len(self.accepted) <= second:
            self.accepted.append(0.0)
            self.returned.append(0.0)
        self.accepted[second] += accepted
        self.returned[second] += returned


class SimulatedTable:
    """Decides which rows of a request there is capacity for. Calls must be in order of time."""

    def __init__(self, capacity: Capacity | None = None, salt: int = 0) -> None:
        self.capacity = capacity = capacity or Capacity()
        self.usage = Usage()
        self._salt = salt
        self.partitions = [
            Partition(_HASHES * place // capacity.partitions, self._bucket(PARTITION_WCU))
            for place in range(capacity.partitions)
        ]
        self.total = self._bucket(capacity.provisioned or capacity.on_demand)
        self._minute = 0
        self._minutes: list[float] = []
        self._partition_by_key: dict[int, Partition] = {}

    def take(self, partition_keys: Sequence[int], units: Sequence[int], now: float) -> list[int]:
        """Consume capacity for rows; return the indexes of rows without capacity."""
        if now >= (self._minute + 1) * 60.0:
            self._end_minute(now)
        times = 1 + self.capacity.index_units
        total, partitions = self.total, self._partition_by_key
        total.fill(now)
        returned: list[int] = []
        accepted = refused = 0
        for index, key in enumerate(partition_keys):
            partition = partitions.get(key) or self.partition_of(key)
            bucket = partition.bucket
            if bucket.at != now:
                bucket.fill(now)
            row = units[index] * times
            # DynamoDB checks that any capacity is left, not that it suffices for the row.
            if bucket.units > 0 and total.units > 0:
                bucket.units -= row
                total.units -= row
                partition.used += row
                accepted += row
            else:
                returned.append(index)
                refused += row
        self.usage.add(int(now), accepted, refused)
        return returned

    def partition_of(self, key: int) -> Partition:
        key_hash = self._hash(key)
        found = bisect.bisect_right(self.partitions, key_hash, key=lambda each: each.start) - 1
        self._partition_by_key[key] = self.partitions[found]
        return self.partitions[found]

    def lacks_for_key(self, key: int) -> bool:
        """Return whether the key's partition has no capacity left although the table has."""
        return self.partition_of(key).bucket.units <= 0 < self.total.units

    def _hash(self, key: int) -> int:
        mixed = (key + self._salt) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ mixed >> 31) >> 32

    def _bucket(self, rate: float, now: float = 0.0) -> CapacityBucket:
        return CapacityBucket(rate, self.capacity.burst_seconds, self.capacity.saved, now)

    def _end_minute(self, now: float) -> None:
        passed = int(now // 60.0) - self._minute
        self._minute += passed
        self._minutes.append(sum(partition.used for partition in self.partitions) / 60.0)
        self._minutes.extend([0.0] * (passed - 1))
        for partition in list(self.partitions):
            hot = partition.used >= HOT_SHARE * PARTITION_WCU * 60.0
            partition.hot_minutes = partition.hot_minutes + 1 if hot and passed == 1 else 0
            partition.used = 0.0
            if partition.hot_minutes >= SPLIT_AFTER_MINUTES and self.capacity.splits:
                self._split(partition, now)
        if self.capacity.provisioned is None:
            self._double(now)

    def _split(self, partition: Partition, now: float) -> None:
        index = self.partitions.index(partition)
        ends = [each.start for each in self.partitions[1:]] + [_HASHES]
        middle = (partition.start + ends[index]) // 2
        bucket = partition.bucket
        bucket.fill(now)
        half = CapacityBucket(PARTITION_WCU, self.capacity.burst_seconds, 0.0, now)
        half.units = bucket.units = bucket.units / 2
        self.partitions.insert(index + 1, Partition(middle, half))
        partition.hot_minutes = 0
        self._partition_by_key.clear()

    def _double(self, now: float) -> None:
        before = self._minutes[: max(0, len(self._minutes) - DOUBLE_AFTER_MINUTES)]
        peak = 2 * max(before, default=0.0)
        total = self.total
        if peak <= total.rate:
            return
        total.fill(now)
        total.rate = peak
        total.ceiling = peak * max(1.0, self.capacity.burst_seconds)
        while len(self.partitions) * PARTITION_WCU < peak:
            ends = [each.start for each in self.partitions[1:]] + [_HASHES]
            widest = max(
                zip(self.partitions, ends, strict=True), key=lambda each: each[1] - each[0].start
            )
            self._split(widest[0], now)
