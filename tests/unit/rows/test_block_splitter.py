"""Tests of splitting a stream's pieces into blocks of whole rows."""

from __future__ import annotations

import pytest

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.blocks import BLOCK_BYTES, Block, BlockSplitter
from ddbload.rows.dialect_grammar import dialect_boundaries


def _cutter(max_row_bytes: int = 1000, start: Cursor | None = None) -> BlockSplitter:
    return BlockSplitter(dialect_boundaries(Dialect()), start or Cursor(0, 1), max_row_bytes)


def test_feed_returns_the_whole_rows_of_a_piece() -> None:
    cutter = _cutter()
    assert cutter.feed(b"a,1\nb,", final=False) == Block(b"a,1\n", Cursor(0, 1))
    assert cutter.feed(b"2", final=False) is None
    assert cutter.feed(b"\nc,3\n", final=False) == Block(b"b,2\nc,3\n", Cursor(4, 2))
    assert cutter.at == Cursor(12, 4)


def test_last_piece_returns_the_rest() -> None:
    cutter = _cutter()
    cutter.feed(b"a\nb", final=False)
    assert cutter.feed(b"c", final=True) == Block(b"bc", Cursor(2, 2), terminated=False)


def test_last_piece_can_be_empty() -> None:
    cutter = _cutter()
    assert cutter.feed(b"a\r", final=False) is None
    assert cutter.feed(b"", final=True) == Block(b"a\r", Cursor(0, 1), terminated=True)
    assert _cutter().feed(b"", final=True) is None


def test_line_end_inside_an_open_quote_ends_no_row() -> None:
    block = _cutter().feed(b'a\n"b\n', final=True)
    assert block is not None
    assert not block.terminated


def test_positions_continue_from_the_start() -> None:
    cutter = _cutter(start=Cursor(100, 7))
    block = cutter.feed(b'"a\r\nb"\r\nc\r', final=True)
    assert block is not None
    assert block.end == Cursor(110, 10)


def test_row_of_the_longest_allowed_size_passes() -> None:
    block = _cutter(4).feed(b"abc\n", final=True)
    assert block is not None
    cutter = _cutter(4)
    assert cutter.feed(b"abc\r", final=False) is None
    assert cutter.feed(b"def\n", final=False) == Block(b"abc\rdef\n", Cursor(0, 1))


def test_longer_row_is_refused_with_its_position() -> None:
    cutter = _cutter(4, Cursor(50, 9))
    cutter.feed(b"a\nbc", final=False)
    with pytest.raises(RowTooLong, match=r"line 10, byte 52 .* 4 bytes .*--quote none"):
        cutter.feed(b"de\n", final=False)


def test_long_row_is_refused_after_a_short_one() -> None:
    cutter = _cutter(10, Cursor(50, 9))
    assert cutter.feed(b"a" * 6, final=False) is None
    assert cutter.feed(b"\nbbb", final=False) is None
    with pytest.raises(RowTooLong, match="line 10, byte 57 "):
        cutter.feed(b"b" * 8, final=False)


def test_crlf_counts_as_part_of_the_row() -> None:
    cutter = _cutter(4)
    cutter.feed(b"abc\r", final=False)
    with pytest.raises(RowTooLong):
        cutter.feed(b"\n", final=False)


def test_open_quote_does_not_collect_the_whole_file() -> None:
    cutter = _cutter(100)
    cutter.feed(b'"' + b"a\n" * 49, final=False)
    with pytest.raises(RowTooLong, match="line 1, byte 0 "):
        cutter.feed(b"a\n" * 50, final=False)


def test_pieces_are_no_larger_than_the_longest_row() -> None:
    assert _cutter(100).piece_bytes == 100
    assert _cutter(2**30).piece_bytes == BLOCK_BYTES


def test_long_row_is_not_searched_again_with_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = dialect_boundaries(Dialect())
    looked = []
    last = ends.last

    def counting(data: bytes, *, final: bool) -> int:
        looked.append(len(data))
        return last(data, final=final)

    monkeypatch.setattr(ends, "last", counting)
    cutter = BlockSplitter(ends, Cursor(0, 1), 10_000)
    for _ in range(1000):
        assert cutter.feed(b"x" * 9, final=False) is None
    assert sum(looked) < 3 * 9000
    assert cutter.feed(b"\n", final=True) is not None
