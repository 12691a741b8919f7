"""Sizes of items, and of their entries in secondary indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddbload.dynamodb.limits import WRITE_UNIT_BYTES


class ItemSizes:
    """Totals of item sizes in bytes, and the write units that they take."""

    def __init__(self) -> None:
        self.count = self.bytes = self.units = 0
        self.largest = 0
        self.smallest: int | None = None

    def add(self, sizes: Sequence[int]) -> None:
        """Count the sizes of some items."""
        if not sizes:
            return
        low, high = min(sizes), max(sizes)
        self.count += len(sizes)
        self.bytes += sum(sizes)
        if high <= WRITE_UNIT_BYTES:
            # Size 0 stands for no item.
            self.units += len(sizes) - sizes.count(0)
        else:
            self.units += sum([-(-size // WRITE_UNIT_BYTES) for size in sizes])
        self.largest = max(self.largest, high)
        self.smallest = low if self.smallest is None else min(low, self.smallest)

    def merge(self, other: ItemSizes) -> None:
        """Add what others have counted."""
        self.count += other.count
        self.bytes += other.bytes
        self.units += other.units
        self.largest = max(self.largest, other.largest)
        if other.smallest is not None:
            self.smallest = min(other.smallest, self.smallest or other.smallest)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """Secondary index as described by DescribeTable."""

    name: str
    is_global: bool
    partition: tuple[str, ...]
    """Attributes of the partition key."""
    sort: tuple[str, ...]
    projection: str
    """ALL, KEYS_ONLY or INCLUDE."""
    projected: frozenset[str] | None
    """Attributes that the index holds; None for all."""
    described: Mapping[str, Any] = field(default_factory=dict)
    """The index by DescribeTable."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All key attributes. An item without one of them is not in the index."""
        return (*self.partition, *self.sort)
