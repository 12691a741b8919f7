"""Read the rows of a chunk from the objects that hold them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk, ObjectSlice, SeekPoint
from ddbload.contracts.column_mapping import column_changes
from ddbload.contracts.options import EDGES
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import (
    ExpansionTooLarge,
    SplitMismatch,
)
from ddbload.ledger.ledger import Ledger
from ddbload.reading.header import match_columns, read_header, wanted_columns
from ddbload.reading.open_sources import open_decoded, open_each, open_parquet
from ddbload.reading.row_blocks import RunReader, refuse_unterminated
from ddbload.rows.block_splitter import Block
from ddbload.source.decoding.compression import SeekTrail
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.source.s3_object import Pinned


def row_groups(objects: Iterable[Pinned], context: Context) -> Iterator[Pinned]:
    """List each row group of Parquet files, small ones merged, as an object to read."""
    opened = open_each(iter(objects), context, several=True)
    with closing(opened) as each:
        for pinned, raw in each:
            for first, after, size in open_parquet(raw).row_group_ranges():
                yield {**pinned, "row_groups": [first, after], "bytes": size}


def slice_for_object(
    record: RunRecord, pinned: Pinned, file: DecodedSource, base: int
) -> ObjectSlice:
    """Return the slice of the run's rows that an object holds; `base` is its offset in the run.

    Its size is that of the object as stored; for compressed or decoded text only reading tells.
    Raises `HeaderMismatch` and as `read_header`.
    """
    raw = file.inner
    if record.objects is None:
        start = record.data_start
        return ObjectSlice(pinned, start.byte, start.byte, start.line, raw.size - start.byte)
    payload = record.payload
    keys = wanted_columns(record.table, column_changes(payload.mapping))
    header = read_header(file, payload.source, payload.options.row_limit, keys=keys)
    places = None
    if payload.source.kind.has_columns and not header.empty:
        places = match_columns(header, record.columns, keys, payload.source, raw.name)
    skip = header.data_start.byte
    line = header.data_start.line + file.rows_before
    size = max(0, raw.size - skip)
    return ObjectSlice(pinned, base, skip, line, size, places=places)


def expected_bytes(record: RunRecord) -> int:
    """Return the bytes there are to read; as stored, if only reading tells (compressed)."""
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
    trail: SeekTrail | None = None,
) -> Generator[ChunkBlock]:
    """Look up which objects a chunk reads, and read its rows from a cursor on.

    `trail` records seek points of compressed objects. Raises `LedgerDamaged`; while reading
    `RowTooLong`, `SplitMismatch`, and what keeps the source from being read.
    """
    slices = _chunk_slices(reader.record, chunk, start, ledger)
    return _iter_chunk_blocks(
        reader, chunk, start, slices, context, piece_bytes, ledger, trail or SeekTrail()
    )


def _chunk_slices(
    record: RunRecord, chunk: Chunk, start: Cursor, ledger: Ledger
) -> list[ObjectSlice]:
    if record.objects is not None:
        return [each for each in ledger.slices(chunk) if each.end > start.byte]
    first = record.data_start
    # An object that preflight has not read is one chunk.
    end = chunk.end if record.size is None else record.size
    size = end - first.byte
    return [ObjectSlice(record.pinned, first.byte, first.byte, first.line, size, record.padded)]


def _iter_chunk_blocks(
    reader: RunReader,
    chunk: Chunk,
    start: Cursor,
    slices: list[ObjectSlice],
    context: Context,
    piece_bytes: int,
    ledger: Ledger,
    trail: SeekTrail,
) -> Generator[ChunkBlock]:
    record = reader.record
    pinned_each = (each.pinned for each in slices)
    at, knows_line = start, chunk.first_line > 0
    opened = open_each(
        pinned_each,
        context,
        several=record.objects is not None,
    )
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
                # What is decompressed in no time needs no points.
                needs_points = (end or object_slice.end) - at.byte > trail.every
                file.seek(point, trail if needs_points else None)
            is_last = end is None or end == object_slice.end
            blocks = reader.iter_blocks(
                file, object_slice, at, end, piece_bytes, knows_line=knows_line
            )
            for block in blocks:
                if block is None:
                    continue
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
