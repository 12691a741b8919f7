"""Tests of splitting a stream's pieces into blocks of whole rows."""

from __future__ import annotations

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.blocks import Block, BlockSplitter
from ddbload.rows.dialect_grammar import dialect_boundaries


def _cutter(max_row_bytes: int = 1000, start: Cursor | None = None) -> BlockSplitter:
    return BlockSplitter(dialect_boundaries(Dialect()), start or Cursor(0, 1), max_row_bytes)


def test_line_end_inside_an_open_quote_ends_no_row() -> None:
    block = _cutter().feed(b'a\n"b\n', final=True)
    assert block is not None
    assert not block.terminated


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


def test_open_quote_does_not_collect_the_whole_file() -> None:
    cutter = _cutter(100)
    cutter.feed(b'"' + b"a\n" * 49, final=False)
    with pytest.raises(RowTooLong, match="line 1, byte 0 "):
        cutter.feed(b"a\n" * 50, final=False)


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
