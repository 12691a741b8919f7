"""Laws of blocks: a stream's pieces become blocks of whole rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.blocks import Block, BlockSplitter
from ddbload.rows.dialect_grammar import dialect_boundaries as ends_of
from tests.property.rows_files import File, files, pieces, starts
from tests.unit.rows.expected import line_at, row_ends, terminated_ends

LONG = 1024 * 1024


def _cut(cutter: BlockSplitter, parts: list[bytes], *, empty_end: bool) -> list[Block]:
    """Return the blocks of a stream whose end comes with its last piece, or after it."""
    blocks = [
        cutter.feed(part, final=not empty_end and number == len(parts))
        for number, part in enumerate(parts, 1)
    ]
    if empty_end or not parts:
        blocks.append(cutter.feed(b"", final=True))
    return [block for block in blocks if block is not None]


@given(files(), starts(), st.booleans(), st.data())
def test_blocks_begin_and_end_at_row_ends(
    file: File, start: Cursor, empty_end: bool, data: st.DataObject
) -> None:
    parts = data.draw(pieces(file.data, most=50))
    blocks = _cut(BlockSplitter(ends_of(file.dialect), start, LONG), parts, empty_end=empty_end)
    ends = row_ends(file.data, *file.marks)
    terminated = terminated_ends(file.data, *file.marks)
    for number, block in enumerate(blocks, 1):
        offset = block.end.byte - start.byte
        assert offset in ends
        assert block.end.line == start.line + line_at(file.data, offset) - 1
        assert block.terminated == (offset in terminated)
        assert block.terminated or number == len(blocks)


@given(files(), starts(), st.integers(1, 60), st.booleans(), st.data())
def test_row_is_refused_exactly_when_it_exceeds_the_limit(
    file: File, start: Cursor, limit: int, empty_end: bool, data: st.DataObject
) -> None:
    cutter = BlockSplitter(ends_of(file.dialect), start, limit)
    parts = data.draw(pieces(file.data, most=cutter.piece_bytes))
    ends = row_ends(file.data, *file.marks)
    too_long = [begin for begin, end in zip([0, *ends], ends, strict=False) if end - begin > limit]
    if not too_long:
        blocks = _cut(cutter, parts, empty_end=empty_end)
        assert b"".join(block.data for block in blocks) == file.data
        return
    line = start.line + line_at(file.data, too_long[0]) - 1
    with pytest.raises(RowTooLong, match=rf"line {line}, byte {start.byte + too_long[0]} "):
        _cut(cutter, parts, empty_end=empty_end)
