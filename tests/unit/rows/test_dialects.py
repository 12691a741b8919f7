"""Tests of fields in dialects with escapes, comments, longer delimiters and other encodings."""

from __future__ import annotations

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block, Defect
from ddbload.rows.columns import ColumnReader, ParsedRow, ParsedRows, RowParser, from_octets
from ddbload.rows.dialect_grammar import dialect_boundaries

BACKSLASH = Dialect(escape="\\")
START = Cursor(1000, 50)


def _rows(data: str | bytes, dialect: Dialect, *markers: str) -> ParsedRows:
    data = data.encode(dialect.encoding) if isinstance(data, str) else data
    rows = RowParser(dialect, dialect_boundaries(dialect), markers).parse(Block(data, START))
    assert rows.records == RowParser(dialect, rows.ends, markers).parse_rows(rows.block)
    return rows


def _records(data: str | bytes, dialect: Dialect, *markers: str) -> list[ParsedRow]:
    return _rows(data, dialect, *markers).records


def _columns(data: str, dialect: Dialect, *markers: str) -> list[list[str]]:
    reader = ColumnReader(RowParser(dialect, dialect_boundaries(dialect), markers), 2)
    columns = reader.read(Block(data.encode(dialect.encoding), START))
    assert not columns.odd
    return [[from_octets(cell) for cell in cells] for cells in columns.cells]


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        ("a\t\\N\nb\\\tc\t\\\\N\n", Dialect("\t", None, "\\")),
        ('"a",\\N\n"b,c"', BACKSLASH),
        ("a||\\N\nb||c\n", Dialect("||", '"', "\\")),
    ],
)
def test_marker_is_recognized_before_escapes_are_resolved(data: str, dialect: Dialect) -> None:
    assert _records(data, dialect, "\\N")[0] == ["a", ""]
    assert _records(data, dialect)[0] == ["a", "N"]


def test_single_byte_encodings_are_split_by_bytes() -> None:
    dialect = Dialect("€", "«", encoding="cp1252")
    rows = _rows(b"caf\xe9\x80\xabx\x80\xab\xab\n\xab\n\x81\x80y\n", dialect)
    assert rows.records == [
        ["café", "x€«\n"],
        Defect("bad_encoding", "byte 0x81 is not cp1252 here", 0),
    ]
    assert rows.raw(0) == "café€«x€««\n«"
    assert rows.raw(1) == "\udc81€y"
    assert _columns("café€«x€«\n", dialect) == [["café"], ["x€"]]


def test_long_field_with_escapes_does_not_recurse() -> None:
    inside = 'a\\"b\\\n' * 300_000
    data = f'1||"{inside}"\n2||b\\|\n'
    (first, second) = _records(data, Dialect("||", '"', "\\"))
    assert first == ["1", 'a"b\n' * 300_000]
    assert second == ["2", "b|"]
