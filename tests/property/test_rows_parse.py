"""Laws of parsing: the rows are the same, however a source is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block
from ddbload.rows.columns import RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from tests.property.rows_files import File, files
from tests.unit.rows.expected import line_at, rows_of
from tests.unit.rows.row_readers import assert_same_rows, read_all


@given(files())
def test_rows_of_a_block_equal_the_oracles(file: File) -> None:
    found = read_all(file.data, file.dialect)
    assert_same_rows(found, rows_of(file.data, *file.marks), file.data, file.dialect.encoding)


@given(files(), st.data())
def test_positions_can_be_asked_for_in_any_order(file: File, data: st.DataObject) -> None:
    rows = RowParser(file.dialect, dialect_boundaries(file.dialect)).parse(
        Block(file.data, Cursor(0, 1))
    )
    expected = rows_of(file.data, *file.marks)
    for number in data.draw(st.permutations(range(len(rows.records)))):
        row = expected[number]
        assert rows.position(number) == Cursor(row.byte, row.line)
        assert rows.span(number) == (row.byte, row.end_byte)
        assert rows.after(number) == Cursor(row.end_byte, line_at(file.data, row.end_byte))
