"""Laws of columns: they hold the oracle's rows."""

from __future__ import annotations

import json
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows import quoted_text, row_parser
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.columns import Columns, from_octets, to_octets
from ddbload.rows.quoted_text import unescaped
from ddbload.rows.row_parser import ColumnReader, RowParser
from tests.oracle.csv_machine import Row
from tests.property.rows_files import File, files
from tests.unit.rows.expected import rows_of


def _read(file: File, count: int, *, escape: bool = False) -> Columns:
    reader = ColumnReader(RowParser(file.dialect, dialect_boundaries(file.dialect)), count)
    return reader.read(Block(file.data, Cursor(0, 1)), escape=escape)


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


@st.composite
def quoted_files(draw: st.DrawFn) -> tuple[File, int]:
    """Generate rows of equally many cells, of which many are quoted, some with a bad character."""
    delimiter, end = draw(st.sampled_from(",,\t;a")), draw(st.sampled_from(["\n", "\n", "\r\n"]))
    count = draw(st.integers(1, 4))
    quoted = st.text(st.sampled_from(f'{delimiter}"\n\r\t\\\x1f x7é😀'), max_size=6).map(
        lambda text: '"' + text.replace('"', '""') + '"'
    )
    bare = st.text(st.sampled_from("x7 é😀\\"), max_size=3)
    rows = draw(
        st.lists(st.lists(quoted | bare, min_size=count, max_size=count), min_size=1, max_size=4)
    )
    text = "".join(delimiter.join(row) + end for row in rows)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = (
            text[:place] + draw(st.sampled_from(["", *f'{delimiter}"\r\n\\x'])) + text[place + 1 :]
        )
    return File(text.encode(), Dialect(delimiter)), count


@given(quoted_files() | st.tuples(files(), st.integers(1, 4)))
def test_escaped_cells_equal_the_oracles(case: tuple[File, int]) -> None:
    file, count = case
    with (
        mock.patch.object(row_parser, "LONG_CELL_BYTES", 0),
        mock.patch.object(quoted_text, "MOST_OUTSIDE", 1),
        mock.patch.object(quoted_text, "LEAST_QUOTE_BYTES", 0),
    ):
        columns = _read(file, count, escape=True)
    if not columns.escaped:
        assert columns == _read(file, count)
        return
    expected = _expected(file)
    assert (columns.count, columns.odd) == (len(expected), set())
    assert all(row.defect is None and len(row.fields) == count for row in expected)
    for cells, texts in zip(
        columns.cells, zip(*(row.fields for row in expected), strict=True), strict=True
    ):
        assert [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts] == [
            from_octets(cell) for cell in cells
        ]
        assert [from_octets(cell) for cell in unescaped(cells)] == list(texts)


@given(st.text(st.characters(codec="utf-8")))
def test_octets_are_utf_8(said: str) -> None:
    assert to_octets(said).encode("latin-1") == said.encode()
    assert from_octets(to_octets(said)) == said
