"""Tests of the fields, positions and raw text of rows."""

from __future__ import annotations

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.errors import SplitMismatch
from ddbload.rows import blocks
from ddbload.rows.blocks import Block, Defect, RowPositions, count_line_ends
from ddbload.rows.columns import ParsedRow, ParsedRows, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries

START = Cursor(1000, 50)


def _rows(data: str | bytes, delimiter: str = ",", quote: str | None = '"') -> ParsedRows:
    dialect = Dialect(delimiter, quote)
    data = data.encode() if isinstance(data, str) else data
    return RowParser(dialect, dialect_boundaries(dialect)).parse(Block(data, START))


def _records(data: str | bytes, delimiter: str = ",", quote: str | None = '"') -> list[ParsedRow]:
    return _rows(data, delimiter, quote).records


@pytest.mark.parametrize(
    ("row", "cause", "column"),
    [
        (b'1,"a"b,c', "bad_quote", 1),
        (b'"1" ,a', "bad_quote", 0),
        (b'1,"a"b,"c"d', "bad_quote", 1),
        (b'1,"a', "unterminated_quote", 1),
        (b'"', "unterminated_quote", 0),
        (b'1,"a"b,c"', "bad_quote", 1),
        (b"1,caf\xe9,\xff", "bad_encoding", 1),
        (b'"a\xff\n",b', "bad_encoding", 0),
        # Without the mark between them, the bytes would be a character.
        (b'"\xe2"\x82\xac,b', "bad_encoding", 0),
    ],
)
def test_malformed_row_spoils_no_other(row: bytes, cause: str, column: int) -> None:
    before, bad = _records(b'x,"y"\n' + row + b"\n")[:2]
    assert before == ["x", "y"]
    assert isinstance(bad, Defect)
    assert (bad.cause, bad.column) == (cause, column)
    if cause != "unterminated_quote":
        assert _records(row + b'\nx,"y, z"\n\n""\n')[1:] == [["x", "y, z"], [""]]


CP1252 = "name the file's encoding (--encoding)"


def test_defect_shows_the_undecodable_byte() -> None:
    (defect,) = _records(b"caf\xe9\n")
    assert defect == Defect("bad_encoding", f"byte 0xE9 is not UTF-8 here; {CP1252}", 0)


def test_positions_of_all_rows_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def count(data: bytes, start: int = 0, end: int | None = None) -> int:
        stop = len(data) if end is None else end
        counted.append(stop - start)
        return count_line_ends(data, start, stop)

    data = 'a,"b\nc"\n' * 5000
    rows = _rows(data)
    monkeypatch.setattr(blocks, "count_line_ends", count)
    for row in range(5000):
        assert rows.position(row) == Cursor(1000 + 8 * row, 50 + 2 * row)
    assert sum(counted) < len(data)


@pytest.mark.parametrize("parsed", [1, 3])
def test_split_mismatch_is_raised_when_parser_and_boundaries_differ(parsed: int) -> None:
    rows = _rows("a\nb\n")
    rows = RowPositions(rows.block, rows.ends, parsed)
    with pytest.raises(SplitMismatch, match=f"1004 .* 2 rows and the parser {parsed}"):
        rows.position(0)


def test_field_of_three_megabytes_is_read() -> None:
    inside = "漢,\n" * 600_000
    data = f'1,"{inside}"\n2,b\n'
    assert len(data.encode()) > 3_000_000
    rows = _rows(data)
    assert rows.records == [["1", inside], ["2", "b"]]
    assert rows.position(1).line == START.line + 600_001
