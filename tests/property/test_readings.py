"""Any table in any dialect is read as it was written, or refused with the reading that is right."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block
from ddbload.rows.columns import RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.rows.readings import Reading
from ddbload.rows.sniff import sniff

WORD = st.text("abcdefgäöñ", min_size=1, max_size=7)
NUMBER = st.one_of(st.integers(-999, 99_999).map(str), st.decimals(0, 99, places=2).map(str))
TEXT = st.one_of(
    WORD,
    st.lists(WORD, min_size=2, max_size=4).map(" ".join),
    st.builds("{}, {}; {}".format, WORD, WORD, WORD),
    st.builds('{} "{}"'.format, WORD, WORD),
    st.builds("{}\n{}".format, WORD, WORD),
    st.builds("{}'{}".format, WORD, WORD),
    st.just(""),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A table, and a file that holds it."""

    rows: list[list[str]]
    data: bytes


@st.composite
def written(draw: st.DrawFn) -> Written:
    width = draw(st.integers(2, 6))
    names = draw(st.lists(WORD, min_size=width, max_size=width, unique=True))
    kinds = [NUMBER, *(draw(st.sampled_from((NUMBER, TEXT, WORD))) for _ in names[1:])]
    rows = [[draw(kind) for kind in kinds] for _ in range(draw(st.integers(3, 12)))]
    out = io.StringIO()
    # A few cells in single quotes may be text; all of them are quoted.
    quote = draw(st.sampled_from("\"'"))
    quotings = (csv.QUOTE_ALL, csv.QUOTE_MINIMAL) if quote == '"' else (csv.QUOTE_ALL,)
    writer = csv.writer(
        out,
        delimiter=draw(st.sampled_from(",;\t|")),
        quotechar=quote,
        quoting=draw(st.sampled_from(quotings)),
        lineterminator=draw(st.sampled_from(("\n", "\r\n"))),
    )
    writer.writerows([names, *rows])
    before = draw(st.sampled_from(("", "", "# made by hand\n", "Report\n\n", "\ufeff")))
    return Written([names, *rows], (before + out.getvalue()).encode())


def read(data: bytes, reading: Reading) -> list[list[str] | None]:
    """Read a file as a reading says: names, and rows. None stands for a row that is rejected."""
    dialect = Dialect(reading.delimiter, reading.quote, reading.escape, reading.comment)
    lines = data.removeprefix("\ufeff".encode()).splitlines(keepends=True)
    block = Block(b"".join(lines[reading.skip_lines :]), Cursor(0, 1))
    records = RowParser(dialect, dialect_boundaries(dialect)).parse(block).records
    rows = [each if isinstance(each, list) else None for each in records]
    return rows if reading.columns is None else [list(reading.columns), *rows]


@given(written())
def test_table_is_read_or_refused_with_the_right_reading(file: Written) -> None:
    found = sniff(file.data, name="data.csv", whole=True)
    assert found.reading is not None
    readings = (found.reading,) if found.doubt is None else found.doubt.readings
    read_rows = [read(file.data, each) for each in readings]
    if found.doubt is None and None in read_rows[0]:
        # Rows are rejected, which is not silent.
        return
    assert file.rows in read_rows, (readings, file.data)
