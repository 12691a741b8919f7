"""Tests of reading blocks as columns, malformed rows and wide headers included."""

from __future__ import annotations

import tracemalloc

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block
from ddbload.rows.columns import ColumnReader, Columns, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries


def read(data: str, count: int = 2, dialect: Dialect | None = None) -> Columns:
    dialect = dialect or Dialect()
    reader = ColumnReader(RowParser(dialect, dialect_boundaries(dialect)), count)
    block = Block(data.encode(errors="surrogateescape"), Cursor(0, 1))
    return reader.read(block)


@pytest.mark.parametrize("said", ["\x1f", "\\", "\0", "\t"])
def test_cells_are_not_plain_when_json_escapes_them(said: str) -> None:
    assert not read(f"a,{said}\n").plain
    assert read("a,\x7f\u2028é\n").plain


@pytest.mark.parametrize("row", ["1,2\n", "1,2\r", '"1",2\n', "1\xff,2\n"])
def test_cells_of_short_rows_take_no_memory_under_a_wide_header(row: str) -> None:
    rows, width = 2_000, 100_000
    wide = ",".join(["x"] * width) + "\n"
    columns = read(row.replace("\xff", "\udcff") * rows + wide, width)
    assert columns.count == rows + 1
    assert columns.odd == set(range(rows))
    assert sum(map(len, columns.cells)) == width
    assert columns.cells_without(set()) is columns.cells


def test_doubled_quotes_take_little_memory() -> None:
    """Pieces between quotes took fifty times the size of the text: 840 MB for a row of 16 MB."""
    doubled = 200_000 * '""'
    data = f'1,"{doubled}"\n'
    tracemalloc.start()
    try:
        columns = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(columns.cells[1][0]) == 200_000
    assert peak < 20 * len(data)
