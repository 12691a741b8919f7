"""Headers and rows with absurdly many fields."""

from __future__ import annotations

import tracemalloc

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import Source
from ddbload.errors import TooManyColumns
from ddbload.reading.header import read_header
from ddbload.rows.blocks import Block
from ddbload.rows.columns import ColumnReader, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.source.decoding.decoded_source import DecodedSource
from tests.unit.source.memory_source import MemorySource

SOURCE = Source(bucket="b", key="k")
PARSER = RowParser(Dialect.of(SOURCE), dialect_boundaries(Dialect.of(SOURCE)))


def _refuse(data: bytes) -> None:
    file = DecodedSource(MemorySource(data))
    with pytest.raises(TooManyColumns, match="at line 1, byte 0, has more than 100,000 fields"):
        read_header(file, SOURCE, 16 << 20)


@pytest.mark.parametrize("cell", [b"ab,", b'"a",'])
def test_header_of_one_column_too_many_is_refused(cell):
    _refuse((cell * 100_001)[:-1] + b"\n1,2\n")


def test_header_of_a_million_columns_is_refused_in_little_memory():
    """A header of 15 MB took 2 GB."""
    tracemalloc.start()
    try:
        _refuse(b"ab," * 1_000_000 + b"\n1,2\n")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_row_of_delimiters_takes_little_memory_and_leaves_its_neighbours():
    """A row of 5 million fields beside a header of two took 500 MB."""
    data = b"1,2\n" + b"ab," * 1_000_000 + b"\n3,4\n"
    columns = ColumnReader(PARSER, 2).read(Block(data, Cursor(0, 1)))
    assert (columns.count, columns.odd) == (3, {1})
    assert [list(column) for column in columns.cells] == [["1", "3"], ["2", "4"]]
    assert len(PARSER.parse_row(data[4:-4])) == 100_001


def test_short_rows_below_a_wide_header_take_little_memory():
    """Each row of four bytes was filled up with a hundred thousand empty cells."""
    data = b"1,2\n" * 20_000
    tracemalloc.start()
    try:
        columns = ColumnReader(PARSER, 100_000).read(Block(data, Cursor(0, 1)))
        assert (columns.count, len(columns.odd), columns.height) == (20_000, 20_000, 0)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
