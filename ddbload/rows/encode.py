"""From rows to the bodies of BatchWriteItem, many at a time.

`ItemBuilder` says what the item of a row is, one cell after the other. Here the same is found
out a column at a time, for as many rows as are read at once, and a body is one `%` of 25 rows.
What cannot be seen to be right that way (a row of another length, a number with an exponent, a
very long row) is left to the builder, so that there is one place for rules and reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring as quoted

from ddbload.contracts import Table
from ddbload.rows.items import Attributes, key_limits
from ddbload.rows.parse import Record
from ddbload.rows.types import BadValue, boolean, number

MAX_ROW_BYTES = 600_000
"""JSON of one row that is encoded with others: 25 of them fit in a request."""
_MAX_TEMPLATE_BYTES = 1024 * 1024
_ESCAPE = 6
"""Bytes of JSON for one of text, at most."""

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_PLAIN_NUMBERS = re.compile(r"(?:-?[0-9]+(?:\.[0-9]+)?)?(?:,(?:-?[0-9]+(?:\.[0-9]+)?)?)*")
_PLAIN_LENGTH = 38
"""Characters, so no more digits than DynamoDB keeps, and nothing out of range."""

Cells = Sequence[str]
"""A row's cells as they stand in JSON, without quotes; an empty one is no attribute."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found out of rows; a list for each thing, in the rows' order."""

    cells: Sequence[Cells | None]
    """None: ask the builder."""
    keys: Sequence[Hashable]
    """As the builder's; of no meaning where it is to be asked."""
    units: Sequence[int] | None
    """Write units, or more; None: one each."""
    row_bytes: int
    """JSON of a row, on the average, or more."""


class Encoder:
    """Encodes rows with the same columns as puts into one table."""

    def __init__(self, columns: Sequence[str], types: Sequence[str], table: Table) -> None:
        self._count = len(columns)
        self._types = list(types)
        self._keys = [columns.index(key.name) for key in table.keys]
        self._limits = key_limits(columns, table)
        self._names_bytes = sum(len(name.encode()) for name in columns)
        wrap = {"S": '{"S":"%s"}', "N": '{"N":"%s"}', "BOOL": '{"BOOL":%s}'}
        self._parts = [
            (f"{quoted(name)}:".replace("%", "%%") + wrap[kind])
            for name, kind in zip(columns, types, strict=True)
        ]
        self._row = '{"PutRequest":{"Item":{' + ",".join(self._parts) + "}}}"
        self._prefix = f'{{"RequestItems":{{{quoted(table.name)}:['
        self._suffix = ']},"ReturnConsumedCapacity":"TOTAL"}'
        self._row_bytes = len(self._row.encode())
        self._templates: dict[int, str] = {}

    def examine(self, records: Sequence[Record]) -> Examined:
        """Check rows, and make them ready for `body`."""
        odd: set[int] = set()
        rows: list[Cells] = list(records)  # type: ignore[arg-type]
        if set(map(type, records)) != {list} or set(map(len, rows)) != {self._count}:
            empty = ("",) * self._count
            for place, record in enumerate(records):
                if not isinstance(record, list) or len(record) != self._count:
                    odd.add(place)
                    rows[place] = empty
        columns: list[Sequence[str]] = list(zip(*rows, strict=True))
        keys = self._check_keys(columns, odd)
        changed = False
        ascii_only = True
        for place, kind in enumerate(self._types):
            column = columns[place]
            cells, plain = _READERS[kind](column, odd)
            ascii_only = ascii_only and plain
            if cells is not column:
                columns[place], changed = cells, True
        units, row_bytes = self._measure(rows, odd, ascii_only=ascii_only)
        if changed:
            rows = list(zip(*columns, strict=True))
        found: list[Cells | None] = list(rows)
        for place in odd:
            found[place] = None
        return Examined(found, keys, units, row_bytes)

    def body(self, rows: Sequence[Cells | Attributes]) -> bytes:
        """The body of one request that puts up to 25 rows: cells, or the builder's items."""
        template = self._template(len(rows))
        if template is not None and dict not in map(type, rows):
            flat = tuple(chain.from_iterable(rows))
            if "" not in flat:
                return (template % flat).encode()
        return f"{self._prefix}{','.join(map(self._put, rows))}{self._suffix}".encode()

    def _put(self, row: Cells | Attributes) -> str:
        if isinstance(row, dict):
            return f'{{"PutRequest":{{"Item":{_json(row)}}}}}'
        if "" not in row:
            return self._row % tuple(row)
        parts = [part % cell for part, cell in zip(self._parts, row, strict=True) if cell]
        return '{"PutRequest":{"Item":{' + ",".join(parts) + "}}}"

    def _template(self, count: int) -> str | None:
        found = self._templates.get(count)
        if found is None and self._row_bytes * count <= _MAX_TEMPLATE_BYTES:
            prefix = self._prefix.replace("%", "%%")
            found = prefix + ",".join([self._row] * count) + self._suffix
            self._templates[count] = found
        return found

    def _check_keys(self, columns: Sequence[Sequence[str]], odd: set[int]) -> list[Hashable]:
        for place, most in self._limits:
            column = columns[place]
            # A character is at most four bytes: most keys need no encoding to be measured.
            if 4 * max(map(len, column), default=0) > most:
                odd.update(row for row, cell in enumerate(column) if 4 * len(cell) > most)
        values: list[Iterable[Hashable]] = []
        for place in self._keys:
            column = columns[place]
            if "" in column:
                odd.update(row for row, cell in enumerate(column) if not cell)
            values.append(_identities(column) if self._types[place] == "N" else column)
        return list(zip(*values, strict=True))

    def _measure(
        self, rows: Sequence[Cells], odd: set[int], *, ascii_only: bool
    ) -> tuple[list[int] | None, int]:
        texts = map("".join, rows)
        sizes = list(map(len, texts if ascii_only else map(str.encode, texts)))
        longest = max(sizes, default=0)
        average = self._row_bytes + -(-sum(sizes) // max(1, len(sizes)))
        if self._row_bytes + _ESCAPE * longest > MAX_ROW_BYTES:
            most = (MAX_ROW_BYTES - self._row_bytes) // _ESCAPE
            odd.update(place for place, size in enumerate(sizes) if size > most)
        if longest + self._names_bytes <= 1024:
            return None, average
        return [-(-(size + self._names_bytes) // 1024) or 1 for size in sizes], average


def request_body(table: str, items: Sequence[Attributes]) -> bytes:
    """The body of one request that puts these items, the plain way."""
    requests = [{"PutRequest": {"Item": item}} for item in items]
    return _json({"RequestItems": {table: requests}, "ReturnConsumedCapacity": "TOTAL"}).encode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Read = tuple[Sequence[str], bool]
"""A column's cells as they stand in JSON, and whether all of it is ASCII."""


def _strings(column: Sequence[str], odd: set[int]) -> Read:  # noqa: ARG001 - like the others
    text = "".join(column)
    if _ESCAPED.search(text):
        column = [quoted(cell)[1:-1] for cell in column]
    return column, text.isascii()


def _numbers(column: Sequence[str], odd: set[int]) -> Read:
    if max(map(len, column), default=0) <= _PLAIN_LENGTH:
        text = "".join(column)
        if not text or (text.isascii() and text.isdigit()):
            return column, True
        if _PLAIN_NUMBERS.fullmatch(",".join(column)):
            return column, True
    cells = list(column)
    for place, cell in enumerate(column):
        if cell:
            try:
                cells[place] = number(cell).text
            except BadValue:
                odd.add(place)
    return cells, True


def _booleans(column: Sequence[str], odd: set[int]) -> Read:
    cells = list(column)
    for place, cell in enumerate(column):
        if cell:
            try:
                cells[place] = "true" if boolean(cell) else "false"
            except BadValue:
                odd.add(place)
    return cells, True


_READERS: dict[str, Callable[[Sequence[str], set[int]], Read]] = {
    "S": _strings,
    "N": _numbers,
    "BOOL": _booleans,
}


def _identities(column: Sequence[str]) -> list[Hashable]:
    text = "".join(column)
    plain = text.isascii() and text.isdigit() and "" not in column
    if plain and max(map(len, column)) <= _PLAIN_LENGTH:
        return list(map(int, column))
    return [_identity(cell) for cell in column]


def _identity(cell: str) -> Hashable:
    try:
        return number(cell).value
    except BadValue:
        return None
