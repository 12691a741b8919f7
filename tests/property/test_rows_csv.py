"""Laws of well-formed files: they have the rows that Python's `csv` module reads."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block
from ddbload.rows.columns import RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from tests.property.rows_files import File, files
from tests.unit.rows.row_readers import read_all

MARKS = [(",", '"', None), ("\t", None, "\\"), (";", "'", "\\"), ("|", '"', "^")]
SPECIAL = ",;\t|\"'\\^\r\n#é\0"

rows_of_texts = st.lists(
    st.lists(st.text(st.sampled_from(SPECIAL + "ab ")), min_size=2, max_size=4), max_size=8
)
piece_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@given(files())
def test_rows_equal_those_of_the_csv_module(file: File) -> None:
    dialect = file.dialect
    if len(dialect.delimiter) > 1 or dialect.comment is not None:
        return
    try:
        expected = _csv_rows(file.data.decode(dialect.encoding), dialect)
    except (csv.Error, UnicodeDecodeError):
        return
    ends = dialect_boundaries(dialect)
    found = RowParser(dialect, ends).parse(Block(file.data, Cursor(0, 1)))
    assert found.records == expected
    assert RowParser(dialect, ends).parse_rows(found.block) == expected


@given(files())
def test_file_that_the_csv_module_refuses_has_a_reject(file: File) -> None:
    dialect = file.dialect
    if len(dialect.delimiter) > 1 or dialect.comment is not None:
        return
    try:
        _csv_rows(file.data.decode(dialect.encoding), dialect)
    except (csv.Error, UnicodeDecodeError):
        rows = read_all(file.data, dialect)
        assert any(not isinstance(row.record, list) for row in rows)


@given(
    texts=rows_of_texts,
    doubled=st.booleans(),
    marks=st.sampled_from(MARKS),
    chunk_bytes=st.integers(1, 80),
    piece_bytes=piece_sizes,
)
def test_rows_that_the_csv_module_writes_are_read_back(
    marks: tuple[str, str | None, str | None],
    texts: list[list[str]],
    doubled: bool,
    chunk_bytes: int,
    piece_bytes: list[int],
) -> None:
    delimiter, quote, escape = marks
    written = io.StringIO()
    csv.writer(
        written,
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        doublequote=doubled or escape is None,
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        # With one character of these the writer lets the other one stand without quotes.
        lineterminator="\r\n",
    ).writerows(texts)
    dialect = Dialect(delimiter, quote, escape)
    data = written.getvalue().encode()
    found = read_all(data, dialect, chunk_bytes=chunk_bytes, piece_bytes=piece_bytes)
    assert [row.record for row in found] == texts


def _csv_rows(text: str, dialect: Dialect) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape,
        quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    return [row for row in reader if row]
