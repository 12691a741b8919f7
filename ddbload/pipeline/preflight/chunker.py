"""Cut a source into chunks of whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor, SeekPoint
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import DdbloadError, Interrupted, NoProgress
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import iter_objects
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
)
from ddbload.pipeline.reading.row_blocks import RunReader, refuse_unterminated
from ddbload.pipeline.reading.source_objects import slice_for_object
from ddbload.rows.block_splitter import BLOCK_BYTES, Block
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.source.decoding.seek_trail import POINT_BYTES, SeekTrail

MAX_OBJECTS = 400
"""Most small objects of one chunk: more would keep one worker busy for too long."""
DOUBLE_AFTER_CHUNKS = 2_500
"""Chunks of a size in a compressed object. The next ones are twice as large, since nobody knows how
many there will be: 10 TB make 20,000."""


class Chunker:
    """Chunks that one invocation cuts, from a cursor on.

    The rows of all objects count as one sequence of bytes. A chunk is a range of one object, or
    holds several small ones.
    """

    def __init__(self, record: RunRecord, ledger: Ledger, context: Context) -> None:
        self._record = record
        self._ledger = ledger
        self._context = context
        self._reader = RunReader(record)
        self._chunks: list[Chunk] = []
        self._number = 0
        # The open chunk: its start, the object that this lies in, and its finished slices.
        self._start = Cursor(0, 1)
        self._start_object = self._current_object = (0, 0)
        self._slices: list[ObjectSlice] = []
        # The end of the last whole row, and the object that is being read.
        self._at = Cursor(0, 1)
        self._current_slice: ObjectSlice | None = None
        # Places from which a compressed object can be read: those passed, and that of the chunk.
        self._trail = SeekTrail(min(POINT_BYTES, record.chunk_bytes))
        self._start_point: SeekPoint | None = None

    def run(self, cursor: PreflightCursor) -> ManifestPart:
        """Cut chunks until the deadline or the end of the source.

        Raises `RowTooLong`, `UnterminatedQuote`, `HeaderMismatch` and what keeps the source from
        being read.
        """
        self._number = cursor.chunk
        self._start = self._at = Cursor(cursor.byte, cursor.line)
        self._start_object = self._current_object = (cursor.object, cursor.base)
        record = self._record
        objects = iter_objects(record, self._ledger, cursor.object)
        several = record.objects is not None
        try:
            with closing(open_each(objects, self._context, several=several)) as each:
                for number, (pinned, raw) in enumerate(each, cursor.object):
                    with prefix_errors_with_object_name(raw, several=record.objects is not None):
                        finished = self._cut_object(number, pinned, raw, cursor)
                    if not finished:
                        return self._hand_on(cursor)
        except DdbloadError as error:
            # A request that was given up at the deadline is repeated by the next invocation.
            made_progress = self._at.byte > cursor.byte
            if error.permanent or not self._context.must_end() or not made_progress:
                raise
            return self._hand_on(cursor)
        if self._start.byte < self._at.byte:
            self._end_chunk(self._at, None)
        return ManifestPart(tuple(self._chunks), None)

    def _cut_object(
        self, number: int, pinned: Mapping[str, Any], raw: ByteSource, cursor: PreflightCursor
    ) -> bool:
        """Cut an object's rows, from the cursor on; False if the deadline came first."""
        resumed = number == cursor.object
        file = open_decoded(raw, self._record.payload.source, pinned)
        object_slice = slice_for_object(
            self._record, pinned, file, cursor.base if resumed else self._at.byte
        )
        self._current_object = (number, 0 if self._record.objects is None else object_slice.base)
        if not resumed or cursor.byte <= object_slice.base:
            self._at = Cursor(object_slice.base, object_slice.line)
            self._join(object_slice, raw.size)
        end = object_slice.end if file.plain else None
        is_indexed = file.has_seek_points and self._wants_index(raw)
        if file.has_seek_points:
            self._begin_trail(file, object_slice, is_indexed=is_indexed)
        context = self._context
        self._current_slice = object_slice
        for block in self._reader.iter_blocks(file, object_slice, self._at, end, BLOCK_BYTES):
            if block is not None:
                refuse_unterminated(
                    self._reader.boundaries, block, object_slice.skip - object_slice.base
                )
                if file.plain or is_indexed:
                    self._cut(block, object_slice, is_indexed=is_indexed)
                self._at = block.end
                self._trail.discard_before(self._at.byte)
            if (end is None or self._at.byte < end) and context.must_end():
                return False
        whole = (
            object_slice
            if file.plain
            else replace(object_slice, size=self._at.byte - object_slice.base)
        )
        self._current_slice = None
        if whole.end > self._start.byte:
            self._slices.append(whole)
        if self._start.byte < self._at.byte and not self._may_grow(whole):
            self._end_chunk(self._at, None)
        # The end of a single object is the end of the source, whatever the time.
        alone = self._record.objects is None
        return alone or self._at.byte == cursor.byte or not context.must_end()

    def _wants_index(self, raw: ByteSource) -> bool:
        """Tell whether a compressed object shall be cut, so that several workers import it."""
        record = self._record
        options = record.payload.options
        # Records of earlier versions have only the payload's number.
        workers = record.most_workers or options.workers or record.workers
        return raw.size > options.index_bytes and (record.objects or 1) < workers

    def _begin_trail(
        self, file: DecodedSource, object_slice: ObjectSlice, *, is_indexed: bool
    ) -> None:
        """Read a compressed object from the last known point on, and record others."""
        if self._at.byte > object_slice.base:
            self._start_point = self._ledger.find_seek_point(self._at.byte)
        self._trail.begin(object_slice.base, object_slice.skip, self._start_point)
        # What is decompressed in no time needs no points.
        needs_points = is_indexed or file.inner.size > POINT_BYTES
        file.seek(self._start_point, self._trail if needs_points else None)

    def _join(self, object_slice: ObjectSlice, size: int) -> None:
        """End the open chunk unless it has room for another object; open one if needed."""
        chunk_bytes = object_slice.base - self._start.byte
        if self._slices and (
            chunk_bytes + size > self._record.chunk_bytes or len(self._slices) >= MAX_OBJECTS
        ):
            self._end_chunk(self._at, None)
        if not self._slices:
            self._start, self._start_object = self._at, self._current_object
            self._start_point = None

    def _may_grow(self, object_slice: ObjectSlice) -> bool:
        """Tell whether the chunk that ends with this object may take another one."""
        alone = self._record.objects is None
        return (
            not alone
            and self._start.byte <= object_slice.base
            and object_slice.size < self._record.chunk_bytes
        )

    def _cut(self, block: Block, object_slice: ObjectSlice, *, is_indexed: bool) -> None:
        ends = self._reader.boundaries
        data, begin = block.data, block.start.byte
        counted, line = 0, block.start.line
        row = 0
        while True:
            after = self._first_cut(is_indexed=is_indexed)
            if after is None or after - begin > len(data):
                return
            end = ends.first_from(data, max(after - begin, 1), start=row, final=True)
            if not end:
                return
            line += ends.count_lines(data, counted, end)
            counted = row = end
            cut = object_slice
            if is_indexed:
                # Its size is not known yet, but that it does not end within these rows.
                more = block.terminated or end < len(data)
                cut = replace(object_slice, size=begin + end - object_slice.base + more)
            self._end_chunk(Cursor(begin + end, line), cut)

    def _first_cut(self, *, is_indexed: bool) -> int | None:
        """Return the first byte at which the open chunk may end; None if that is not known yet.

        A compressed object is cut behind a seek point, so that the next chunk's worker decompresses
        less than a row for nothing.
        """
        chunk_bytes = self._record.chunk_bytes
        if not is_indexed:
            return self._start.byte + chunk_bytes
        return self._trail.first_from(
            self._start.byte + (chunk_bytes << self._number // DOUBLE_AFTER_CHUNKS)
        )

    def _end_chunk(self, end: Cursor, object_slice: ObjectSlice | None) -> None:
        """End the open chunk; `object_slice` is the object being read, if the chunk ends in it."""
        start = self._start
        chunk = Chunk(self._number, start.byte, end.byte, start.line)
        if self._record.objects is not None:
            slices = self._slices if object_slice is None else [*self._slices, object_slice]
            self._ledger.put_slices(chunk, slices)
        if self._start_point is not None:
            point = replace(self._start_point, until=self._trail.consumed)
            self._ledger.put_seek_point(start.byte, point)
        self._chunks.append(chunk)
        self._number += 1
        self._start, self._start_object = end, self._current_object
        inside = object_slice is not None
        self._start_point = self._trail.last_before(end.byte) if inside else None
        self._slices = []

    def _hand_on(self, cursor: PreflightCursor) -> ManifestPart:
        at = self._at
        if not self._chunks:
            if at.byte == cursor.byte:
                if self._context.should_stop():
                    raise Interrupted(f"stopped in the row at line {cursor.line}")
                raise NoProgress(
                    f"no row's end was found between byte {cursor.byte} and the deadline; give"
                    " preflight more time, or lower max_row_bytes"
                )
            # A short chunk is better than an invocation without progress.
            object_slice = self._current_slice
            read = (
                None
                if object_slice is None
                else replace(object_slice, size=at.byte - object_slice.base)
            )
            self._end_chunk(at, read)
        if self._start_point is not None:
            self._ledger.put_seek_point(self._start.byte, self._start_point)
        start, (first, base) = self._start, self._start_object
        next_cursor = PreflightCursor(start.byte, start.line, self._number, first, base)
        return ManifestPart(tuple(self._chunks), next_cursor)
