"""Read objects as blocks of whole rows, and the rows of a chunk from the objects that hold them."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk, ObjectSlice, SeekPoint
from ddbload.contracts.column_mapping import HMAC_KEY, column_changes, shown
from ddbload.contracts.options import EDGES
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import LINES_BEFORE
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.source import GZIP
from ddbload.errors import ExpansionTooLarge, InvalidPayload, SplitMismatch, UnterminatedQuote
from ddbload.items.row_encoder import RowEncoder, row_encoder_for
from ddbload.ledger.ledger import Ledger
from ddbload.reading.header import match_columns, read_header, wanted_columns
from ddbload.reading.open_sources import (
    open_decoded,
    open_each,
    open_parquet,
    prefix_errors_with_object_name,
)
from ddbload.rows.blocks import Block, BlockSplitter, Defect, RowBoundaries, RowPositions
from ddbload.rows.dialect_grammar import row_boundaries_for
from ddbload.rows.json_framing import MORE_FOLLOWS
from ddbload.source.decoding.decoded_source import DecodedSource, SeekTrail
from ddbload.source.decoding.inflate import zlib_library
from ddbload.source.s3_object import Pinned

if TYPE_CHECKING:
    from ddbload.items.transformed_rows import Transform

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

    def __init__(
        self, record: RunRecord, transform: Transform | None = None, checked: int = 0
    ) -> None:
        """`transform` and `checked` are those of `TransformedRows`."""
        self.record = record
        self._transform, self._checked = transform, checked
        self.boundaries = row_boundaries_for(record.payload.source)
        self._reordered: dict[tuple[int, ...], RowEncoder] = {}

    @property
    def reads_from_chunk(self) -> bool:
        """True if a chunk can be read without what comes before it, though it is compressed."""
        source = self.record.payload.source
        is_seekable = source.compression == GZIP and source.is_bytewise
        return source.is_ranged or (is_seekable and zlib_library() is not None)

    @cached_property
    def encoder(self) -> RowEncoder:
        """Encoder that turns rows into requests.

        Made lazily: a file without rows has no columns to make it from.
        """
        record, key = self.record, hmac_key(self.record.payload)
        if self._transform is None:
            return row_encoder_for(record, key)
        # Imported here because few runs have a function.
        from ddbload.items.transformed_rows import TransformedRows

        return TransformedRows(record, self._transform, key, self._checked)

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

    def reject_line(
        self,
        positions: RowPositions,
        row: int,
        defect: Defect,
        object_slice: ObjectSlice,
        name: str,
        *,
        knows_line: bool,
    ) -> bytes:
        """Return a reject as a line of JSON: position, column, cause, and the row itself.

        It names the object, `name`, where a run has several, and the columns of its row where these
        stand in another order. Without `knows_line`, lines are counted from the chunk's start;
        `number_reject` makes them lines of the source. Raises `SplitMismatch`.
        """
        at, columns = positions.position(row), self.record.columns
        line: dict[str, Any] = {} if self.record.objects is None else {"source": name}
        line |= {"line": at.line} if knows_line else {"line": None, LINES_BEFORE: at.line}
        line |= {
            "byte": at.byte + object_slice.skip - object_slice.base,
            "column": defect.column_of(columns),
            "cause": defect.cause,
            "detail": defect.detail,
            "raw": positions.raw(row),
        }
        if object_slice.places is not None:
            line["columns"] = [columns[place] for place in object_slice.places]
        return json.dumps(line).encode() + b"\n"

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

        Positions count among the rows of all objects. `end`: None if unknown before reading.
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

    Yields None for a piece in which no row ends. `end`: None if unknown before reading. The last
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


def row_groups(objects: Iterable[Pinned], context: Context) -> Iterator[Pinned]:
    """List each row group of Parquet files, small ones merged, as an object to read."""
    with closing(open_each(iter(objects), context, several=True)) as each:
        for pinned, raw in each:
            with prefix_errors_with_object_name(raw, several=True):
                file = open_parquet(raw)
            for first, after, size in file.row_group_ranges():
                yield {**pinned, "row_groups": [first, after], "bytes": size}


def slice_for_object(
    record: RunRecord, pinned: Pinned, file: DecodedSource, base: int
) -> ObjectSlice:
    """Return the slice of the run's rows that an object holds; `base` is its offset in the run.

    Its size is that of the object as stored, since that of its text may be unknown before reading.
    Raises `HeaderMismatch` and as `read_header`.
    """
    raw = file.inner
    if record.objects is None:
        start = record.data_start
        return ObjectSlice(pinned, start.byte, start.byte, start.line, raw.size - start.byte)
    payload = record.payload
    keys = wanted_columns(record.table, column_changes(payload.mapping))
    limit, deletes = payload.options.row_limit, record.mode.deletes
    header = read_header(file, payload.source, limit, keys=keys, deletes=deletes)
    places = None
    if payload.source.kind.has_columns and not header.empty:
        places = match_columns(header, record.columns, keys, payload.source, raw.name)
    skip = header.data_start.byte
    line = header.data_start.line + file.rows_before
    size = max(0, raw.size - skip)
    return ObjectSlice(pinned, base, skip, line, size, places=places)


def expected_bytes(record: RunRecord) -> int:
    """Return the bytes there are to read; as stored, if compressed."""
    if record.size is not None:
        return record.size
    return int(record.pinned["bytes" if record.objects is not None else "size"])


ChunkBlock = tuple[ObjectSlice, str, Block]
"""Rows of a chunk, with the object that they are from and its name."""


def read_chunk(
    reader: RunReader,
    chunk: Chunk,
    start: Cursor,
    ledger: Ledger,
    context: Context,
    piece_bytes: int,
    trail: SeekTrail,
) -> Generator[ChunkBlock]:
    """Look up which objects a chunk reads, and read its rows from a cursor on.

    `trail` records seek points of compressed objects. Raises `LedgerDamaged`; while reading
    `RowTooLong`, `SplitMismatch`, and what keeps the source from being read.
    """
    record = reader.record
    several = record.objects is not None
    if several:
        slices = [each for each in ledger.slices(chunk) if each.end > start.byte]
    else:
        first = record.data_start
        # An object that preflight has not read is one chunk.
        size = (chunk.end if record.size is None else record.size) - first.byte
        begin = first.byte
        slices = [ObjectSlice(record.pinned, begin, begin, first.line, size, record.padded)]

    def read_slices() -> Generator[ChunkBlock]:
        at, knows_line = start, chunk.first_line > 0
        opened = open_each((each.pinned for each in slices), context, several=several)
        with closing(opened) as objects:
            for object_slice, (pinned, raw) in zip(slices, objects, strict=True):
                file = open_decoded(raw, record.payload.source, pinned)
                end = None if object_slice.padded else min(chunk.end, object_slice.end)
                if at.byte <= object_slice.base:
                    at = Cursor(object_slice.base, object_slice.line)
                trail.begin(object_slice.base, object_slice.skip)
                if file.has_seek_points:
                    point = _find_seek_point(chunk, at, object_slice, ledger)
                    trail.begin(object_slice.base, object_slice.skip, point)
                    # Data that is decompressed in no time needs no points.
                    needs_points = (end or object_slice.end) - at.byte > trail.every
                    file.seek(point, trail if needs_points else None)
                is_last = end is None or end == object_slice.end
                blocks = reader.iter_blocks(
                    file, object_slice, at, end, piece_bytes, knows_line=knows_line
                )
                for block in filter(None, blocks):
                    if not block.terminated:
                        if not is_last:
                            raise _split_mismatch(record, chunk)
                        offset = object_slice.skip - object_slice.base
                        refuse_unterminated(reader.boundaries, block, offset, knows_line=knows_line)
                    at = block.end
                    if end is None and at.byte > object_slice.end:
                        raise _too_long_for_range(file.name, object_slice)
                    yield object_slice, file.name, block
                if object_slice.padded and at.byte < object_slice.end:
                    # No row of the object lies there, and the chunk goes on behind it.
                    at = Cursor(object_slice.end, at.line)
                    yield object_slice, file.name, Block(b"", at)

    return read_slices()


def _find_seek_point(
    chunk: Chunk, at: Cursor, object_slice: ObjectSlice, ledger: Ledger
) -> SeekPoint | None:
    """Find the point of a compressed object that is nearest to a row; None for its beginning.

    An invocation that stopped has left one for its last row, and preflight one for the chunk's
    first row.
    """
    for byte in sorted({at.byte, chunk.start}, reverse=True):
        if byte <= object_slice.base:
            break
        point = ledger.find_seek_point(byte)
        if point is not None:
            return point
    return None


def _too_long_for_range(name: str, object_slice: ObjectSlice) -> ExpansionTooLarge:
    """Make the error for an object with more text than preflight expected.

    Its last rows have the bytes of the next object's first ones, which would be left out.
    """
    return ExpansionTooLarge(
        f"{name} decompresses to more than {object_slice.size:,} bytes, which max_expansion allowed"
        " when this run began; start a new run (another run id) that allows more"
    )


def _split_mismatch(record: RunRecord, chunk: Chunk) -> SplitMismatch:
    """Make the error for a chunk that does not end with a row."""
    advice = "the manifest does not fit the source; start a new run"
    if record.payload.options.scan == EDGES:
        limit = record.payload.options.row_limit
        advice = (
            "a quote is wrong somewhere before, or a row is longer than"
            f" {limit} bytes (max_row_bytes); start a new run that reads all of the source first"
            " (--scan whole; in a payload, options.scan), which says where"
        )
    return SplitMismatch(
        f"chunk {chunk.chunk} should end with a row at byte {chunk.end}, and does not: {advice}"
    )
