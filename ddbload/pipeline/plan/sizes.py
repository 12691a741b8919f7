"""How large items are, in a few thousand counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

FINE = 4096
"""Sizes up to this are counted by the byte, larger ones by the KB."""
UNIT = 1024


class Sizes:
    """The distribution of sizes in bytes, and what writing them takes."""

    def __init__(self) -> None:
        self.count = self.bytes = self.units = 0
        self.largest = 0
        self.smallest: int | None = None
        self._counts: Counter[int] = Counter()

    def add(self, sizes: Sequence[int]) -> None:
        """Count the sizes of some items."""
        if not sizes:
            return
        low, high = min(sizes), max(sizes)
        self.count += len(sizes)
        self.bytes += sum(sizes)
        self.units += units_of(sizes, high)
        self.largest = max(self.largest, high)
        self.smallest = low if self.smallest is None else min(low, self.smallest)
        if high > FINE:
            sizes = [size if size <= FINE else -(-size // UNIT) * UNIT for size in sizes]
        self._counts.update(sizes)

    def quantile(self, share: float) -> int:
        """The size that this share of the items does not exceed; above 4 KB to the next KB."""
        wanted, seen = share * self.count, 0
        for size in sorted(self._counts):
            seen += self._counts[size]
            if seen >= wanted:
                return min(size, self.largest)
        return self.largest

    def histogram(self) -> list[dict[str, Any]]:
        """How many items take one unit, two, three to four, five to eight, and so on."""
        counts: dict[int, int] = {}
        for size, count in self._counts.items():
            units = max(1, -(-size // UNIT))
            up_to = 1 << (units - 1).bit_length()
            counts[up_to] = counts.get(up_to, 0) + count
        return [{"up_to_bytes": up_to * UNIT, "items": counts[up_to]} for up_to in sorted(counts)]


def units_of(sizes: Sequence[int], largest: int | None = None) -> int:
    """Write units of items of these sizes; of size 0 there is none."""
    if largest is None:
        largest = max(sizes, default=0)
    if largest <= UNIT:
        return len(sizes) - sizes.count(0)
    return sum([(size + 1023) >> 10 for size in sizes])
