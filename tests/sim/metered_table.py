"""A second model of a table's write capacity, in virtual time, which shares nothing with the first.

`simulated_table` keeps buckets that are refilled continuously. This table counts units by the
whole second, saves burst capacity for the table, lends a partition what others leave, splits hot
partitions and doubles an on-demand limit that is driven. Each rule quotes what AWS says about it;
where AWS gives no figure, the setting's docstring says that it is assumed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

PARTITION_UNITS = 1000.0
"""Developer Guide, "DynamoDB burst and adaptive capacity": "Because read and write operations on a
partition are managed independently, throttling will occur if a single partition receives more than
3000 read operation or more than 1000 write operations."
"""
SAVED_SECONDS = 300.0
"""The same page: "DynamoDB currently retains up to five minutes (300 seconds) of unused read and
write capacity."
"""
NEW_ON_DEMAND = 4000.0
"""Developer Guide, "Pre-warming a table for on-demand capacity mode": "New on-demand tables will be
able to sustain up to 4,000 writes per second and 12,000 reads per second."
"""


@dataclass(frozen=True)
class Rules:
    """Settings of a metered table."""

    index_units = 0
    """Units of indexes: this model has none."""
    limit: float = NEW_ON_DEMAND
    """Units a second of the whole table."""
    partitions: int = 4
    saved_seconds: float = 0.0
    """Seconds of unused capacity that the table may save; it begins with all of them.

    "Burst capacity is provided on a best effort's basis and isn't guaranteed." (re:Post, "How does
    DynamoDB handle spiky workloads in short intervals?"), so a table may have none.
    """
    partition_burst: bool = False
    """Lend saved capacity to partitions too, beyond 1,000 units a second.

    "Burst capacity can't alleviate partition-level throttling." (the same page), so it is off.
    """
    adaptive: bool = True
    """Lend a partition of a provisioned table what others leave.

    "Adaptive capacity works by automatically increasing throughput capacity for partitions that
    receive more traffic." (Developer Guide, "DynamoDB burst and adaptive capacity")
    """
    doubles_after: float | None = None
    """Seconds of use near the limit after which it doubles; None: never.

    "If a workload's traffic level hits a new peak, DynamoDB adapts rapidly to accommodate the
    workload." (Developer Guide, "DynamoDB on-demand capacity mode"). "However, throttling can still
    occur if the throughput exceeds twice the previous peak within the same 30 minutes."
    ("Pre-warming a table for on-demand capacity mode"). How rapidly is not said: assumed.
    """
    splits_after: float | None = None
    """Seconds of heat after which a partition is split; None: never.

    "A table might add partitions for many reasons, such as when: [...] A partition receives read or
    write traffic near its throughput capacity limit." (AWS Database Blog, "Scaling DynamoDB: How
    partitions, hot keys, and split for heat impact performance", part 3). The time is assumed.
    """
    near: float = 0.9
    """Share of a limit from which its use is near it: assumed."""


@dataclass(slots=True)
class Meter:
    """Units of the present second, and how long the use was near the limit."""

    used: float = 0.0
    refused: bool = False
    near_seconds: int = 0

    def near_after(self, limit: float, near: float) -> int:
        """End a second; return for how many in a row the use was near the limit."""
        self.near_seconds = self.near_seconds + 1 if self.used >= near * limit else 0
        self.used, self.refused = 0.0, False
        return self.near_seconds


@dataclass
class Tally:
    """Accepted and returned units, by second of virtual time."""

    accepted: list[float] = field(default_factory=list)
    returned: list[float] = field(default_factory=list)

    def count(self, second: int, accepted: float, returned: float) -> None:
        missing = second + 1 - len(self.accepted)
        self.accepted += [0.0] * missing
        self.returned += [0.0] * missing
        self.accepted[second] += accepted
        self.returned[second] += returned


class MeteredTable:
    """Takes rows until a second's units are used. Calls must be in order of time."""

    def __init__(self, rules: Rules | None = None, salt: int = 0) -> None:
        self.capacity = self.rules = rules or Rules()
        self.limit = self.rules.limit
        self.usage = Tally()
        self._salt = salt
        self._second = 0
        self._saved = self.limit * self.rules.saved_seconds
        count = self.rules.partitions
        self._ends = [(place + 1) / count for place in range(count)]
        self._partitions = [Meter() for _ in range(count)]
        self._table = Meter()
        self._places: dict[int, float] = {}

    def take(self, partition_keys: Sequence[int], units: Sequence[int], now: float) -> list[int]:
        """Consume capacity for rows; return the indexes of rows without capacity."""
        while self._second < int(now):
            self._end_second()
        table, share = self._table, self._partition_limit
        # "It accesses a partition that has reached its limits during that second." (AWS Database
        # Blog, part 3, of requests that receive a throughput-exceeded exception)
        room = self.limit + self._saved
        lent = self._saved if self.rules.partition_burst else 0.0
        returned = []
        accepted = refused = 0
        for index, key in enumerate(partition_keys):
            partition = self._partitions[self._place(key)]
            if partition.used < share + lent and table.used < room:
                partition.used += units[index]
                table.used += units[index]
                accepted += units[index]
            else:
                partition.refused = True
                returned.append(index)
                refused += units[index]
        self.usage.count(int(now), accepted, refused)
        return returned

    def lacks_for_key(self, key: int) -> bool:
        """Return whether the key's partition has no capacity left although the table has."""
        return (
            self._partitions[self._place(key)].used >= self._partition_limit
            and self._table.used < self.limit + self._saved
        )

    @property
    def _partition_limit(self) -> float:
        share = self.limit / len(self._partitions)
        # "[...] provided that traffic does not exceed your table's total provisioned capacity or
        # the partition maximum capacity." (Developer Guide, "DynamoDB burst and adaptive capacity")
        return PARTITION_UNITS if self.rules.adaptive else min(PARTITION_UNITS, share)

    def _place(self, key: int) -> int:
        place = self._places.get(key)
        if place is None:
            text = f"{key}/{self._salt}".encode()
            place = self._places[key] = crc32(text) / 2**32
        return bisect_left(self._ends, place)

    def _end_second(self) -> None:
        self._second += 1
        rules, table = self.rules, self._table
        ceiling = self.limit * min(rules.saved_seconds, SAVED_SECONDS)
        self._saved = max(0.0, min(ceiling, self._saved + self.limit - table.used))
        share = self._partition_limit
        near = [each.near_after(share, rules.near) for each in self._partitions]
        if rules.splits_after is not None:
            for place in range(len(near) - 1, -1, -1):
                if near[place] >= rules.splits_after:
                    self._split(place)
        if table.near_after(self.limit, rules.near) >= (rules.doubles_after or float("inf")):
            self._double()

    def _split(self, place: int) -> None:
        start = self._ends[place - 1] if place else 0.0
        self._ends.insert(place, (start + self._ends[place]) / 2)
        self._partitions[place : place + 1] = [Meter(), Meter()]

    def _double(self) -> None:
        self.limit *= 2
        self._table = Meter()
        while len(self._partitions) * PARTITION_UNITS < self.limit:
            starts = [0.0, *self._ends]
            widths = [end - start for start, end in zip(starts, self._ends, strict=False)]
            self._split(widths.index(max(widths)))
