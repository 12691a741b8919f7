"""How large items are, in a few thousand counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ddbload.contracts.payload import OMIT
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.attribute_values import Attributes, value_size
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.scalar_text import parse_number
from ddbload.dynamodb.write_modes import INSERT, PLAN, PUT
from ddbload.items.encode.request_json import item_of_request
from ddbload.items.item_builder import SIMPLE_TYPES, Item
from ddbload.items.item_layout import ItemLayout, item_layout
from ddbload.pipeline.reading.row_batches import RowBatch
from ddbload.rows.columns import Columns, to_octets
from ddbload.rows.reject_lines import Defect

FINE = 4096
"""Sizes up to this are counted by the byte, larger ones by the KB."""


class SizeHistogram:
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
            sizes = [
                size if size <= FINE else -(-size // WRITE_UNIT_BYTES) * WRITE_UNIT_BYTES
                for size in sizes
            ]
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
            units = max(1, -(-size // WRITE_UNIT_BYTES))
            up_to = 1 << (units - 1).bit_length()
            counts[up_to] = counts.get(up_to, 0) + count
        return [
            {"up_to_bytes": up_to * WRITE_UNIT_BYTES, "items": counts[up_to]}
            for up_to in sorted(counts)
        ]


def units_of(sizes: Sequence[int], largest: int | None = None) -> int:
    """Write units of items of these sizes; of size 0 there is none."""
    if largest is None:
        largest = max(sizes, default=0)
    if largest <= WRITE_UNIT_BYTES:
        return len(sizes) - sizes.count(0)
    return sum([(size + 1023) >> 10 for size in sizes])


@dataclass(frozen=True, slots=True)
class TableIndex:
    """A secondary index, as DescribeTable tells of it."""

    name: str
    is_global: bool
    partition: tuple[str, ...]
    """The attributes that its partition key is made of."""
    sort: tuple[str, ...]
    projection: str
    """ALL, KEYS_ONLY or INCLUDE."""
    projected: frozenset[str] | None
    """The attributes that it holds; None: all of an item."""
    write_capacity: int | None = None
    """Provisioned write units a second, of its own."""
    read_capacity: int | None = None
    warm_writes: int | None = None
    """Write units a second that it takes at once."""
    most_writes: int | None = None
    """Write units a second that an on-demand index is limited to."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All attributes of its key. An item that lacks one is not in it."""
        return (*self.partition, *self.sort)


MOST_REMEMBERED = 100_000
"""Sizes of numbers and names that are kept."""
_DELETION = '{"DeleteRequest"'
"""How the request begins that a change in an export is, when it deletes."""


@dataclass(slots=True)
class Measured:
    """Rows that would be items; a list for each thing, in the file's order, odd rows last."""

    sizes: list[int] = field(default_factory=list)
    """Bytes of each, as DynamoDB counts them."""
    keys: list[tuple[Hashable, ...]] = field(default_factory=list)
    entries: list[list[int]] = field(default_factory=list)
    """Of each index: bytes of each row's entry in it, or 0 where it has none."""
    partitions: list[list[Hashable]] = field(default_factory=list)
    """Of each index: the partition keys of the rows that are in it."""
    rejected: list[tuple[int, Defect]] = field(default_factory=list)
    """Rows by their number among those that were read, and why they are none."""
    deletions: int = 0
    """Rows that delete an item, among others that put one. They have keys, and no size."""
    cells: Columns | None = None
    """The texts of the attributes, where rows are delimited text."""
    items: list[Attributes] = field(default_factory=list)
    """The items, where they are not."""


class Measure:
    """Measures the rows of one run."""

    def __init__(
        self,
        layout: ItemLayout,
        types: Sequence[str],
        indexes: Sequence[TableIndex],
        *,
        mode: str = PUT,
        nulls: str = OMIT,
    ) -> None:
        """`layout` and `types`: of delimited text's attributes."""
        names = layout.attributes
        self.layout = layout
        self._types = list(types)
        self._indexes = list(indexes)
        self._names = [len(name.encode()) for name in names]
        plain = mode in (PUT, INSERT, PLAN) and nulls == OMIT and set(types) <= SIMPLE_TYPES
        self._by_column = plain
        self._number_sizes: dict[str, int] = {}
        self._name_sizes: dict[str, int] = {}
        known = set(names)
        # An index that an attribute is missing for has no entries.
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

    @classmethod
    def of(cls, record: RunRecord, indexes: Sequence[TableIndex] = ()) -> Self:
        """For a run's rows, and these indexes of its table."""
        payload = record.payload
        return cls(
            item_layout(record.columns, payload),
            record.types,
            indexes,
            mode=payload.options.mode,
            nulls=payload.nulls.policy,
        )

    def measure(self, walked: RowBatch) -> Measured:
        """What the rows come to."""
        measured = Measured(
            entries=[[] for _ in self._indexes], partitions=[[] for _ in self._indexes]
        )
        if walked.columns is not None:
            measured.cells = self.layout.apply(walked.columns)
        if self._by_column and measured.cells is not None:
            self._columnwise(walked, measured.cells, measured)
        else:
            self._item_by_item(walked, measured)
        for row in sorted(walked.window.odd):
            built = walked.build(row)
            if isinstance(built, Defect):
                measured.rejected.append((row, built))
            else:
                self._add(built, measured)
        return measured

    def _columnwise(self, walked: RowBatch, columns: Columns, measured: Measured) -> None:
        cells: list[Sequence[str]] = columns.cells
        odd = walked.window.odd
        keys = walked.window.keys
        if odd:
            kept = [row for row in range(walked.count) if row not in odd]
            cells = columns.cells_without(odd)
            keys = [keys[row] for row in kept]
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
                there = [all(row) for row in zip(*key_cells, strict=True)]
                entry = [size if is_in else 0 for size, is_in in zip(entry, there, strict=True)]
            measured.entries[place] += entry
            parts = key_cells[: len(self._indexes[place].partition)]
            measured.partitions[place] += [
                part[0] if len(part) == 1 else part
                for part, size in zip(zip(*parts, strict=True), entry, strict=True)
                if size
            ]

    def _column(self, column: Sequence[str], kind: str, name: int) -> list[int]:
        """Bytes of each cell as an attribute, its name included; 0 for an empty one."""
        if kind == "S":
            if all(column):
                return [name + size for size in map(len, column)]
            return [name + len(cell) if cell else 0 for cell in column]
        if kind == "BOOL":
            return [name + 1 if cell else 0 for cell in column]
        known = self._number_sizes
        self._forget()
        for cell in set(column) - known.keys():
            known[cell] = parse_number(cell).size if cell else 0
        if all(column):
            return [name + known[cell] for cell in column]
        return [name + known[cell] if cell else 0 for cell in column]

    def _forget(self) -> None:
        # What is remembered is bounded, whatever the rows hold.
        for known in (self._number_sizes, self._name_sizes):
            if len(known) > MOST_REMEMBERED:
                known.clear()

    def _size(self, item: Attributes) -> int:
        """Bytes of an item, as `item_size` has them, with what comes again remembered."""
        names, numbers = self._name_sizes, self._number_sizes
        size = 0
        for name, value in item.items():
            length = names.get(name)
            if length is None:
                length = names[name] = len(name.encode())
            size += length
            if "S" in value:
                text: str = value["S"]
                size += len(text) if text.isascii() else len(text.encode())
            elif "N" in value:
                found = numbers.get(value["N"])
                if found is None:
                    found = numbers[value["N"]] = parse_number(value["N"]).size
                size += found
            else:
                size += value_size(value)
        return size

    def _item_by_item(self, walked: RowBatch, measured: Measured) -> None:
        window = walked.window
        self._forget()
        for row in range(walked.count):
            if row in window.odd:
                continue
            put = window.puts[row]
            item = item_of_request(put)
            deleted = put.startswith(_DELETION)
            size = 0 if deleted else self._size(item)
            self._add(Item(item, window.keys[row], size, 0, deleted), measured)

    def _add(self, built: Item, measured: Measured) -> None:
        measured.keys.append(built.key)
        if built.deleted:
            measured.deletions += 1
            return
        item = built.attributes
        measured.sizes.append(built.size)
        if measured.cells is None:
            measured.items.append(item)
        for place, index in enumerate(self._indexes):
            if not all(name in item for name in index.keys):
                measured.entries[place].append(0)
                continue
            held = (
                item
                if index.projected is None
                else {name: value for name, value in item.items() if name in index.projected}
            )
            measured.entries[place].append(built.size if held is item else self._size(held))
            parts = tuple(to_octets(str(*item[name].values())) for name in index.partition)
            measured.partitions[place].append(parts[0] if len(parts) == 1 else parts)


def _sums(columns: Sequence[Sequence[int]]) -> list[int]:
    return list(map(sum, zip(*columns, strict=True)))
