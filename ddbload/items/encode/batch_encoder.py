"""From rows to the bodies of BatchWriteItem, many at a time.

`ItemBuilder` says what the item of a row is, one cell after the other. Here the same is found
out a column at a time, and rows are joined of their cells and what stands between them.
What cannot be seen to be right that way (a row of another length, a number with an exponent, a
very long row) is left to the builder, so that there is one place for rules and reasons.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from json.encoder import encode_basestring as quoted

from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.write_modes import Deletion
from ddbload.items.encode.column_encoders import (
    CELL_ENCODERS,
    PLAIN_LENGTH,
    CellForm,
    EncodedColumn,
    compact_json,
    encode_values,
    key_identities,
)
from ddbload.items.item_builder import Item, key_limits
from ddbload.items.typed_values import NULL, OMIT, REFUSED, null_of
from ddbload.rows.columns import FILLER, Columns
from ddbload.rows.octets import from_octets, to_octets

MAX_ROW_BYTES = 600_000
"""JSON of one row that is encoded with others: 25 of them fit in a request."""
_ESCAPE = 6
"""Bytes of JSON for one of text, at most."""
_BEGIN, _END = '{"PutRequest":{"Item":{', "}}}"
_SUFFIX = ']},"ReturnConsumedCapacity":"TOTAL"}'
_MARKS = {
    CellForm.BARE: {"S": ('{"S":"', '"}'), "N": ('{"N":"', '"}'), "BOOL": ('{"BOOL":', "}")},
    CellForm.QUOTED: {"S": ('{"S":', "}")},
    CellForm.WHOLE: {},
}
"""What stands before and after a cell, by its column's form and type."""


@dataclass(slots=True)
class EncodedRows:
    """Rows that were looked at together; a list for each thing, in the rows' order."""

    puts: list[str]
    """JSON of the request for each, in octets."""
    keys: list[tuple[Hashable, ...]]
    """As the builder's."""
    units: list[int] | None
    """Write units, or more; None: one each."""
    row_bytes: int
    """JSON of a row, on the average."""
    odd: set[int] = field(default_factory=set)
    """Rows that only the builder understands: of them nothing here means anything."""

    def __len__(self) -> int:
        return len(self.puts)

    def extend(self, other: EncodedRows) -> None:
        """Take the rows that come after."""
        before, more = len(self.puts), len(other.puts)
        if not more:
            return
        self.row_bytes = -(-(self.row_bytes * before + other.row_bytes * more) // (before + more))
        if self.units is not None or other.units is not None:
            self.units = (self.units or [1] * before) + (other.units or [1] * more)
        self.puts += other.puts
        self.keys += other.keys
        self.odd.update(before + place for place in other.odd)


class BatchEncoder:
    """Encodes rows with the same attributes as puts into one table."""

    def __init__(
        self, columns: Sequence[str], types: Sequence[str], table: Table, nulls: str = OMIT
    ) -> None:
        """As the builder's."""
        self._types = list(types)
        self._keys = [columns.index(key.name) for key in table.keys]
        # Commas stand on the sides of the other attributes towards one that is always there.
        self._anchor = self._keys[0] if self._keys else None
        self._limits = key_limits(columns, table)
        self._valued = [place for place, kind in enumerate(types) if kind not in CELL_ENCODERS]
        self._binary_limits = dict(key_limits(columns, table, "B"))
        # A number of one digit counts for two bytes, and a null for one.
        self._names_bytes = sum(len(name.encode()) for name in columns) + self._types.count("N")
        self._names_bytes += len(columns) * (nulls == NULL)
        names = [to_octets(quoted(name)) for name in columns]
        self._markup = [
            {
                form: self._around(place, f"{name}:", *marks.get(kind, ("", "")))
                for form, marks in _MARKS.items()
            }
            for place, (name, kind) in enumerate(zip(names, types, strict=True))
        ]
        indexed = {key.name for key in table.index_keys}
        absent = [
            null_of(kind, nulls, name in indexed) for name, kind in zip(columns, types, strict=True)
        ]
        self._refused = [place for place, value in enumerate(absent) if value is REFUSED]
        self._absent = [
            ""
            if value is None or value is REFUSED
            else compact_json(value.attribute).join(self._markup[place][CellForm.WHOLE])
            for place, value in enumerate(absent)
        ]
        self._prefix = to_octets(f'{{"RequestItems":{{{quoted(table.name)}:[')
        self._row_bytes = sum(map(len, names)) + 20 * len(names) + len(_BEGIN + _END)

    def encode(self, columns: Columns) -> EncodedRows:
        """Check rows, and make them ready for `body`."""
        odd = set(columns.odd)
        cells = list(columns.cells)
        spare = len(cells) - 1 + PLAIN_LENGTH
        short = columns.longest is not None and columns.longest <= spare
        for place in self._keys:
            cells[place] = _filled(cells[place], odd)
        for place in self._refused:
            _filled(cells[place], odd)
        self._check_limits(cells, columns.longest, odd)
        valued = {
            place: encode_values(
                self._types[place], cells[place], odd, self._binary_limits.get(place)
            )
            for place in self._valued
        }
        key_cells = [self._identities(place, cells, valued, short=short) for place in self._keys]
        keys: list[tuple[Hashable, ...]] = list(zip(*key_cells, strict=True))
        units = self._units(columns, [each.extra for each in valued.values()], odd)
        around: list[tuple[str, str]] = []
        for place, kind in enumerate(self._types):
            column = cells[place]
            if place in valued:
                cells[place], form = valued[place].cells, CellForm.WHOLE
            else:
                cells[place], form = CELL_ENCODERS[kind](
                    column, odd, plain=columns.plain, short=short
                )
            markup = self._markup[place][form]
            if not all(column):
                # An empty cell is no attribute, and has nothing around it, or as nulls are.
                cells[place] = _wrapped(column, cells[place], *markup, self._absent[place])
                markup = ("", "")
            around.append(markup)
        if self._anchor is None:
            puts, size = _joined_of_any(cells, around, columns.count)
            keys = [()] * columns.count
        else:
            puts, size = _joined(cells, around)
        return EncodedRows(puts, keys, units, -(-size // max(1, len(puts))), odd)

    def body(self, requests: Iterable[str]) -> bytes:
        """The body of one BatchWriteItem with up to 25 requests, in octets."""
        return f"{self._prefix}{','.join(requests)}{_SUFFIX}".encode("latin-1")

    def _around(self, place: int, name: str, before: str, after: str) -> tuple[str, str]:
        if self._anchor is None or place < self._anchor:
            return f"{name}{before}", f"{after},"
        return f"{',' if place > self._anchor else ''}{name}{before}", after

    def _identities(
        self,
        place: int,
        cells: Sequence[Sequence[str]],
        valued: Mapping[int, EncodedColumn],
        *,
        short: bool,
    ) -> Sequence[Hashable]:
        if place in valued:
            return valued[place].identities
        return (
            key_identities(cells[place], short=short) if self._types[place] == "N" else cells[place]
        )

    def _check_limits(
        self, cells: Sequence[Sequence[str]], longest: int | None, odd: set[int]
    ) -> None:
        for place, most in self._limits:
            if longest is None or longest > most:
                column = cells[place]
                if max(map(len, column), default=0) > most:
                    odd.update(row for row, cell in enumerate(column) if len(cell) > most)

    def _units(
        self, columns: Columns, extra: Sequence[Sequence[int]], odd: set[int]
    ) -> list[int] | None:
        longest = columns.longest
        if longest is None:
            longest = sum(max(map(len, column), default=0) for column in columns.cells)
        longest += sum(max(each, default=0) for each in extra)
        if longest + self._names_bytes <= 1024 or not columns.cells:
            return None
        sizes = list(map(len, map("".join, zip(*columns.cells, strict=True))))
        if extra:
            sizes = [sum(each) for each in zip(sizes, *extra, strict=True)]
        if self._row_bytes + _ESCAPE * longest > MAX_ROW_BYTES:
            most = (MAX_ROW_BYTES - self._row_bytes) // _ESCAPE
            odd.update(place for place, size in enumerate(sizes) if size > most)
        most_text = MAX_ITEM_BYTES - self._names_bytes
        if longest > most_text:
            odd.update(place for place, size in enumerate(sizes) if size > most_text)
        return [-(-(size + self._names_bytes) // 1024) for size in sizes]


def put_request(item: Attributes) -> str:
    """The request for an item of the builder's, in octets."""
    return to_octets(compact_json({"PutRequest": {"Item": item}}))


def batch_request(item: Item) -> str:
    """The request that puts an item, or deletes it."""
    if item.deleted:
        return to_octets(compact_json({"DeleteRequest": {"Key": item.attributes}}))
    return put_request(item.attributes)


def item_of_request(put: str) -> Attributes:
    """The item that a request puts, or the key that it deletes."""
    ((verb, request),) = json.loads(from_octets(put)).items()
    ((_, item),) = request.items()
    attributes: Attributes = item
    return Deletion(attributes) if verb == "DeleteRequest" else attributes


def _filled(column: Sequence[str], odd: set[int]) -> Sequence[str]:
    """A key's cells: rows that have none are odd."""
    if all(column):
        return column
    odd.update(row for row, cell in enumerate(column) if not cell)
    return [cell or FILLER for cell in column]


def _wrapped(
    column: Sequence[str], cells: Sequence[str], before: str, after: str, absent: str
) -> Sequence[str]:
    return [
        f"{before}{cell}{after}" if there else absent
        for there, cell in zip(column, cells, strict=True)
    ]


def _joined(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]]
) -> tuple[list[str], int]:
    """The rows' puts, of cells and of what stands before and after those of each column.

    And how many bytes they have together.
    """
    rows = len(cells[0])
    if not rows:
        return [], 0
    begin, end = _BEGIN + around[0][0], around[-1][1] + _END
    # Cells have every other place. A line end stands between two rows, and in no JSON of one.
    row = [f"{end}\n{begin}", ""]
    for (_, after), (before, _) in pairwise(around):
        row += [after + before, ""]
    parts = row * rows
    parts[0] = begin
    for place, column in enumerate(cells):
        parts[2 * place + 1 :: len(row)] = column
    parts.append(end)
    joined = "".join(parts)
    puts = joined.split("\n")
    assert len(puts) == rows, "a line end is escaped in JSON"  # noqa: S101
    return puts, len(joined)


def _joined_of_any(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]], count: int
) -> tuple[list[str], int]:
    """The same where each attribute is followed by a comma, and none need be there."""
    if not cells:
        return [_BEGIN + _END] * count, count * len(_BEGIN + _END)
    puts, size = _joined(cells, around)
    last = f",{_END}"
    return [f"{put[: -len(last)]}{_END}" if put.endswith(last) else put for put in puts], size
