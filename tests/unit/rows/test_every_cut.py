"""The awkward files, cut everywhere; and every short text there is."""

from __future__ import annotations

import itertools

import pytest

from ddbload.contracts import Cursor
from ddbload.rows.dialect import BYTE_ORDER_MARK, Dialect
from ddbload.rows.parse import RowParser
from ddbload.rows.split import row_ends as ends_of
from tests.golden.cases import Golden, load_all
from tests.unit.rows.expected import certain_ends, row_ends, rows_of, terminated_ends
from tests.unit.rows.reading import assert_same_rows, blocks_of, read_all, rows_of_blocks

SYMBOLS = ("a", ",", '"', "\r", "\n")
"""Enough for every transition of the oracle's machine."""

GOLDEN = [golden for golden in load_all() if len(golden.data) <= 4096]
each_file = pytest.mark.parametrize("golden", GOLDEN, ids=[golden.name for golden in GOLDEN])


def _dialect(golden: Golden) -> Dialect:
    return Dialect(golden.delimiter, golden.quote)


def _start(golden: Golden) -> Cursor:
    return Cursor(len(BYTE_ORDER_MARK) if golden.data.startswith(BYTE_ORDER_MARK) else 0, 1)


def test_there_are_files_to_cut() -> None:
    assert len(GOLDEN) > 40


@each_file
def test_a_search_from_every_offset(golden: Golden) -> None:
    data = golden.data[_start(golden).byte :]
    ends = ends_of(_dialect(golden))
    terminated = terminated_ends(data, golden.delimiter, golden.quote)
    for offset in range(1, len(data) + 2):
        expected = min((end for end in terminated if end >= offset), default=0)
        assert ends.first_from(data, offset, final=True) == expected


@each_file
def test_two_pieces_parted_at_every_byte(golden: Golden) -> None:
    start = _start(golden)
    data = golden.data[start.byte :]
    ends = ends_of(_dialect(golden))
    parser = RowParser(_dialect(golden), ends)
    for first in range(1, len(data) + 1):
        found = rows_of_blocks(blocks_of(data, ends, start, (first, len(data))), parser)
        assert_same_rows(list(found), golden.rows, golden.data)


@each_file
def test_every_chunk_size(golden: Golden) -> None:
    start = _start(golden)
    data = golden.data[start.byte :]
    for chunk_bytes in range(1, len(data) + 2):
        found = read_all(data, _dialect(golden), start, chunk_bytes=chunk_bytes)
        assert_same_rows(found, golden.rows, golden.data)


@each_file
def test_every_piece_size(golden: Golden) -> None:
    start = _start(golden)
    data = golden.data[start.byte :]
    for piece_bytes in range(1, min(len(data), 64) + 1):
        found = read_all(data, _dialect(golden), start, piece_bytes=(piece_bytes,))
        assert_same_rows(found, golden.rows, golden.data)


@pytest.mark.parametrize("old_python", [False, True])
@pytest.mark.parametrize(
    ("delimiter", "quote", "longest"),
    [(",", '"', 6), ("§", '"', 5), (",", "«", 5), ("€", "😀", 5), (",", None, 5)],
)
def test_every_short_text(
    delimiter: str,
    quote: str | None,
    longest: int,
    old_python: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if old_python:
        monkeypatch.setattr("ddbload.rows.ends._LOSES_ITS_PLACE", True)
    dialect = Dialect(delimiter, quote)
    ends = ends_of(dialect)
    marks = {",": delimiter, '"': quote or '"'}
    alphabet = [marks.get(symbol, symbol).encode() for symbol in SYMBOLS]
    for length in range(longest + 1):
        for text in itertools.product(alphabet, repeat=length):
            data = b"".join(text)
            terminated = terminated_ends(data, delimiter, quote)
            certain = certain_ends(data, delimiter, quote)
            assert tuple(ends.all(data)) == row_ends(data, delimiter, quote)
            closes = len(data) + 1 in row_ends(data + b"\na", delimiter, quote)
            assert ends.closes(data) is closes, data
            assert ends.last(data, final=False) == max(certain, default=0), data
            assert ends.last(data, final=True) == max(terminated, default=0), data
            for offset in range(1, len(data) + 1):
                first = min((end for end in terminated if end >= offset), default=0)
                assert ends.first_from(data, offset, final=True) == first, (data, offset)
                expected = first if first in certain else 0
                assert ends.first_from(data, offset, final=False) == expected, (data, offset)
            assert_same_rows(read_all(data, dialect), rows_of(data, delimiter, quote), data)
