"""A source, cut into chunks of whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import DdbloadError, Interrupted, NoProgress
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
)
from ddbload.pipeline.reading.row_blocks import RunReader, refuse_unterminated
from ddbload.pipeline.reading.source_objects import (
    iter_objects,
    slice_for_object,
)
from ddbload.rows.block_splitter import BLOCK_BYTES, Block
from ddbload.source.byte_source import ByteSource

MAX_OBJECTS = 400
"""Small objects of one chunk: more of them than one worker should have to itself."""


class Chunker:
    """One invocation's cuts, from a cursor on.

    Each object's rows begin where those of the one before end. A chunk is a range of one, or
    several small ones.
    """

    def __init__(self, record: RunRecord, ledger: Ledger, context: Context) -> None:
        self._record = record
        self._ledger = ledger
        self._context = context
        self._reading = RunReader(record)
        self._chunks: list[Chunk] = []
        self._number = 0
        # Of the chunk that is open: where it begins, in which object, and those that are whole.
        self._start = Cursor(0, 1)
        self._first = self._now = (0, 0)
        self._parts: list[ObjectSlice] = []
        # As far as rows are known to be whole, and the object that this lies in, if it does.
        self._at = Cursor(0, 1)
        self._part_open: ObjectSlice | None = None

    def run(self, cursor: PreflightCursor) -> ManifestPart:
        """What lies between the cursor and the deadline, or the end.

        Raises `RowTooLong`, `UnterminatedQuote`, `HeaderMismatch` and what keeps the source from
        being read.
        """
        self._number = cursor.chunk
        self._start = self._at = Cursor(cursor.byte, cursor.line)
        self._first = self._now = (cursor.object, cursor.base)
        record = self._record
        objects = iter_objects(record, self._ledger, cursor.object)
        several = record.objects is not None
        try:
            with closing(open_each(objects, self._context, several=several)) as each:
                for number, (pinned, raw) in enumerate(each, cursor.object):
                    with prefix_errors_with_object_name(raw, several=record.objects is not None):
                        whole = self._cut_object(number, pinned, raw, cursor)
                    if not whole:
                        return self._hand_on(cursor)
        except DdbloadError as error:
            # What was given up for want of time, the next invocation tries again.
            gained = self._at.byte > cursor.byte
            if error.permanent or not self._context.must_end() or not gained:
                raise
            return self._hand_on(cursor)
        if self._start.byte < self._at.byte:
            self._end_chunk(self._at, None)
        return ManifestPart(tuple(self._chunks), None)

    def _cut_object(
        self, number: int, pinned: Mapping[str, Any], raw: ByteSource, cursor: PreflightCursor
    ) -> bool:
        """Cut an object's rows, from where they were come to; false when the time is up."""
        resumed = number == cursor.object
        file = open_decoded(raw, self._record.payload.source, pinned)
        part = slice_for_object(
            self._record, pinned, file, cursor.base if resumed else self._at.byte
        )
        self._now = (number, 0 if self._record.objects is None else part.base)
        if not resumed or cursor.byte <= part.base:
            self._at = Cursor(part.base, part.line)
            self._join(part, raw.size)
        end = part.end if file.plain else None
        context = self._context
        self._part_open = part
        for block in self._reading.iter_blocks(file, part, self._at, end, BLOCK_BYTES):
            if block is not None:
                refuse_unterminated(self._reading.boundaries, block, part.skip - part.base)
                if file.plain:
                    self._cut(block, part)
                self._at = block.end
            if (end is None or self._at.byte < end) and context.must_end():
                return False
        whole = part if file.plain else replace(part, size=self._at.byte - part.base)
        self._part_open = None
        if whole.end > self._start.byte:
            self._parts.append(whole)
        if self._start.byte < self._at.byte and not self._may_grow(whole):
            self._end_chunk(self._at, None)
        # Of one object this is the end. Of several it is a place like others.
        alone = self._record.objects is None
        return alone or self._at.byte == cursor.byte or not context.must_end()

    def _join(self, part: ObjectSlice, size: int) -> None:
        """Decide whether an object joins the chunk that is open."""
        held = part.base - self._start.byte
        if self._parts and (
            held + size > self._record.chunk_bytes or len(self._parts) >= MAX_OBJECTS
        ):
            self._end_chunk(self._at, None)
        if not self._parts:
            self._start, self._first = self._at, self._now

    def _may_grow(self, part: ObjectSlice) -> bool:
        """Whether the chunk that ends with this object may have another one, too."""
        alone = self._record.objects is None
        return not alone and self._start.byte <= part.base and part.size < self._record.chunk_bytes

    def _cut(self, block: Block, part: ObjectSlice) -> None:
        ends = self._reading.boundaries
        data, begin = block.data, block.start.byte
        counted, line = 0, block.start.line
        row = 0
        while True:
            target = self._start.byte + self._record.chunk_bytes - begin
            if target > len(data):
                return
            end = ends.first_from(data, max(target, 1), start=row, final=True)
            if not end:
                return
            line += ends.count_lines(data, counted, end)
            counted = row = end
            self._end_chunk(Cursor(begin + end, line), part)

    def _end_chunk(self, end: Cursor, part: ObjectSlice | None) -> None:
        """`part`: the object that the end lies in, where it is not all read."""
        start = self._start
        chunk = Chunk(self._number, start.byte, end.byte, start.line)
        if self._record.objects is not None:
            parts = self._parts if part is None else [*self._parts, part]
            self._ledger.put_slices(chunk, parts)
        self._chunks.append(chunk)
        self._number += 1
        self._start, self._first = end, self._now
        self._parts = []

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
            # A chunk may be shorter than asked for; an invocation may not be for nothing.
            part = self._part_open
            read = None if part is None else replace(part, size=at.byte - part.base)
            self._end_chunk(at, read)
        start, (first, base) = self._start, self._first
        next_cursor = PreflightCursor(start.byte, start.line, self._number, first, base)
        return ManifestPart(tuple(self._chunks), next_cursor)
