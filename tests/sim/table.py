"""A table's capacity as DynamoDB's manual describes it, in virtual time.

Partitions are told apart by the hash of the partition key and give 1,000 write units a second
each. Up to 300 seconds of what is not used are kept for later, by each partition and by the
table. A partition that has been hot for minutes is split. On demand a table takes twice its
earlier peak, once that lies half an hour back; a provisioned table takes what is provisioned.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

PARTITION_WCU = 1000.0
BURST_SECONDS = 300.0
HOT_SHARE = 0.9
"""A partition is hot in a minute in which it used so much of its own rate."""
SPLIT_AFTER_MINUTES = 3
DOUBLE_AFTER_MINUTES = 30
_HASHES = 1 << 32


@dataclass(frozen=True)
class Capacity:
    """What a table is given."""

    partitions: int = 4
    on_demand: float = 4000.0
    """Units a second that a table on demand takes at first."""
    provisioned: float | None = None
    """Units a second of a provisioned table; None: on demand."""
    burst_seconds: float = BURST_SECONDS
    saved: float = 1.0
    """The share of the burst that has been saved up when the run begins."""
    splits: bool = True
    index_units: int = 0
    """Indexes that each row's write is billed to once more."""


class Bucket:
    """Units that flow in at a rate and are kept for so many seconds."""

    __slots__ = ("at", "ceiling", "rate", "units")

    def __init__(self, rate: float, burst_seconds: float, saved: float, now: float) -> None:
        self.rate = rate
        # Less than a second's worth would refuse a burst that no real table refuses.
        self.ceiling = rate * max(1.0, burst_seconds)
        self.units = self.ceiling * saved
        self.at = now

    def fill(self, now: float) -> None:
        self.units = min(self.ceiling, self.units + (now - self.at) * self.rate)
        self.at = now


@dataclass
class Partition:
    """A range of hashes: from `start` up to the next partition's."""

    start: int
    bucket: Bucket
    used: float = 0.0
    """In this minute."""
    hot_minutes: int = 0


@dataclass
class Usage:
    """What became of units, by whole seconds of virtual time."""

    accepted: list[float] = field(default_factory=list)
    returned: list[float] = field(default_factory=list)

    def add(self, second: int, accepted: float, returned: float) -> None:
        while len(self.accepted) <= second:
            self.accepted.append(0.0)
            self.returned.append(0.0)
        self.accepted[second] += accepted
        self.returned[second] += returned


class Table:
    """Says which rows of a request there is capacity for. Time must not run backwards."""

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
        self._of: dict[int, Partition] = {}

    def take(self, partition_keys: Sequence[int], units: Sequence[int], now: float) -> list[int]:
        """The places of the rows that there is no capacity for. The others have used theirs."""
        if now >= (self._minute + 1) * 60.0:
            self._minute_passed(now)
        times = 1 + self.capacity.index_units
        total, of = self.total, self._of
        total.fill(now)
        returned: list[int] = []
        accepted = refused = 0
        for place, key in enumerate(partition_keys):
            partition = of.get(key) or self.partition_of(key)
            bucket = partition.bucket
            if bucket.at != now:
                bucket.fill(now)
            row = units[place] * times
            # DynamoDB looks whether there is any capacity left, not whether there is enough.
            if bucket.units > 0 and total.units > 0:
                bucket.units -= row
                total.units -= row
                partition.used += row
                accepted += row
            else:
                returned.append(place)
                refused += row
        self.usage.add(int(now), accepted, refused)
        return returned

    def partition_of(self, key: int) -> Partition:
        place = self._hash(key)
        found = bisect.bisect_right(self.partitions, place, key=lambda each: each.start) - 1
        self._of[key] = self.partitions[found]
        return self.partitions[found]

    def lacks_for_key(self, key: int) -> bool:
        """Whether it is the key's partition that is used up, and not the table."""
        return self.partition_of(key).bucket.units <= 0 < self.total.units

    def _hash(self, key: int) -> int:
        mixed = (key + self._salt) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ mixed >> 31) >> 32

    def _bucket(self, rate: float, now: float = 0.0) -> Bucket:
        return Bucket(rate, self.capacity.burst_seconds, self.capacity.saved, now)

    def _minute_passed(self, now: float) -> None:
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
        place = self.partitions.index(partition)
        ends = [each.start for each in self.partitions[1:]] + [_HASHES]
        middle = (partition.start + ends[place]) // 2
        bucket = partition.bucket
        bucket.fill(now)
        half = Bucket(PARTITION_WCU, self.capacity.burst_seconds, 0.0, now)
        half.units = bucket.units = bucket.units / 2
        self.partitions.insert(place + 1, Partition(middle, half))
        partition.hot_minutes = 0
        self._of.clear()

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
