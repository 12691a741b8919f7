"""Encodes rows of cells as requests, a column at a time.

`ItemBuilder` makes the item of one row, cell by cell, with every rule and every reason. This module
does the same for a block of rows: it encodes each column as JSON, then joins the cells with the
attribute names between them. A row that cannot be shown to be right that way (too long a key, a
number with an exponent, a very long row) is marked as odd and left to the builder, so that rules
and reasons have one home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from itertools import compress, pairwise
from json.encoder import encode_basestring as quoted
from typing import Any

from ddbload.contracts.payload import NULL, OMIT, attribute_type
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import value_size
from ddbload.dynamodb.limits import MAX_ITEM_BYTES, WRITE_UNIT_BYTES
from ddbload.dynamodb.modes import REMOVAL, RowWrites
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.items.item_requests import (
    LINE_BEGIN,
    LINE_END,
    NO_NEEDS,
    PUT_BEGIN,
    PUT_END,
    ItemBuilder,
    Request,
    compact_json,
    identity,
)
from ddbload.items.row_attributes import REFUSED, text_reader
from ddbload.items.row_values import RowValues
from ddbload.records import MutableRecord
from ddbload.rows.columns import (
    FILLER,
    NO_OCTET,
    RARELY_ESCAPED,
    SHORT_ESCAPES,
    Columns,
    from_octets,
    has_none_of,
    to_octets,
)

MAX_ROW_BYTES = 600_000
"""Most bytes of JSON for a row that is sent with others: 25 such rows fit in a 16 MB request."""
_LONGEST_ESCAPE = 6
r"""Most bytes of JSON for one byte of text: a control character becomes `\u00XX`."""
PLAIN_LENGTH = 38
"""Longest number that surely has no more digits than DynamoDB keeps, and is in range."""
_PLAIN = r"(?:-?[0-9]{1,19}+(?:\.[0-9]{1,18}+)?+)?+"
_PLAIN_NUMBERS = re.compile(f"{_PLAIN}(?:,{_PLAIN})*+")
"""Numbers of at most `PLAIN_LENGTH` characters and a sign, and empty cells, between commas."""

_TEXT, _NUMBER, _BOOLEAN = ('{"S":"', '"}'), ('{"N":"', '"}'), ('{"BOOL":', "}")
"""JSON before and after a cell that is encoded without its quotes."""


EncodedCells = tuple[Sequence[str], str, str]
"""Cells of a column as JSON in octets, without the text before and after each, and these texts."""


def _strings(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001 - like the others
    if plain:
        return column, *_TEXT
    text = joined = NO_OCTET.join(column)
    if has_none_of(RARELY_ESCAPED, text.encode("latin-1")):
        # In all cells at once, which takes three quarters of the time of cell by cell.
        for character, escaped in SHORT_ESCAPES:
            if character in text:
                text = text.replace(character, escaped)
        cells = column if text is joined else text.split(NO_OCTET)
        return cells, *_TEXT
    return list(map(quoted, column)), '{"S":', "}"


def are_plain_numbers(column: Sequence[str], *, short: bool = False) -> bool:
    """Return whether DynamoDB surely takes all cells as they are; empty ones are no numbers.

    `short` says that none is longer than `PLAIN_LENGTH`.
    """
    text = "".join(column)
    # Bytes are looked at in half the time of characters, and are digits in ASCII only.
    if not text or text.encode("latin-1").isdigit():
        return short or max(map(len, column), default=0) <= PLAIN_LENGTH
    return "," not in text and _PLAIN_NUMBERS.fullmatch(",".join(column)) is not None


def _numbers(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001
    if are_plain_numbers(column, short=short):
        return column, *_NUMBER
    cells = list(column)
    for place, cell in enumerate(column):
        if cell:
            try:
                cells[place] = parse_number(cell).text
            except BadValue:
                odd.add(place)
                cells[place] = FILLER
    return cells, *_NUMBER


def _booleans(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001
    encoded = {"": ""}
    bad: set[str] = set()
    for cell in set(column) - {""}:
        try:
            encoded[cell] = "true" if parse_boolean(cell) else "false"
        except BadValue:
            encoded[cell] = FILLER
            bad.add(cell)
    if bad:
        odd.update(place for place, cell in enumerate(column) if cell in bad)
    elif all(cell == text for cell, text in encoded.items()):
        return column, *_BOOLEAN
    return [encoded[cell] for cell in column], *_BOOLEAN


CELL_ENCODERS: dict[str, Callable[..., EncodedCells]] = {
    "S": _strings,
    "N": _numbers,
    "BOOL": _booleans,
}
"""Encoder of each simple type. Rows that only the builder can judge are added to `odd`.

`plain` says that no cell needs escapes, `short` that none is longer than `PLAIN_LENGTH`.
"""


def key_identities(column: Sequence[str], *, short: bool) -> Sequence[Hashable]:
    """Return an identity for each number of a column, equal for equal values."""
    is_short = short or max(map(len, column), default=0) <= PLAIN_LENGTH
    if is_short and all(column) and "".join(column).encode("latin-1").isdigit():
        # Digits without leading zeros identify the value as they stand.
        if ",0" not in "," + ",".join(column):
            return column
        return [cell.lstrip("0") or "0" for cell in column]
    return [_identity(cell) for cell in column]


def _identity(cell: str) -> Hashable:
    try:
        return parse_number(cell).value
    except BadValue:
        return None


def parse_column(
    kind: str, column: Sequence[str], odd: set[int], most: int | None = None
) -> tuple[list[str], list[Hashable], list[int]]:
    """Parse the cells of a column, each distinct text once.

    Returns the JSON of each value with its type, in octets, empty for an empty cell; their
    identities; and the bytes that DynamoDB counts for each value beyond the length of its cell.

    Rows that only the builder can judge are added to `odd`, values of more than `most` bytes
    included.
    """
    known: dict[str, tuple[str, Hashable, int]] = {"": ("", None, 0)}
    bad: set[str] = set()
    read, is_key_type = text_reader(kind), attribute_type(kind) in ("S", "N", "B")
    for cell in set(column) - {""}:
        try:
            value = read(from_octets(cell))
        except BadValue:
            bad.add(cell)
            known[cell] = FILLER, None, 0
            continue
        size = value_size(value)
        if most is not None and size > most:
            bad.add(cell)
        key = identity(value) if is_key_type else None
        known[cell] = to_octets(compact_json(value)), key, max(0, size - len(cell))
    if bad:
        odd.update(place for place, cell in enumerate(column) if cell in bad)
    found = [known[cell] for cell in column]
    return (
        [text for text, _, _ in found],
        [key for _, key, _ in found],
        [more for *_, more in found],
    )


class EncodedRows(MutableRecord):
    """Requests for rows that were encoded together: lists in the rows' order."""

    puts: list[Request]
    """Request for each row."""
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
            self.units = self.units or [1] * before
            self.units += other.units or [1] * more
        self.puts += other.puts
        self.keys += other.keys
        self.odd.update(before + place for place in other.odd)

    def part(self, first: int, end: int) -> EncodedRows:
        """Return some of the rows."""
        units = None if self.units is None else self.units[first:end]
        odd = {row - first for row in self.odd.intersection(range(first, end))}
        return EncodedRows(self.puts[first:end], self.keys[first:end], units, self.row_bytes, odd)


class BatchEncoder:
    """Encoder for rows with the same attributes, as puts into one table."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        nulls: str = OMIT,
        needs: RowWrites = NO_NEEDS,
        *,
        joins_text: bool = True,
    ) -> None:
        """Take what `ItemBuilder` takes, and how rows are encoded: as `Joiner.joins_text` says."""
        self.builder = builder = ItemBuilder(columns, types, table, nulls, needs)
        """Builder of the rows that only it can judge."""
        self._columns, self._types = tuple(columns), list(types)
        self._joins_text = joins_text
        self._keys = builder.keys
        self._limits, self._binary_limits = dict(builder.limits), builder.binary_limits
        # DynamoDB counts two bytes for a number of one digit, and one for a null.
        self._names_bytes = sum(len(name.encode()) for name in columns) + self._types.count("N")
        self._names_bytes += len(columns) * (nulls == NULL)
        names = [to_octets(quoted(name)) for name in columns]
        # Without names for rows that are names and values.
        self._names = [f"{name}:" if joins_text else "" for name in names]
        absent = [
            REFUSED if name in needs.condition_columns else null
            for name, _, null in builder.columns
        ]
        refused = {place for place, value in enumerate(absent) if value is REFUSED}
        self._required = refused.union(self._keys)
        self._absent = [
            f"{name}{compact_json(value)}" if value else ""
            for name, value in zip(self._names, absent, strict=True)
        ]
        self._absent_bytes = [
            len(name.encode()) + value_size(value) if value and value != REMOVAL else 0
            for name, value in zip(columns, absent, strict=True)
        ]
        self._row_bytes = sum(map(len, names)) + 20 * len(names) + len(PUT_BEGIN + PUT_END)

    def encode(self, columns: Columns) -> EncodedRows:
        """Encode a block of rows, and mark those that only the builder can judge as odd."""
        # Numbers of rows among those that have cells.
        odd: set[int] = set()
        cells, around, key_cells, extra, anchor = self._encode_cells(columns, odd)
        keys: list[tuple[Hashable, ...]] = list(zip(*key_cells, strict=True))
        if not self._joins_text:
            puts, size = self._named_values(cells, around, columns.height)
        elif anchor is None:
            puts, size = _join_optional(cells, around, columns.height)
        else:
            puts, size = _join(cells, around)
        # An item's JSON is longer than what DynamoDB counts, and quickly measured.
        is_measured = self._joins_text and columns.longest is None
        sizes = None
        if not is_measured or max(map(len, puts), default=0) > WRITE_UNIT_BYTES:
            sizes = self._sizes(columns, extra, odd, WRITE_UNIT_BYTES - self._names_bytes)
        encoded = EncodedRows(
            puts,
            keys or [()] * columns.height,
            sizes and [-(-(size + self._names_bytes) // WRITE_UNIT_BYTES) for size in sizes],
            -(-size // max(1, len(puts))),
            odd,
        )
        return _spread(encoded, columns) if columns.odd else encoded

    def encode_lines(self, columns: Columns) -> str | None:
        """Encode a block of rows as items, `{"Item":{...}}` and a line end each, in one text.

        None if a row has no line of its own, or only the builder can judge one: then `encode` it.
        """
        if columns.odd or not columns.height or not columns.cells:
            return None
        odd: set[int] = set()
        cells, around, _, extra, anchor = self._encode_cells(columns, odd)
        self._sizes(columns, extra, odd, self._most_bytes)
        if odd or anchor is None:
            return None
        return join_text(cells, around, LINE_BEGIN, LINE_END)

    def values(self, columns: Columns) -> RowValues:
        """Return the values of the rows that it can judge, to measure them."""
        odd: set[int] = set()
        # Strings are measured without their escapes.
        found, identities, _ = self._read_cells(replace(columns, plain=True), odd)
        cells = [encoded for encoded, *_ in found]
        keys = [identities[place] for place in self._keys]
        kinds = [kind if kind in CELL_ENCODERS else "" for kind in self._types]
        lengths, absent = columns.lengths if cells == columns.cells else None, self._absent_bytes
        values = RowValues(columns.numbers, self._columns, kinds, cells, keys, absent, lengths)
        return values.without(odd).fitting()

    def _read_cells(
        self, columns: Columns, odd: set[int]
    ) -> tuple[list[EncodedCells], dict[int, Sequence[Hashable]], list[Sequence[int]]]:
        """Return the cells of each column as JSON, and identities by the place of their column.

        And by how many bytes values are larger than their cells where they are.
        """
        longest, kinds = columns.longest, self._types
        short = longest is not None and longest <= len(kinds) - 1 + PLAIN_LENGTH
        found: list[EncodedCells] = []
        identities: dict[int, Sequence[Hashable]] = {}
        extra: list[Sequence[int]] = []
        for place, (kind, column) in enumerate(zip(kinds, columns.cells, strict=True)):
            if place in self._required and not all(column):
                odd.update(row for row, cell in enumerate(column) if not cell)
                if place in self._keys:
                    column = [cell or FILLER for cell in column]
            most = self._limits.get(place)
            if most is not None and (longest is None or longest > most):
                odd.update(row for row, cell in enumerate(column) if len(cell) > most)
            identities[place] = column
            if kind in CELL_ENCODERS:
                encode = CELL_ENCODERS[kind]
                found.append(encode(column, odd, plain=columns.plain, short=short))
                if kind == "N" and place in self._keys:
                    identities[place] = key_identities(column, short=short)
            else:
                limit = self._binary_limits.get(place)
                encoded, identities[place], more = parse_column(kind, column, odd, limit)
                found.append((encoded, "", ""))
                extra.append(more)
        return found, identities, extra

    def _encode_cells(
        self, columns: Columns, odd: set[int]
    ) -> tuple[
        list[Sequence[str]],
        list[tuple[str, str]],
        list[Sequence[Hashable]],
        list[Sequence[int]],
        int | None,
    ]:
        """Return the cells of each column as JSON, and the markup around those of a column.

        And: the identities of the keys, by how many bytes values are larger than their cells where
        they are, and the anchor. Each attribute brings a comma, on the side of the anchor, which is
        a column that every row has.
        """
        found, identities, extra = self._read_cells(columns, odd)
        full = (place for place, column in enumerate(columns.cells) if all(column))
        anchor = self._keys[0] if self._keys else next(full, None)
        cells: list[Sequence[str]] = []
        around: list[tuple[str, str]] = []
        for place, (column, (encoded, before, after)) in enumerate(
            zip(columns.cells, found, strict=True)
        ):
            leading = trailing = ""
            if self._joins_text:
                leading = "," if anchor is not None and place > anchor else ""
                trailing = "," if anchor is None or place < anchor else ""
            before, after = f"{leading}{self._names[place]}{before}", f"{after}{trailing}"
            if not all(column) and place not in self._keys:
                # Wrap the filled cells alone: an empty one is no attribute, or a null.
                absent = self._absent[place]
                absent = f"{leading}{absent}{trailing}" if absent else ""
                encoded = [
                    f"{before}{cell}{after}" if there else absent
                    for there, cell in zip(column, encoded, strict=True)
                ]
                before = after = ""
            cells.append(encoded)
            around.append((before, after))
        return cells, around, [identities[place] for place in self._keys], extra, anchor

    def _named_values(
        self, cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]], count: int
    ) -> tuple[list[Any], int]:
        """Return the names and values of each row, and the bytes of all."""
        values = [
            [f"{before}{cell}{after}" for cell in column] if before else column
            for column, (before, after) in zip(cells, around, strict=True)
        ]
        size = sum(sum(map(len, column)) for column in values) + count * self._row_bytes
        names, rows = self._columns, zip(*values, strict=True)
        gaps = [map(bool, column) for column in values if not all(column)]
        if not gaps:
            return [(names, row) for row in rows], size
        # Names of the rows with the same gaps, each made once.
        known: dict[tuple[bool, ...], tuple[str, ...]] = {}
        found = []
        for mask, row in zip(zip(*gaps, strict=True), rows, strict=True):
            kept = known.get(mask)
            if kept is None:
                kept = known[mask] = tuple(compress(names, row))
            found.append((kept, tuple(filter(None, row))))
        return found, size

    @property
    def _most_bytes(self) -> int:
        """Most bytes of the values of a row that is surely sent with others."""
        most = (MAX_ROW_BYTES - self._row_bytes) // _LONGEST_ESCAPE
        return min(most, MAX_ITEM_BYTES - self._names_bytes)

    def _sizes(
        self, columns: Columns, extra: Sequence[Sequence[int]], odd: set[int], least: int
    ) -> list[int] | None:
        """Return the bytes of each row's values; None if surely none has more than `least`.

        Rows that may be too long to be sent with others are added to `odd`.
        """
        longest, most = columns.longest, self._most_bytes
        if longest is None:
            longest = sum(max(map(len, column), default=0) for column in columns.cells)
        if longest + sum(max(each, default=0) for each in extra) <= least or not columns.cells:
            return None
        texts = map("".join, zip(*columns.cells, strict=True))
        sizes = list(map(sum, zip(map(len, texts), *extra, strict=True)))
        odd.update(place for place, size in enumerate(sizes) if size > most)
        return sizes


def _join(
    cells: Sequence[Sequence[str]], around: Sequence[tuple[str, str]]
) -> tuple[list[Any], int]:
    """Join cells and the markup around each column to requests. Returns them and their size."""
    rows = len(cells[0])
    if not rows:
        return [], 0
    # A line end separates rows, since JSON of one row has none.
    joined = join_text(cells, around, PUT_BEGIN, f"{PUT_END}\n")
    puts = joined.split("\n")
    puts.pop()
    assert len(puts) == rows, "a line end is escaped in JSON"  # noqa: S101
    return puts, len(joined)


def join_text(
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
) -> tuple[list[Any], int]:
    """Join rows of which any attribute may be missing: each brings the comma after it."""
    if not cells:
        return [PUT_BEGIN + PUT_END] * count, count * len(PUT_BEGIN + PUT_END)
    puts, size = _join(cells, around)
    last = f",{PUT_END}"
    return [f"{put[: -len(last)]}{PUT_END}" if put.endswith(last) else put for put in puts], size


def _spread(encoded: EncodedRows, columns: Columns) -> EncodedRows:
    """Give the requests of the rows that have cells the numbers of these rows in the block."""
    numbers = columns.numbers
    puts: list[Request] = [""] * columns.count
    keys: list[tuple[Hashable, ...]] = [()] * columns.count
    units = None if encoded.units is None else [1] * columns.count
    for place, row in enumerate(numbers):
        puts[row], keys[row] = encoded.puts[place], encoded.keys[place]
        if units is not None and encoded.units is not None:
            units[row] = encoded.units[place]
    odd = columns.odd.union([numbers[place] for place in encoded.odd])
    return EncodedRows(puts, keys, units, encoded.row_bytes, odd)
