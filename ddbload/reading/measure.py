"""Measure items: sizes, keys and index entries of the rows of a batch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from ddbload.contracts.payload import OMIT
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.attribute_values import Attributes, value_size
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.modes import without_removals
from ddbload.dynamodb.scalar_text import parse_number
from ddbload.items.item_requests import SIMPLE_TYPES, Item, item_of_request
from ddbload.items.row_attributes import item_layout
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import hmac_key
from ddbload.records import MutableRecord, Record
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, to_octets


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


class TableIndex(Record):
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


MAX_CACHED_SIZES = 100_000
"""Cached sizes of numbers, and of names."""
_DELETION = '{"DeleteRequest"'
"""Beginning of the request for a change in an export that deletes an item."""


class MeasuredRows(MutableRecord):
    """Measurements of the rows of a batch, as lists in the rows' order, odd rows last."""

    sizes: list[int] = field(default_factory=list)
    """Bytes of each item, as DynamoDB counts them."""
    keys: list[tuple[Hashable, ...]] = field(default_factory=list)
    entries: list[list[int]] = field(default_factory=list)
    """Bytes of each row's entry in each index; 0 if the item is not in the index."""
    partitions: list[list[Hashable]] = field(default_factory=list)
    """Partition keys of the rows that are in each index."""
    rejected: list[tuple[int, Defect]] = field(default_factory=list)
    """Rejected rows by number in the batch, with their defects."""
    deletions: int = 0
    """Number of rows that delete an item. They have keys, and no size."""
    cells: Columns | None = None
    """Cells of the attributes, for delimited text."""
    items: list[Attributes] = field(default_factory=list)
    """Items, for other formats."""


class Measure:
    """Measure for the rows of one run."""

    def __init__(self, record: RunRecord, indexes: Sequence[TableIndex] = ()) -> None:
        """Make the measure for a run's rows and these indexes of its table."""
        payload, types, mode = record.payload, record.cell_types, record.mode
        self.layout = layout = item_layout(record.columns, payload, hmac_key(payload))
        names = layout.attributes
        self._types = list(types)
        self._indexes = list(indexes)
        self._names = [len(name.encode()) for name in names]
        self._by_column = (
            mode.as_in_source and payload.nulls.policy == OMIT and set(types) <= SIMPLE_TYPES
        )
        self._updates = mode.updates
        known = set(names)
        # An index with a key attribute that no row has gets no entries.
        self._live = [set(index.keys) <= known for index in indexes]
        self._keys = [
            [names.index(name) for name in index.keys] if live else []
            for index, live in zip(indexes, self._live, strict=True)
        ]
        self._projected = [
            None
            if index.projected is None
            else [place for place, name in enumerate(names) if name in index.projected]
            for index in indexes
        ]

    def measure(self, batch: RowBatch) -> MeasuredRows:
        """Measure the rows of a batch."""
        measured = MeasuredRows(
            entries=[[] for _ in self._indexes], partitions=[[] for _ in self._indexes]
        )
        if batch.columns is not None:
            measured.cells = self.layout.apply(batch.columns)
        if self._by_column and measured.cells is not None:
            self._columnwise(batch, measured.cells, measured)
        else:
            self._item_by_item(batch, measured)
        for row in sorted(batch.encoded.odd):
            built = batch.build(row)
            if isinstance(built, Defect):
                measured.rejected.append((row, built))
            else:
                self._add(built, measured)
        return measured

    def _columnwise(self, batch: RowBatch, columns: Columns, measured: MeasuredRows) -> None:
        cells: list[Sequence[str]] = columns.cells
        odd = batch.encoded.odd
        keys = batch.encoded.keys
        if odd:
            rows = [row for row in range(batch.count) if row not in odd]
            cells = columns.cells_without(odd)
            keys = [keys[row] for row in rows]
        if not keys:
            return
        measured.keys += keys
        sizes = [
            self._column(column, kind, name)
            for column, kind, name in zip(cells, self._types, self._names, strict=True)
        ]
        whole = _sums(sizes)
        measured.sizes += whole
        for place in range(len(self._indexes)):
            if not self._live[place]:
                measured.entries[place] += [0] * len(whole)
                continue
            projected = self._projected[place]
            entry = whole if projected is None else _sums([sizes[each] for each in projected])
            key_cells = [cells[each] for each in self._keys[place]]
            if not all(map(all, key_cells)):
                indexed = [all(row) for row in zip(*key_cells, strict=True)]
                entry = [size if is_in else 0 for size, is_in in zip(entry, indexed, strict=True)]
            measured.entries[place] += entry
            parts = key_cells[: len(self._indexes[place].partition)]
            measured.partitions[place] += [
                part[0] if len(part) == 1 else part
                for part, size in zip(zip(*parts, strict=True), entry, strict=True)
                if size
            ]

    def _column(self, column: Sequence[str], kind: str, name: int) -> list[int]:
        """Return the bytes of each cell as an attribute, with its name; 0 for an empty cell."""
        if kind == "S":
            if all(column):
                return [name + size for size in map(len, column)]
            return [name + len(cell) if cell else 0 for cell in column]
        if kind == "BOOL":
            return [name + 1 if cell else 0 for cell in column]
        return [name + size if size else 0 for size in map(_number_size, column)]

    def _item_by_item(self, batch: RowBatch, measured: MeasuredRows) -> None:
        encoded = batch.encoded
        for row in range(batch.count):
            if row in encoded.odd:
                continue
            put = encoded.puts[row]
            item = item_of_request(put)
            if self._updates:
                item = without_removals(item)
            deleted = isinstance(put, str) and put.startswith(_DELETION)
            size = 0 if deleted else _size(item)
            self._add(Item(item, encoded.keys[row], size, 0, deleted), measured)

    def _add(self, built: Item, measured: MeasuredRows) -> None:
        measured.keys.append(built.key)
        if built.deleted:
            measured.deletions += 1
            return
        item = without_removals(built.attributes) if self._updates else built.attributes
        measured.sizes.append(built.size)
        if measured.cells is None:
            measured.items.append(item)
        for place, index in enumerate(self._indexes):
            if not all(name in item for name in index.keys):
                measured.entries[place].append(0)
                continue
            projected = (
                item
                if index.projected is None
                else {name: value for name, value in item.items() if name in index.projected}
            )
            measured.entries[place].append(built.size if projected is item else _size(projected))
            parts = tuple(to_octets(str(*item[name].values())) for name in index.partition)
            measured.partitions[place].append(parts[0] if len(parts) == 1 else parts)


@lru_cache(MAX_CACHED_SIZES)
def _number_size(text: str) -> int:
    """Return the bytes of a number; 0 for an empty cell."""
    return parse_number(text).size if text else 0


@lru_cache(MAX_CACHED_SIZES)
def _name_size(name: str) -> int:
    return len(name.encode())


def _size(item: Attributes) -> int:
    """Return the bytes of an item, as `item_size`, with cached sizes of names and numbers."""
    size = 0
    for name, value in item.items():
        size += _name_size(name)
        size += _number_size(value["N"]) if "N" in value else value_size(value)
    return size


def _sums(columns: Sequence[Sequence[int]]) -> list[int]:
    return list(map(sum, zip(*columns, strict=True)))
