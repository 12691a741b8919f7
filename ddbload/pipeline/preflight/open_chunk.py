"""The chunk that is open while a source is cut, and the finished ones before it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor, SeekPoint
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.ledger.ledger import Ledger
from ddbload.source.decoding.seek_trail import SeekTrail

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
