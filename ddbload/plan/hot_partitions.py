"""Which partition keys take most of the writes, and whether rows of one stand together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CAPACITY = 4096
FEW_ROWS = 1000
"""With fewer rows nothing gets hot."""
SHARE = 0.05
"""A partition key with more of the rows than this stands out."""


@dataclass(frozen=True, slots=True)
class HotPartition:
    """The partition key with the most rows."""

    key: Hashable
    rows: int
    share: float
    """Of all rows; of the truth it is short by `error` at most."""
    error: float


class HeavyHitters:
    """Counts partition keys by weight; with many of them, only the frequent ones survive.

    Misra and Gries' summary, in the mergeable form of Agarwal and others (2012): what a count is
    short of the truth is at most the rows counted, divided by `capacity`.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.rows = 0
        self._capacity = capacity
        self._counts: Counter[Hashable] = Counter()
        self._short = 0

    def add(self, counted: Counter[Hashable]) -> None:
        """Take the counts of a block."""
        self.rows += counted.total()
        self._counts.update(counted)
        if len(self._counts) > 2 * self._capacity:
            kept = self._counts.most_common(self._capacity + 1)
            less = kept.pop()[1]
            self._short += less
            self._counts = Counter({key: count - less for key, count in kept if count > less})

    @property
    def distinct(self) -> int | None:
        """How many there are, where all could be counted."""
        return None if self._short else len(self._counts)

    def hottest(self) -> HotPartition | None:
        """The one with the most; None where there are none, or where they are all rare."""
        if not self._counts:
            return None
        ((key, count),) = self._counts.most_common(1)
        return HotPartition(key, count, count / self.rows, self._short / self.rows)

    @property
    def standing_out(self) -> float:
        """The share of the hottest one, where that is much of many rows; else 0."""
        hottest = self.hottest()
        if hottest is None or self.rows < FEW_ROWS or hottest.share <= SHARE:
            return 0.0
        return hottest.share


class KeyOrder:
    """Whether the rows' partition keys rise or fall, and how many equal ones stand together."""

    def __init__(self) -> None:
        self.pairs = self.rising = self.falling = self.equal = 0
        self._last: list[Any] = []

    def add(self, keys: Sequence[Any]) -> None:
        """Take the keys of a block, texts or numbers, in the file's order."""
        if not keys:
            return
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
    def together(self) -> float:
        """The share of rows that have the partition key of the row before."""
        return self.equal / self.pairs if self.pairs else 0.0
