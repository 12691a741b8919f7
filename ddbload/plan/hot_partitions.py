"""Find partition keys with many rows, and measure the order of rows by partition key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CAPACITY = 4096
"""Partition keys that `HeavyHitters` counts."""
FEW_ROWS = 1000
"""Rows below which no partition key counts as hot."""
HOT_SHARE = 0.05
"""Share of the rows above which a partition key counts as hot."""


@dataclass(frozen=True, slots=True)
class HotPartition:
    """Partition key with the most rows."""

    key: Hashable
    rows: int
    share: float
    """Share of all rows, at most `error` too small."""
    error: float


class HeavyHitters:
    """Counter of the most frequent partition keys, in bounded memory.

    This is the summary of Misra and Gries in the mergeable form of Agarwal et al. (2012): a count
    is at most `rows / capacity` too small.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.rows = 0
        self._capacity = capacity
        self._counts: Counter[Hashable] = Counter()
        self._deficit = 0

    def add(self, counted: Counter[Hashable]) -> None:
        """Add the counts of a block."""
        self.rows += counted.total()
        self._counts.update(counted)
        self._bound()

    def merge(self, other: HeavyHitters) -> None:
        """Add what another counter has counted."""
        self.rows += other.rows
        self._deficit += other._deficit
        self._counts.update(other._counts)
        self._bound()

    def _bound(self) -> None:
        if len(self._counts) > 2 * self._capacity:
            kept = self._counts.most_common(self._capacity + 1)
            less = kept.pop()[1]
            self._deficit += less
            self._counts = Counter({key: count - less for key, count in kept if count > less})

    @property
    def distinct(self) -> int | None:
        """Number of distinct partition keys; None if there are too many to count."""
        return None if self._deficit else len(self._counts)

    def hottest(self) -> HotPartition | None:
        """Return the partition key with the most rows; None if all are rare."""
        if not self._counts:
            return None
        ((key, count),) = self._counts.most_common(1)
        return HotPartition(key, count, count / self.rows, self._deficit / self.rows)

    @property
    def hot_share(self) -> float:
        """Share of the hottest partition key if it counts as hot, else 0."""
        hottest = self.hottest()
        if hottest is None or self.rows < FEW_ROWS or hottest.share <= HOT_SHARE:
            return 0.0
        return hottest.share


class KeyOrder:
    """Order of the rows by partition key: sorted or not, and adjacent rows of the same key."""

    def __init__(self) -> None:
        self.pairs = self.rising = self.falling = self.equal = 0
        self._first: list[Any] = []
        self._last: list[Any] = []

    def add(self, keys: Sequence[Any]) -> None:
        """Add the partition keys of a block, strings or numbers, in the order of the file."""
        if not keys:
            return
        if not self._first:
            self._first = [keys[0]]
        chain = [*self._last, *keys]
        equal = rising = 0
        for one, other in pairwise(chain):
            if one == other:
                equal += 1
            elif one < other:
                rising += 1
        self.pairs += len(chain) - 1
        self.equal += equal
        self.rising += rising
        self.falling += len(chain) - 1 - equal - rising
        self._last = [keys[-1]]

    def merge(self, other: KeyOrder) -> None:
        """Add what was found in the rows that follow."""
        last = other._last
        # The pair of the last row here and the first one there.
        self.add(other._first)
        self.pairs += other.pairs
        self.rising += other.rising
        self.falling += other.falling
        self.equal += other.equal
        self._last = last or self._last

    @property
    def sorted(self) -> str:
        """`ascending`, `descending`, `mostly ascending`, `mostly descending`, or `no`."""
        moves = self.rising + self.falling
        if not moves:
            return "no"
        for name, count in (("ascending", self.rising), ("descending", self.falling)):
            if count == moves:
                return name
            if count >= 0.9 * moves:
                return f"mostly {name}"
        return "no"

    @property
    def adjacent_share(self) -> float:
        """Share of rows that have the partition key of the row before."""
        return self.equal / self.pairs if self.pairs else 0.0
