"""Read an object as blocks of whole rows."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from ddbload.context import Context
from ddbload.contracts.chunks import ObjectSlice
from ddbload.contracts.column_mapping import HMAC_KEY, column_changes, shown
from ddbload.contracts.dialect import UTF_8, is_single_byte
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.source import AUTO, GZIP, UNCOMPRESSED
from ddbload.errors import InvalidPayload, UnterminatedQuote
from ddbload.items.row_encoder import RowEncoder, row_boundaries_for, row_encoder_for
from ddbload.rows.block_splitter import Block, BlockSplitter
from ddbload.rows.json_framing import MORE_FOLLOWS
from ddbload.rows.row_boundaries import RowBoundaries
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.source.decoding.inflate import zlib_library

_KEPT_ENCODERS = 400
"""Orders of columns whose encoders are kept: as many as a chunk may have objects."""
RARE_GC_OBJECTS = 500_000
"""Objects made and not freed between two collections."""


@contextmanager
def rare_gc() -> Iterator[None]:
    """Run Python's garbage collector rarely while rows are read and wait to be written.

    Rows make no reference cycles, but lists that are looked through at each collection: a quarter
    of the time that reading and encoding take.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(RARE_GC_OBJECTS, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def refuse_unterminated(
    boundaries: RowBoundaries, block: Block, offset: int = 0, *, knows_line: bool = True
) -> None:
    """Raise `UnterminatedQuote` if the last block of an object ends inside a quoted field.

    `offset` turns a byte among the rows of all objects into one of the object. `knows_line`: the
    block's lines are those of the source.
    """
    if block.terminated:
        return
    last = boundaries.last(block.data, final=True)
    if not boundaries.closes(block.data[last:]):
        line = block.start.line + boundaries.count_lines(block.data, 0, last)
        at_line = f"line {line}, " if knows_line else ""
        raise UnterminatedQuote(
            f"the row at {at_line}byte {block.start.byte + last + offset} has a quoted field that"
            " is never closed: mend it; or, if the file does not quote its fields, say so (--quote"
            " none; in a payload, quote null)"
        )


def notice_incomplete(file: DecodedSource, context: Context) -> None:
    """Warn of the output of a scan that is not complete, once its rows were read to the end."""
    for name in sorted(file.members & MORE_FOLLOWS):
        if context.notice is not None:
            context.notice(
                f"{file.name}: {name} says that the scan or query has more items than this file"
                " (incomplete_scan): load its other pages, too; the AWS CLI writes all of them to"
                " one file without --max-items and --no-paginate"
            )


def hmac_key(payload: Payload) -> bytes | None:
    """Return the key of the templates' filter hmac; None if no template has it.

    It comes from the environment alone, and is stored nowhere. Raises `InvalidPayload`.
    """
    templates = column_changes(payload.mapping).templates
    named = [name for name, template in templates.items() if template.uses_hmac]
    if not named:
        return None
    key = os.environb.get(HMAC_KEY.encode(), b"")
    if not key:
        raise InvalidPayload(
            f"the template of {shown(named[0])} has the filter hmac, and the environment variable"
            f" {HMAC_KEY} is not set: set it to the key, and run ddbload import, plan or convert;"
            " deployed functions have no key"
        )
    return key


class RunReader:
    """Row boundaries and encoder of a run, which all its chunks share."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.boundaries = row_boundaries_for(record.payload.source)
        self._reordered: dict[tuple[int, ...], RowEncoder] = {}

    @property
    def is_ranged(self) -> bool:
        """True if a byte range can be read by itself, not from the object's beginning.

        With `auto` each of several objects may be compressed, which only opening it tells.
        """
        source = self.record.payload.source
        return (
            not source.kind.is_container
            and source.compression in (UNCOMPRESSED, AUTO)
            and (source.encoding == UTF_8 or is_single_byte(source.encoding))
        )

    @property
    def has_cuts(self) -> bool:
        """True if a window of the source shows where a row ends: not where rows are not lines."""
        return self.is_ranged and not self.record.payload.source.framed

    @property
    def is_seekable(self) -> bool:
        """True if a chunk can be read without what comes before it, though it is compressed."""
        source = self.record.payload.source
        is_text = source.encoding == UTF_8 or is_single_byte(source.encoding)
        return source.compression == GZIP and is_text and zlib_library() is not None

    @cached_property
    def public_names(self) -> frozenset[str]:
        """Names of columns that may be shown."""
        return self.record.public_names

    @cached_property
    def encoder(self) -> RowEncoder:
        """Encoder that turns rows into requests.

        Made lazily: a file without rows has no columns to make it from.
        """
        return row_encoder_for(self.record, hmac_key(self.record.payload))

    def encoder_of(self, object_slice: ObjectSlice) -> RowEncoder:
        """Return the encoder for the rows of an object, whose columns may stand in another order.

        All encoders of a run make the same bodies; only how they read a row differs.
        """
        encoder, places = self.encoder, object_slice.places
        if places is None:
            return encoder
        found = self._reordered.get(places)
        if found is None:
            if len(self._reordered) >= _KEPT_ENCODERS:
                self._reordered.clear()
            found = self._reordered[places] = encoder.reordered(places)
        return found

    def iter_blocks(
        self,
        file: DecodedSource,
        object_slice: ObjectSlice,
        start: Cursor,
        end: int | None,
        piece_bytes: int,
        *,
        knows_line: bool = True,
    ) -> Iterator[Block | None]:
        """Read an object's rows from `start` to `end` as blocks; None for a piece without row end.

        Positions count among the rows of all objects. `end`: None if only reading tells it.
        `knows_line`: the line of `start` is that of the source. Raises `RowTooLong`.
        """
        limit = self.record.payload.options.row_limit
        offset = object_slice.skip - object_slice.base
        begin = start.byte + offset
        # The splitter counts bytes of the object, so that its errors name these.
        at = Cursor(begin, start.line)
        splitter = BlockSplitter(self.boundaries, at, limit, knows_line=knows_line)
        stop = None if end is None else end + offset
        for block in iter_row_blocks(file, splitter, stop, piece_bytes):
            if block is not None and offset:
                at = Cursor(block.start.byte - offset, block.start.line)
                yield replace(block, start=at)
            else:
                yield block


def iter_row_blocks(
    file: DecodedSource, splitter: BlockSplitter, end: int | None, piece_bytes: int
) -> Iterator[Block | None]:
    """Read blocks of whole rows from the splitter's position on, one for each piece read.

    Yields None for a piece in which no row ends. `end`: None if only reading tells it. The last
    block may end with a row without a line end. Raises `RowTooLong`.
    """
    begin = splitter.at.byte
    pieces = file.stream_rows(begin, end, min(piece_bytes, splitter.piece_bytes))
    if end is not None:
        left = end - begin
        for piece in pieces:
            left -= len(piece)
            yield splitter.feed(piece, final=left == 0)
        return
    # Read one piece ahead, to know which piece is the last.
    current = next(pieces, None)
    while current is not None:
        following = next(pieces, None)
        yield splitter.feed(current, final=following is None)
        current = following
