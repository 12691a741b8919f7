"""Cut a source into chunks of whole rows.

A scan of the whole source reads every byte. A scan by edges asks windows near the wished places
for row ends (`edge_probe`), reads on only where these prove none, and does not read objects that
are one chunk anyway: small ones, and compressed ones beyond their header.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor, SeekPoint
from ddbload.contracts.messages import MAX_WHOLE
from ddbload.contracts.options import EDGES
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import DdbloadError, Interrupted, NoProgress
from ddbload.items.row_encoder import row_boundaries_for
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import iter_objects
from ddbload.reading.open_sources import (
    open_decoded,
    open_each,
    open_heads,
    prefix_errors_with_object_name,
    read_windows,
)
from ddbload.reading.row_blocks import RunReader, notice_incomplete, refuse_unterminated
from ddbload.reading.source_objects import slice_for_object
from ddbload.rows.block_splitter import BLOCK_BYTES, Block
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.compression import POINT_BYTES, SeekTrail
from ddbload.source.decoding.decoded_source import DecodedSource, why_uncut
from ddbload.steps.edge_probe import EdgeProbe, Windows


class Chunker:
    """Chunks that one invocation cuts, from a cursor on.

    The rows of all objects count as one sequence of bytes. A chunk is a range of one object, or
    holds several small ones.
    """

    def __init__(
        self, record: RunRecord, ledger: Ledger, context: Context, cursor: PreflightCursor
    ) -> None:
        self._record = record
        self._ledger = ledger
        self._context = context
        self._cursor = cursor
        self._reader = RunReader(record)
        self._several = record.objects is not None
        self._by_edges = record.payload.options.scan == EDGES
        # Places passed from which a compressed object can be read.
        self._trail = SeekTrail(min(POINT_BYTES, record.chunk_bytes))
        self._open = OpenChunk(record, ledger, cursor, self._trail)
        # The end of the last whole row, and the object that is being read.
        self._at = Cursor(cursor.byte, cursor.line)
        self._current_slice: ObjectSlice | None = None
        # True for a compressed object that is cut.
        self._is_indexed = False
        # False after an edge: the lines before it are not counted.
        self._knows_line = cursor.line > 0
        self._undecided = cursor.undecided
        self._padded = False

    def run(self) -> ManifestPart:
        """Cut chunks until the deadline or the end of the source.

        Raises `RowTooLong`, `UnterminatedQuote`, `HeaderMismatch` and what keeps the source from
        being read.
        """
        try:
            part = self._cut_objects()
            self._open.wait_for_writes()
        finally:
            self._open.close()
        return part

    def _cut_objects(self) -> ManifestPart:
        record, first = self._record, self._cursor.object
        objects = iter_objects(record, self._ledger, first)
        opened = (
            open_heads(objects, self._context)
            if self._by_edges and self._several and not record.payload.source.kind.is_container
            else open_each(objects, self._context, several=self._several)
        )
        try:
            with closing(opened) as each:
                for number, (pinned, raw) in enumerate(each, first):
                    with prefix_errors_with_object_name(raw, several=self._several):
                        finished = self._cut_object(number, pinned, raw)
                    if not finished:
                        return self._hand_on()
        except DdbloadError as error:
            # A request that was given up at the deadline is repeated by the next invocation.
            made_progress = self._at.byte > self._cursor.byte
            if error.permanent or not self._context.must_end() or not made_progress:
                raise
            return self._hand_on()
        if self._open.start.byte < self._at.byte:
            self._open.end(self._at)
        return self._open.part(None, padded=self._padded)

    def _cut_object(self, number: int, pinned: Mapping[str, Any], raw: ByteSource) -> bool:
        """Cut an object's rows, from the cursor on; False if the deadline came first."""
        cursor = self._cursor
        resumed = number == cursor.object
        file = open_decoded(raw, self._record.payload.source, pinned)
        object_slice = slice_for_object(
            self._record, pinned, file, cursor.base if resumed else self._at.byte
        )
        self._open.current_object = (number, object_slice.base if self._several else 0)
        if not resumed or cursor.byte <= object_slice.base:
            self._at = Cursor(object_slice.base, object_slice.line)
            self._knows_line, self._undecided = True, 0
            self._open.begin_object(self._at, raw.size)
        self._current_slice = object_slice
        self._trail.begin(object_slice.base, object_slice.skip)
        self._is_indexed = file.has_seek_points and self._record.wants_index(raw.size)
        whole = self._unread(file, object_slice)
        if whole is not None:
            self._at = Cursor(whole.end, whole.line)
        elif not (
            self._cut_by_edges(raw, file, object_slice)
            if self._by_edges and file.has_cuts
            else self._read(file, object_slice)
        ):
            return False
        else:
            whole = (
                object_slice
                if file.plain
                else replace(object_slice, size=self._at.byte - object_slice.base)
            )
            self._say_if_uncut(file, whole)
        self._current_slice = None
        stored = raw.size if whole.padded else whole.size
        self._open.end_object(whole, self._at, stored)
        # The end of a single object is the end of the source, whatever the time.
        is_end = not self._several or self._at.byte == cursor.byte
        return is_end or not self._context.must_end()

    def _unread(self, file: DecodedSource, object_slice: ObjectSlice) -> ObjectSlice | None:
        """Return the slice of an object that is one chunk, or part of one; None if to be read."""
        record = self._record
        if not self._by_edges:
            return None
        if file.plain:
            left = object_slice.end - self._at.byte
            return object_slice if self._open.has_room(left) else None
        most = file.most_bytes
        if most is None or not record.has_rows or self._is_indexed:
            return None
        padded = replace(object_slice, size=most, padded=True)
        # An earlier invocation may have read a part of it.
        is_begun = object_slice.base < self._at.byte < padded.end
        # Positions beyond the limit are no whole numbers in every JSON reader.
        if is_begun or padded.end > MAX_WHOLE:
            return None
        self._padded = True
        return padded

    def _read(self, file: DecodedSource, object_slice: ObjectSlice, until: int = 0) -> bool:
        """Read an object's rows, and cut them; False if the deadline came first.

        `until`: byte after which the first row end is the last cut; 0 reads to the end.
        """
        end = object_slice.end if file.plain else None
        if file.has_seek_points:
            self._begin_trail(file, object_slice)
        start, offset = self._at, object_slice.skip - object_slice.base
        reader, context = self._reader, self._context
        blocks = reader.iter_blocks(
            file, object_slice, start, end, BLOCK_BYTES, knows_line=self._knows_line
        )
        for block in blocks:
            if block is not None:
                refuse_unterminated(reader.boundaries, block, offset, knows_line=self._knows_line)
                is_cut = file.plain or self._is_indexed
                if is_cut and self._cut(block, object_slice, until):
                    self._at = self._open.start
                    return True
                self._at = block.end
                self._trail.discard_before(self._at.byte)
            if (end is None or self._at.byte < end) and context.must_end():
                return False
        notice_incomplete(file, context)
        return True

    def _say_if_uncut(self, file: DecodedSource, whole: ObjectSlice) -> None:
        """Say that one worker must import an object that should have been cut."""
        notice, least = self._context.notice, 2 * self._record.chunk_bytes
        is_uncut = self._is_indexed and self._open.start.byte <= whole.base and whole.size > least
        if is_uncut and notice is not None:
            notice(f"{file.name} is imported by one worker: {why_uncut(file.compression)}")

    def _begin_trail(self, file: DecodedSource, object_slice: ObjectSlice) -> None:
        """Read a compressed object from the last known point on, and record others."""
        if self._at.byte > object_slice.base:
            self._open.start_point = self._ledger.find_seek_point(self._at.byte)
        self._trail.begin(object_slice.base, object_slice.skip, self._open.start_point)
        # What is decompressed in no time needs no points.
        needs_points = self._is_indexed or file.inner.size > POINT_BYTES
        file.seek(self._open.start_point, self._trail if needs_points else None)

    def _cut_by_edges(
        self, raw: ByteSource, file: DecodedSource, object_slice: ObjectSlice
    ) -> bool:
        """Cut an object where windows prove row ends; False if the deadline came first.

        The wished places are multiples of the chunk size from the object's first row, so that
        another invocation wishes for the same.
        """
        step, base = self._record.chunk_bytes, object_slice.base
        offset = object_slice.skip - base
        begin = self._at.byte
        first = base + ((begin - base) // step + 1) * step
        wished = (byte + offset for byte in range(first, object_slice.end, step))
        probe = EdgeProbe(
            row_boundaries_for(self._record.payload.source),
            lambda windows: self._read_windows(raw, windows),
            object_slice.end + offset,
            self._record.payload.options.row_limit,
            self._undecided,
        )
        with closing(probe.find(wished)) as found:
            for near, edge in found:
                byte = near - offset
                if edge is not None:
                    self._cut_at_edge(edge - offset, object_slice)
                elif byte > self._open.start.byte and not self._read(file, object_slice, byte):
                    return False
                self._undecided = probe.undecided
                if self._at.byte == object_slice.end:
                    return True
                if self._at.byte > begin and self._context.must_end():
                    return False
        if probe.gave_up:
            return self._read(file, object_slice)
        self._at = Cursor(object_slice.end, self._at.line)
        return True

    def _read_windows(self, raw: ByteSource, windows: Windows) -> Generator[bytes]:
        return read_windows(raw, windows, self._context)

    def _cut_at_edge(self, edge: int, object_slice: ObjectSlice) -> None:
        # A row may be longer than a chunk, so that its end is found again.
        if self._open.start.byte < edge < object_slice.end:
            self._knows_line = False
            self._open.end(Cursor(edge, 0), object_slice)
            self._at = self._open.start

    def _cut(self, block: Block, object_slice: ObjectSlice, until: int) -> bool:
        """Cut a block; True if a cut lies at `until` or later, unless that is 0."""
        ends = self._reader.boundaries
        data, begin = block.data, block.start.byte
        counted, line = 0, block.start.line
        row = 0
        while True:
            after = until or self._first_cut()
            if after is None or after - begin > len(data):
                return False
            end = ends.first_from(data, max(after - begin, 1), start=row, final=True)
            if not end:
                return False
            line += ends.count_lines(data, counted, end)
            counted = row = end
            cut = object_slice
            if self._is_indexed:
                # Its size is not known yet, but that it does not end within these rows.
                more = block.terminated or end < len(data)
                cut = replace(object_slice, size=begin + end - object_slice.base + more)
            self._open.end(Cursor(begin + end, line if self._knows_line else 0), cut)
            if until:
                return True

    def _first_cut(self) -> int | None:
        """Return the first byte at which the open chunk may end; None if that is not known yet."""
        if self._is_indexed:
            return self._open.first_cut_behind_point()
        return self._open.start.byte + self._record.chunk_bytes

    def _hand_on(self) -> ManifestPart:
        """Return the chunks so far, and the cursor of the invocation that goes on."""
        at, cursor, chunk = self._at, self._cursor, self._open
        if not chunk.finished:
            if at.byte == cursor.byte:
                if self._context.should_stop():
                    at_line = f"line {cursor.line}, " if self._knows_line else ""
                    raise Interrupted(f"stopped in the row at {at_line}byte {cursor.byte}")
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
            chunk.end(at if self._knows_line else Cursor(at.byte, 0), read)
        chunk.put_start_point()
        start, (first, base) = chunk.start, chunk.start_object
        handed_on = PreflightCursor(
            start.byte, start.line, chunk.number, first, base, self._undecided
        )
        return chunk.part(handed_on, padded=self._padded)


MAX_OBJECTS = 400
"""Most small objects of one chunk: more would keep one worker busy for too long."""
DOUBLE_AFTER_CHUNKS = 2_500
"""Chunks of a size in a compressed object. The next ones are twice as large, since nobody knows how
many there will be: 10 TB make 20,000."""
_PARALLEL_WRITES, _WRITES_AHEAD = 16, 256
"""Lists of a chunk's objects that are written at once, while others are read, and that may wait."""


class OpenChunk:
    """A chunk that takes rows, in their order, until it is ended and the next one begins.

    Bytes are counted over the rows of all objects. What a chunk needs beside its range is written
    when it ends: the objects that it reads, and the seek point before it.
    """

    def __init__(
        self, record: RunRecord, ledger: Ledger, cursor: PreflightCursor, trail: SeekTrail
    ) -> None:
        """Begin at `cursor`. `trail`: the seek points that are passed, up to where a chunk ends."""
        self._record = record
        self._ledger = ledger
        self._trail = trail
        self._writes: deque[Future[None]] = deque()
        self._writer: ThreadPoolExecutor | None = None
        self.finished: list[Chunk] = []
        self.number = cursor.chunk
        self.start = Cursor(cursor.byte, cursor.line)
        """The first row. Its line is 0 if it is not known."""
        self.current_object = (cursor.object, cursor.base)
        """Index of the object that is being read, and the offset of its rows."""
        self.start_object = self.current_object
        """The same of the object that the first row lies in."""
        self.start_point: SeekPoint | None = None
        """Where decompression for the first row begins; None at the start of its object."""
        # Whole objects that it holds, and their bytes: as stored, of those that were not read.
        self._slices: list[ObjectSlice] = []
        self._slice_bytes = 0

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes of a whole object still belong into the chunk."""
        return self._slice_bytes + size <= self._record.chunk_bytes

    def begin_object(self, at: Cursor, size: int) -> None:
        """Let the chunk take an object of this size from its first row on, or end it before."""
        if self._slices and (not self.has_room(size) or len(self._slices) >= MAX_OBJECTS):
            self.end(at)
        if not self._slices:
            self.start, self.start_object = at, self.current_object
            self.start_point = None

    def end_object(self, whole: ObjectSlice, at: Cursor, stored: int) -> None:
        """Take an object's last rows, and end the chunk unless others may follow.

        `stored`: bytes of the object, as stored if it was not read.
        """
        if whole.end > self.start.byte:
            self._slices.append(whole)
            self._slice_bytes += stored
        may_grow = (
            self._record.objects is not None
            and self.start.byte <= whole.base
            and stored < self._record.chunk_bytes
        )
        if self.start.byte < at.byte and not may_grow:
            self.end(at)

    def first_cut_behind_point(self) -> int | None:
        """Return the first byte at which a chunk of a compressed object may end.

        It is behind a seek point, so that the next chunk's worker decompresses less than a row for
        nothing. None if no such point was passed yet.
        """
        size = self._record.chunk_bytes << self.number // DOUBLE_AFTER_CHUNKS
        return self._trail.first_from(self.start.byte + size)

    def end(self, end: Cursor, inside: ObjectSlice | None = None) -> None:
        """End the chunk, and begin the next one there.

        `inside`: the object that is being read, if the chunk ends in the middle of its rows.
        """
        start = self.start
        chunk = Chunk(self.number, start.byte, end.byte, start.line)
        if self._record.objects is not None:
            slices = self._slices if inside is None else [*self._slices, inside]
            self._write_slices(chunk, slices)
        self.put_start_point(self._trail.consumed)
        self.finished.append(chunk)
        self.number += 1
        self.start, self.start_object = end, self.current_object
        self.start_point = None if inside is None else self._trail.last_before(end.byte)
        self._slices, self._slice_bytes = [], 0

    def put_start_point(self, until: int | None = None) -> None:
        """Write the seek point of the first row, if it has one.

        `until`: bytes of the object, as stored, that a worker must read for the chunk.
        """
        if self.start_point is not None:
            point = self.start_point if until is None else replace(self.start_point, until=until)
            self._ledger.put_seek_point(self.start.byte, point)

    def part(self, cursor: PreflightCursor | None, *, padded: bool) -> ManifestPart:
        """Return the finished chunks; `cursor` is where the next invocation goes on."""
        return ManifestPart(tuple(self.finished), cursor, padded)

    def wait_for_writes(self) -> None:
        """Wait until all lists of objects are written. Raises what kept one from it."""
        while self._writes:
            self._writes.popleft().result()

    def close(self) -> None:
        """Give up what still waits to be written."""
        if self._writer is not None:
            self._writer.shutdown(cancel_futures=True)

    def _write_slices(self, chunk: Chunk, slices: list[ObjectSlice]) -> None:
        """Write the list of a chunk's objects, while preflight goes on."""
        if self._writer is None:
            self._writer = ThreadPoolExecutor(_PARALLEL_WRITES)
        self._writes.append(self._writer.submit(self._ledger.put_slices, chunk, slices))
        while len(self._writes) > _WRITES_AHEAD or (self._writes and self._writes[0].done()):
            self._writes.popleft().result()
