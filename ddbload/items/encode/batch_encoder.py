"""Encodes rows of cells as requests, a column at a time.

`ItemBuilder` makes the item of one row, cell by cell, with every rule and every reason. This module
does the same for a block of rows: it encodes each column as JSON, then joins the cells with the
attribute names between them. A row that cannot be shown to be right that way (too long a key, a
number with an exponent, a very long row) is marked as odd and left to the builder, so that rules
and reasons have one home.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from json.encoder import encode_basestring as quoted

from ddbload.contracts.payload import NULL, OMIT
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.limits import MAX_ITEM_BYTES, WRITE_UNIT_BYTES
from ddbload.items.encode.column_encoders import (
    CELL_ENCODERS,
    PLAIN_LENGTH,
    CellForm,
    EncodedColumn,
    encode_values,
    key_identities,
)
from ddbload.items.encode.request_json import (
    LINE_BEGIN,
    LINE_END,
    PUT_BEGIN,
    PUT_END,
    VALUE_MARK,
    compact_json,
)
from ddbload.items.item_builder import NO_NEEDS, RowNeeds, key_limits
from ddbload.items.typed_values import REFUSED, null_of
from ddbload.rows.columns import FILLER, Columns, to_octets

MAX_ROW_BYTES = 600_000
"""Most bytes of JSON for a row that is sent with others: 25 such rows fit in a 16 MB request."""
_LONGEST_ESCAPE = 6
r"""Most bytes of JSON for one byte of text: a control character becomes `\u00XX`."""
_MARKUP = {
    CellForm.BARE: {"S": ('{"S":"', '"}'), "N": ('{"N":"', '"}'), "BOOL": ('{"BOOL":', "}")},
    CellForm.QUOTED: {"S": ('{"S":', "}")},
    CellForm.WHOLE: {},
}
"""JSON before and after a cell, by the form of its column and its type."""


@dataclass(slots=True)
class EncodedRows:
    """Requests for rows that were encoded together: lists in the rows' order."""

    puts: list[str]
    """Request for each row, in octets."""
    keys: list[tuple[Hashable, ...]]
    """Key of each row, equal for rows that DynamoDB keeps under one key."""
    units: list[int] | None
    """Write units of each row, or an upper bound; None when every row takes one."""
    row_bytes: int
    """Average bytes of JSON for a row."""
    odd: set[int] = field(default_factory=set)
    """Numbers of rows that only the builder can judge: their entries here mean nothing."""

    def __len__(self) -> int:
        return len(self.puts)

    def extend(self, other: EncodedRows) -> None:
        """Append rows that follow these in the source."""
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
    """Encoder for rows with the same attributes, as puts into one table."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        nulls: str = OMIT,
        needs: RowNeeds = NO_NEEDS,
        *,
        marks: bool = False,
    ) -> None:
        """Take what `ItemBuilder` takes. `marks`: put a `VALUE_MARK` on either side of a value."""
        self._types = list(types)
        mark = VALUE_MARK if marks else ""
        self._keys = [columns.index(key.name) for key in table.keys]
        self._anchor = self._keys[0] if self._keys else None
        self._limits = key_limits(columns, table)
        self._parsed = [place for place, kind in enumerate(types) if kind not in CELL_ENCODERS]
        self._binary_limits = dict(key_limits(columns, table, "B"))
        # DynamoDB counts two bytes for a number of one digit, and one for a null.
        self._names_bytes = sum(len(name.encode()) for name in columns) + self._types.count("N")
        self._names_bytes += len(columns) * (nulls == NULL)
        names = [to_octets(quoted(name)) for name in columns]
        self._markup = [
            {
                form: (f"{name}:{mark}{before}", f"{after}{mark}")
                for form, markup in _MARKUP.items()
                for before, after in [markup.get(kind, ("", ""))]
            }
            for name, kind in zip(names, types, strict=True)
        ]
        indexed = {key.name for key in table.index_keys}
        absent = [
            REFUSED
            if name in needs.values
            else null_of(kind, needs.policy(name, nulls), name in indexed)
            for name, kind in zip(columns, types, strict=True)
        ]
        self._refused = [place for place, value in enumerate(absent) if value is REFUSED]
        self._absent = [
            ""
            if value is None or value is REFUSED
            else compact_json(value.attribute).join(self._markup[place][CellForm.WHOLE])
            for place, value in enumerate(absent)
        ]
        self._row_bytes = sum(map(len, names)) + 20 * len(names) + len(PUT_BEGIN + PUT_END)

    def encode(self, columns: Columns) -> EncodedRows:
        """Encode a block of rows, and mark those that only the builder can judge as odd."""
        # Numbers of rows among those that have cells.
        odd: set[int] = set()
        cells, parsed, short = self._checked_cells(columns, odd)
        key_cells = [self._identities(place, cells, parsed, short=short) for place in self._keys]
        keys: list[tuple[Hashable, ...]] = list(zip(*key_cells, strict=True))
        around = self._encode_cells(columns, cells, parsed, odd, self._anchor, short=short)
        if self._anchor is None:
            puts, size = _join_optional(cells, around, columns.height)
            keys = [()] * columns.height
        else:
            puts, size = _join(cells, around)
        units = self._units(columns, puts, [each.extra for each in parsed.values()], odd)
        row_bytes = -(-size // max(1, len(puts)))
        if columns.odd:
            return _spread(EncodedRows(puts, keys, units, row_bytes, odd), columns)
        return EncodedRows(puts, keys, units, row_bytes, odd)

    def encode_lines(self, columns: Columns) -> str | None:
        """Encode a block of rows as items, `{"Item":{...}}` and a line end each, in one text.

        None if a row has no line of its own, or only the builder can judge one: then `encode` it.
        """
        if columns.odd or not columns.height or not columns.cells:
            return None
        odd: set[int] = set()
        cells, parsed, short = self._checked_cells(columns, odd)
        self._refuse_long(columns, [each.extra for each in parsed.values()], odd)
        anchor = self._anchor
        if anchor is None:
            # An attribute that each of these rows has.
            full = (place for place, column in enumerate(cells) if all(column))
            anchor = next(full, None)
        around = self._encode_cells(columns, cells, parsed, odd, anchor, short=short)
        if odd or anchor is None:
            return None
        return _join_text(cells, around, LINE_BEGIN, LINE_END)

    def _checked_cells(
        self, columns: Columns, odd: set[int]
    ) -> tuple[list[Sequence[str]], dict[int, EncodedColumn], bool]:
        """Return the cells, the columns that had to be parsed, and whether all cells are short."""
        cells = list(columns.cells)
        spare = len(cells) - 1 + PLAIN_LENGTH
        short = columns.longest is not None and columns.longest <= spare
        for place in self._keys:
            cells[place] = _fill_empty(cells[place], odd)
        for place in self._refused:
            _fill_empty(cells[place], odd)
        self._check_limits(cells, columns.longest, odd)
        parsed = {
            place: encode_values(
                self._types[place],
                cells[place],
                odd,
                self._binary_limits.get(place),
            )
            for place in self._parsed
        }
        return cells, parsed, short

    def _encode_cells(
        self,
        columns: Columns,
        cells: list[Sequence[str]],
        parsed: Mapping[int, EncodedColumn],
        odd: set[int],
        anchor: int | None,
        *,
        short: bool,
    ) -> list[tuple[str, str]]:
        """Replace cells by their JSON, and return the markup around those of each column.

        Each attribute brings a comma, on the side of the anchor, which every row has.
        """
        around: list[tuple[str, str]] = []
        for place, kind in enumerate(self._types):
            column = cells[place]
            if place in parsed:
                cells[place], form = parsed[place].cells, CellForm.WHOLE
            else:
                cells[place], form = CELL_ENCODERS[kind](
                    column, odd, plain=columns.plain, short=short
                )
            before, after = self._markup[place][form]
            leading = "," if anchor is not None and place > anchor else ""
            trailing = "," if anchor is None or place < anchor else ""
            markup = (f"{leading}{before}", f"{after}{trailing}")
            if not all(column):
                # Wrap the filled cells alone: an empty one is no attribute, or a null.
                absent = self._absent[place]
                absent = f"{leading}{absent}{trailing}" if absent else ""
                cells[place] = _wrap_filled(column, cells[place], *markup, absent)
                markup = ("", "")
            around.append(markup)
        return around

    def _identities(
        self,
        place: int,
        cells: Sequence[Sequence[str]],
        parsed: Mapping[int, EncodedColumn],
        *,
        short: bool,
    ) -> Sequence[Hashable]:
        if place in parsed:
            return parsed[place].identities
        if self._types[place] == "N":
            return key_identities(cells[place], short=short)
        return cells[place]

    def _check_limits(
        self, cells: Sequence[Sequence[str]], longest: int | None, odd: set[int]
    ) -> None:
        for place, most in self._limits:
            if longest is None or longest > most:
                column = cells[place]
                if max(map(len, column), default=0) > most:
                    odd.update(row for row, cell in enumerate(column) if len(cell) > most)

    def _units(
        self,
        columns: Columns,
        puts: Sequence[str],
        extra: Sequence[Sequence[int]],
        odd: set[int],
    ) -> list[int] | None:
        # An item's JSON is longer than what DynamoDB counts, and quickly measured.
        if columns.longest is None and max(map(len, puts), default=0) <= WRITE_UNIT_BYTES:
            return None
        longest = _longest_row(columns, extra)
        if longest + self._names_bytes <= WRITE_UNIT_BYTES or not columns.cells:
            return None
        sizes = _row_sizes(columns, extra)
        self._mark_long(sizes, longest, odd)
        return [-(-(size + self._names_bytes) // WRITE_UNIT_BYTES) for size in sizes]

    def _refuse_long(self, columns: Columns, extra: Sequence[Sequence[int]], odd: set[int]) -> None:
        """Mark rows as odd that may be too long to be encoded with others."""
        longest = _longest_row(columns, extra)
        if (
            self._row_bytes + _LONGEST_ESCAPE * longest > MAX_ROW_BYTES
            or longest > MAX_ITEM_BYTES - self._names_bytes
        ):
            self._mark_long(_row_sizes(columns, extra), longest, odd)

    def _mark_long(self, sizes: Sequence[int], longest: int, odd: set[int]) -> None:
        if self._row_bytes + _LONGEST_ESCAPE * longest > MAX_ROW_BYTES:
            most = (MAX_ROW_BYTES - self._row_bytes) // _LONGEST_ESCAPE
            odd.update(place for place, size in enumerate(sizes) if size > most)
        most_text = MAX_ITEM_BYTES - self._names_bytes
        if longest > most_text:
            odd.update(place for place, size in enumerate(sizes) if size > most_text)


def _longest_row(columns: Columns, extra: Sequence[Sequence[int]]) -> int:
    """Return an upper bound for the bytes of a row's values together."""
    longest = columns.longest
    if longest is None:
        longest = sum(max(map(len, column), default=0) for column in columns.cells)
    return longest + sum(max(each, default=0) for each in extra)


def _row_sizes(columns: Columns, extra: Sequence[Sequence[int]]) -> list[int]:
    """Return the bytes of each row's values together."""
    sizes = list(map(len, map("".join, zip(*columns.cells, strict=True))))
    return [sum(each) for each in zip(sizes, *extra, strict=True)] if extra else sizes


def _fill_empty(column: Sequence[str], odd: set[int]) -> Sequence[str]:
    """Return a column that must not be empty with fillers, and add rows without a cell to `odd`."""
    if all(column):
        return column
    odd.update(row for row, cell in enumerate(column) if not cell)
    return [cell or FILLER for cell in column]


def _wrap_filled(
    column: Sequence[str], cells: Sequence[str], before: str, after: str, absent: str
) -> Sequence[str]:
    """Return each encoded cell with its markup, or `absent` where the column's cell is empty."""
    return [
        f"{before}{cell}{after}" if there else absent
        for there, cell in zip(column, cells, strict=True)
    ]


def _join(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]]
) -> tuple[list[str], int]:
    """Join cells and the markup around each column to requests. Returns them and their size."""
    rows = len(cells[0])
    if not rows:
        return [], 0
    # A line end separates rows, since JSON of one row has none.
    joined = _join_text(cells, around, PUT_BEGIN, f"{PUT_END}\n")
    puts = joined.split("\n")
    puts.pop()
    assert len(puts) == rows, "a line end is escaped in JSON"  # noqa: S101
    return puts, len(joined)


def _join_text(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]], begin: str, end: str
) -> str:
    """Join cells and the markup around each column to one text, with `begin` and `end` a row."""
    rows = len(cells[0])
    begin, end = begin + around[0][0], around[-1][1] + end
    # Cells take every other place.
    row = [f"{end}{begin}", ""]
    for (_, after), (before, _) in pairwise(around):
        row += [after + before, ""]
    parts = row * rows
    parts[0] = begin
    for place, column in enumerate(cells):
        parts[2 * place + 1 :: len(row)] = column
    parts.append(end)
    return "".join(parts)


def _join_optional(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]], count: int
) -> tuple[list[str], int]:
    """Join rows of which any attribute may be missing: each brings the comma after it."""
    if not cells:
        return [PUT_BEGIN + PUT_END] * count, count * len(PUT_BEGIN + PUT_END)
    puts, size = _join(cells, around)
    last = f",{PUT_END}"
    return [f"{put[: -len(last)]}{PUT_END}" if put.endswith(last) else put for put in puts], size


def _spread(encoded: EncodedRows, columns: Columns) -> EncodedRows:
    """Give the requests of the rows that have cells the numbers of these rows in the block."""
    numbers = [row for row in range(columns.count) if row not in columns.odd]
    puts = [""] * columns.count
    keys: list[tuple[Hashable, ...]] = [()] * columns.count
    units = None if encoded.units is None else [1] * columns.count
    for place, row in enumerate(numbers):
        puts[row], keys[row] = encoded.puts[place], encoded.keys[place]
        if units is not None and encoded.units is not None:
            units[row] = encoded.units[place]
    odd = columns.odd.union([numbers[place] for place in encoded.odd])
    return EncodedRows(puts, keys, units, encoded.row_bytes, odd)
