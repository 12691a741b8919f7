"""Laws of columns: they hold the oracle's rows."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block
from ddbload.rows.columns import ColumnReader, Columns, RowParser, from_octets, to_octets
from ddbload.rows.dialect_grammar import dialect_boundaries
from tests.oracle.csv_machine import Row
from tests.property.rows_files import File, files
from tests.unit.rows.expected import rows_of


def _read(file: File, count: int) -> Columns:
    reader = ColumnReader(RowParser(file.dialect, dialect_boundaries(file.dialect)), count)
    return reader.read(Block(file.data, Cursor(0, 1)))


def _expected(file: File) -> list[Row]:
    return rows_of(file.data, *file.marks)


@given(files(), st.integers(1, 4))
def test_cells_equal_the_oracles(file: File, count: int) -> None:
    columns, expected = _read(file, count), _expected(file)
    assert columns.count == len(expected)
    good = [row for number, row in enumerate(expected) if number not in columns.odd]
    assert [len(cells) for cells in columns.cells] == [len(good)] * count
    for place, row in enumerate(good):
        assert [from_octets(cells[place]) for cells in columns.cells] == row.fields
    for number in columns.odd:
        assert expected[number].defect is not None or len(expected[number].fields) != count


@given(files(), st.integers(1, 4))
def test_no_row_is_longer_than_the_longest(file: File, count: int) -> None:
    columns = _read(file, count)
    if columns.longest is not None:
        for row in _expected(file):
            if row.defect is None:
                assert sum(len(to_octets(field)) for field in row.fields) <= columns.longest


@given(files(), st.integers(1, 4))
def test_plain_cells_need_no_escapes_in_json(file: File, count: int) -> None:
    columns = _read(file, count)
    if columns.plain:
        for cell in (cell for cells in columns.cells for cell in cells):
            assert json.dumps(cell, ensure_ascii=False) == f'"{cell}"'


@given(st.text(st.characters(codec="utf-8")))
def test_octets_are_utf_8(said: str) -> None:
    assert to_octets(said).encode("latin-1") == said.encode()
    assert from_octets(to_octets(said)) == said
