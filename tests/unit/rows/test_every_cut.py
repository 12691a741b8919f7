"""Tests that cut the golden files at every byte, and read every short text."""

from __future__ import annotations

import itertools

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block, RowBoundaries
from ddbload.rows.columns import ColumnReader, RowParser, to_octets
from ddbload.rows.dialect_grammar import DelimitedBoundaries
from ddbload.rows.dialect_grammar import dialect_boundaries as ends_of
from ddbload.rows.file_signatures import BYTE_ORDER_MARK
from tests.golden.cases import Golden, load_all
from tests.oracle.csv_machine import Row
from tests.unit.rows.expected import certain_ends, row_ends, rows_of, terminated_ends
from tests.unit.rows.row_readers import assert_same_rows, blocks_of, read_all, rows_of_blocks

SYMBOLS = ("a", ",", '"', "\r", "\n")
"""Enough symbols for every transition of the oracle's machine."""

GOLDEN = [golden for golden in load_all() if len(golden.data) <= 4096]
each_file = pytest.mark.parametrize("golden", GOLDEN, ids=[golden.name for golden in GOLDEN])


def row_ends_near(dialect: Dialect, near_bytes: int) -> RowBoundaries:
    """Return boundaries that look back a few bytes only, even in texts as short as these."""
    return DelimitedBoundaries(dialect, near_bytes)


def _dialect(golden: Golden) -> Dialect:
    return Dialect(golden.delimiter, golden.quote)


def _start(golden: Golden) -> Cursor:
    return Cursor(len(BYTE_ORDER_MARK) if golden.data.startswith(BYTE_ORDER_MARK) else 0, 1)


@each_file
def test_rows_are_the_same_when_pieces_part_at_any_byte(golden: Golden) -> None:
    start = _start(golden)
    data = golden.data[start.byte :]
    ends = ends_of(_dialect(golden))
    parser = RowParser(_dialect(golden), ends)
    for first in range(1, len(data) + 1):
        found = rows_of_blocks(blocks_of(data, ends, start, (first, len(data))), parser)
        assert_same_rows(list(found), golden.rows, golden.data)


@each_file
def test_rows_are_the_same_with_any_chunk_size(golden: Golden) -> None:
    start = _start(golden)
    data = golden.data[start.byte :]
    for chunk_bytes in range(1, len(data) + 2):
        found = read_all(data, _dialect(golden), start, chunk_bytes=chunk_bytes)
        assert_same_rows(found, golden.rows, golden.data)


@pytest.mark.parametrize(
    ("delimiter", "quote", "longest", "old_python"),
    [
        *((",", '"', 5, False), ("§", '"', 4, False), (",", "«", 4, False)),
        *(("€", "😀", 4, False), (",", None, 5, False)),
        *((",", '"', 5, True), ("€", "😀", 3, True)),
    ],
)
def test_every_short_text_is_read_as_the_oracle_reads_it(
    delimiter: str,
    quote: str | None,
    longest: int,
    old_python: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if old_python:
        monkeypatch.setattr("ddbload.rows.blocks._POSSESSIVE_IS_BROKEN", True)
    marks = {",": delimiter, '"': quote or '"'}
    alphabet = [marks.get(symbol, symbol).encode() for symbol in SYMBOLS]
    dialect = Dialect(delimiter, quote)
    # Of texts as short as these it would look at all.
    _assert_every_text(dialect, row_ends_near(dialect, 1), alphabet, longest)


def test_every_quoted_text_of_six_symbols_is_read_as_the_oracle_reads_it() -> None:
    dialect = Dialect()
    for rest in itertools.product([symbol.encode() for symbol in SYMBOLS], repeat=5):
        _assert_text(dialect, row_ends_near(dialect, 1), b'"' + b"".join(rest))


@pytest.mark.parametrize(
    ("dialect", "symbols"),
    [
        (Dialect(",", '"', "\\"), 'a,"\\\r\n'),
        (Dialect("||", '"', "\\"), 'a|"\\\n'),
        (Dialect("|a|", '"'), 'a|"\r\n'),
        (Dialect(",", None, "\\"), "a,\\\r\n"),
        (Dialect(",", '"', None, "#"), 'a,"#\r\n'),
        (Dialect("#,", '"', "\\", "#"), '"#,\\\n'),
        (Dialect("é", "€", "\\"), "é€\\\n"),
        (Dialect("\xa4", "\xff", "\xe9", encoding="iso8859-1"), "\xa4\xff\xe9\n"),
    ],
    ids=str,
)
def test_every_short_text_of_other_dialects_is_read_as_the_oracle_reads_it(
    dialect: Dialect, symbols: str
) -> None:
    alphabet = [symbol.encode(dialect.encoding) for symbol in symbols]
    ends = row_ends_near(dialect, 1)
    _assert_every_text(dialect, ends, alphabet, 4 if len(alphabet) > 4 else 5)


def _assert_every_text(
    dialect: Dialect, ends: RowBoundaries, alphabet: list[bytes], longest: int
) -> None:
    for length in range(longest + 1):
        for text in itertools.product(alphabet, repeat=length):
            _assert_text(dialect, ends, b"".join(text))


def _assert_text(dialect: Dialect, ends: RowBoundaries, data: bytes) -> None:
    encoding = dialect.encoding
    marks = (dialect.delimiter, dialect.quote, dialect.escape, dialect.comment, encoding)
    terminated, certain = terminated_ends(data, *marks), certain_ends(data, *marks)
    assert tuple(ends.all(data)) == row_ends(data, *marks)
    more = data + (b"z\n" if dialect.escape else b"\n")
    assert ends.closes(data) is (len(more) in row_ends(more + b"a", *marks)), data
    assert ends.last(data, final=False) == max(certain, default=0), data
    assert ends.last(data, final=True) == max(terminated, default=0), data
    for offset in range(1, len(data) + 1):
        first = min((end for end in terminated if end >= offset), default=0)
        assert ends.first_from(data, offset, final=True) == first, (data, offset)
        expected = first if first in certain else 0
        assert ends.first_from(data, offset, final=False) == expected, (data, offset)
    rows = rows_of(data, *marks)
    assert_same_rows(read_all(data, dialect), rows, data, encoding)
    spans = [(row.byte, row.end_byte) for row in rows]
    assert ends.spans(data) == spans, data
    columns = ColumnReader(RowParser(dialect, ends), 2).read(Block(data, Cursor(0, 1)))
    odd = {number for number, row in enumerate(rows) if not _has_two_fields(row)}
    assert columns.odd == odd, data
    good = [row.fields for number, row in enumerate(rows) if number not in odd]
    cells = [tuple(map(to_octets, fields)) for fields in good]
    assert list(zip(*columns.cells, strict=True)) == cells, data


def _has_two_fields(row: Row) -> bool:
    return row.defect is None and len(row.fields) == 2
