"""A source, cut into chunks of whole rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ddbload.contracts.chunks import ObjectSlice
from ddbload.contracts.dialect import UTF_8, is_single_byte
from ddbload.contracts.payload import AUTO, PARQUET
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import UnterminatedQuote
from ddbload.items.row_encoder import RowEncoder, row_boundaries_for, row_encoder_for
from ddbload.rows.block_splitter import Block, BlockSplitter
from ddbload.rows.boundaries.row_boundaries import RowBoundaries
from ddbload.source.decoding.decoded_source import DecodedSource


def refuse_unterminated(ends: RowBoundaries, block: Block, offset: int = 0) -> None:
    """Raise `UnterminatedQuote` for a source's last block that ends inside a quoted field.

    `offset`: from a place among the rows of all objects to one in its own.
    """
    if block.terminated:
        return
    last = ends.last(block.data, final=True)
    if not ends.closes(block.data[last:]):
        line = block.start.line + ends.count_lines(block.data, 0, last)
        byte = block.start.byte + last + offset
        raise UnterminatedQuote(
            f"the row at line {line}, byte {byte} has a quoted field that is never closed: mend it;"
            " or, if the file does not quote its fields, say so (--quote none; in a payload, quote"
            " null)"
        )


class RunReader:
    """What all chunks of a run share: made once, used for each."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.ends = row_boundaries_for(record.payload.source)

    @property
    def is_ranged(self) -> bool:
        """Whether a range can be read without what comes before it, as far as that is known.

        Of several objects each may be compressed or not.
        """
        source = self.record.payload.source
        return (
            source.format != PARQUET
            and source.compression in ("none", AUTO)
            and (source.encoding == UTF_8 or is_single_byte(source.encoding))
        )

    @cached_property
    def rows(self) -> RowEncoder:
        """What rows are made requests by. A source without any has no columns for it."""
        return row_encoder_for(self.record)

    def blocks(
        self,
        file: DecodedSource,
        part: ObjectSlice,
        start: Cursor,
        end: int | None,
        piece_bytes: int,
    ) -> Iterator[Block | None]:
        """The rows of an object between two places among the rows of all; see `blocks`."""
        limit = self.record.payload.options.max_row_bytes
        offset = part.skip - part.base
        begin = start.byte + offset
        # What is wrong is told of by its place in the object.
        cutter = BlockSplitter(self.ends, Cursor(begin, start.line), limit)
        stop = None if end is None else end + offset
        for block in iter_row_blocks(file, cutter, stop, piece_bytes):
            if block is not None and offset:
                at = Cursor(block.start.byte - offset, block.start.line)
                yield replace(block, start=at)
            else:
                yield block


def iter_row_blocks(
    file: DecodedSource, cutter: BlockSplitter, end: int | None, piece_bytes: int
) -> Iterator[Block | None]:
    """Blocks of whole rows from where the cutter is, one for each piece of up to `piece_bytes`.

    None where no row ends in a piece. `end`: None where only reading says where that is. The
    last block may end with a row that has no line end. Raises `RowTooLong`.
    """
    begin = cutter.at.byte
    pieces = file.stream(begin, end, min(piece_bytes, cutter.piece_bytes))
    if end is not None:
        left = end - begin
        for piece in pieces:
            left -= len(piece)
            yield cutter.feed(piece, final=left == 0)
        return
    # One piece ahead: only then is the last one known for what it is.
    held = next(pieces, None)
    while held is not None:
        following = next(pieces, None)
        yield cutter.feed(held, final=following is None)
        held = following
