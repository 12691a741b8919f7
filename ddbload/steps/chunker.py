"""Cut a source into chunks of whole rows.

A scan of the whole source reads every byte. A scan by edges asks windows near the wished places
for row ends, concurrently, and no more of them than needed. It reads on only where these prove
none, and does not read objects that are one chunk anyway: small ones, and compressed ones beyond
their header.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor, SeekPoint
from ddbload.contracts.messages import MAX_WHOLE
from ddbload.contracts.options import EDGES
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import DdbloadError, Interrupted, NoProgress
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import iter_objects
from ddbload.parallel import map_in_threads
from ddbload.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
    read_windows,
)
from ddbload.reading.row_blocks import (
    RunReader,
    notice_incomplete,
    refuse_unterminated,
    slice_for_object,
)
from ddbload.rows.blocks import BLOCK_BYTES, Block, RowBoundaries
from ddbload.source.decoding.decoded_source import POINT_BYTES, ByteSource, DecodedSource, SeekTrail


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
        record, first = self._record, self._cursor.object
        objects = iter_objects(record, self._ledger, first)
        heads = self._by_edges and not record.payload.source.kind.is_container
        opened = open_each(objects, self._context, several=self._several, heads=heads)
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
            size = object_slice.size if file.plain else self._at.byte - object_slice.base
            whole = replace(object_slice, size=size)
            least = 2 * self._record.chunk_bytes
            is_uncut = self._open.start.byte <= whole.base and whole.size > least
            if self._is_indexed and is_uncut and self._context.notice is not None:
                self._context.notice(f"{file.name} is imported by one worker: {file.why_uncut}")
        self._current_slice = None
        self._open.end_object(whole, self._at, raw.size if whole.padded else whole.size)
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
        offset = object_slice.skip - object_slice.base
        reader, context = self._reader, self._context
        blocks = reader.iter_blocks(
            file, object_slice, self._at, end, BLOCK_BYTES, knows_line=self._knows_line
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

    def _begin_trail(self, file: DecodedSource, object_slice: ObjectSlice) -> None:
        """Read a compressed object from the last known point on, and record others."""
        if self._at.byte > object_slice.base:
            self._open.start_point = self._ledger.find_seek_point(self._at.byte)
        self._trail.begin(object_slice.base, object_slice.skip, self._open.start_point)
        # Data that is decompressed in no time needs no points.
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
            self._reader.boundaries,
            lambda windows: read_windows(raw, windows, self._context),
            object_slice.end + offset,
            self._record.payload.options.row_limit + 1,
            self._undecided,
        )
        with closing(probe.find(wished)) as found:
            for near, edge in found:
                byte = near - offset
                if edge is not None:
                    # A row may be longer than a chunk, so that its end is found again.
                    if self._open.start.byte < edge - offset < object_slice.end:
                        self._knows_line = False
                        self._open.end(Cursor(edge - offset, 0), object_slice)
                        self._at = self._open.start
                elif byte > self._open.start.byte and not self._read(file, object_slice, byte):
                    return False
                self._undecided = probe.undecided
                if self._at.byte == object_slice.end:
                    return True
                if self._at.byte > begin and self._context.must_end():
                    return False
        if probe.gave_up():
            return self._read(file, object_slice)
        self._at = Cursor(object_slice.end, self._at.line)
        return True

    def _cut(self, block: Block, object_slice: ObjectSlice, until: int) -> bool:
        """Cut a block; True if a cut lies at `until` or later, unless that is 0."""
        ends = self._reader.boundaries
        data, begin = block.data, block.start.byte
        row, line = 0, block.start.line
        while True:
            if self._is_indexed:
                after = until or self._open.first_cut_behind_point()
            else:
                after = until or self._open.start.byte + self._record.chunk_bytes
            if after is None or after - begin > len(data):
                return False
            end = ends.first_from(data, max(after - begin, 1), start=row, final=True)
            if not end:
                return False
            line += ends.count_lines(data, row, end)
            row = end
            cut = object_slice
            if self._is_indexed:
                # Its size is not known yet, but that it does not end within these rows.
                more = block.terminated or end < len(data)
                cut = replace(object_slice, size=begin + end - object_slice.base + more)
            self._open.end(Cursor(begin + end, line if self._knows_line else 0), cut)
            if until:
                return True

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
            inside = self._current_slice
            if inside is not None:
                inside = replace(inside, size=at.byte - inside.base)
            chunk.end(at if self._knows_line else Cursor(at.byte, 0), inside)
        chunk.put_start_point()
        byte, line = chunk.start.byte, chunk.start.line
        following = PreflightCursor(byte, line, chunk.number, *chunk.start_object, self._undecided)
        return chunk.part(following, padded=self._padded)


MAX_OBJECTS = 400
"""Most small objects of one chunk: more would keep one worker busy for too long."""
DOUBLE_AFTER_CHUNKS = 2_500
"""Chunks of a size in a compressed object. The next ones are twice as large, since their number is
unknown: 10 TB make 20,000."""
_PARALLEL_WRITES, _WRITES_AHEAD = 16, 64
"""Lists of a chunk's objects that are written concurrently, and that may wait to be written."""


class OpenChunk:
    """A chunk that takes rows, in their order, until it is ended and the next one begins.

    Bytes are counted over the rows of all objects. Its objects, and the seek point before it, are
    written when it ends.
    """

    def __init__(
        self, record: RunRecord, ledger: Ledger, cursor: PreflightCursor, trail: SeekTrail
    ) -> None:
        """Begin at `cursor`. `trail`: the seek points that are passed, up to where a chunk ends."""
        self._record = record
        self._ledger = ledger
        self._trail = trail
        self._unwritten: list[tuple[Chunk, list[ObjectSlice]]] = []
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
        self._slices, self._slice_bytes = list[ObjectSlice](), 0

    def has_room(self, size: int) -> bool:
        """Return whether so many bytes of a whole object still belong to the chunk."""
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
            self._unwritten.append((chunk, slices))
            if len(self._unwritten) > _WRITES_AHEAD:
                self._write_slices()
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
        """Write what still waits, and return the finished chunks.

        `cursor` is where the next invocation goes on.
        """
        if self._unwritten:
            self._write_slices()
        return ManifestPart(tuple(self.finished), cursor, padded)

    def _write_slices(self) -> None:
        """Write the lists of chunks' objects."""

        def write(each: tuple[Chunk, list[ObjectSlice]]) -> None:
            self._ledger.put_slices(*each)

        for _ in map_in_threads(write, self._unwritten, _PARALLEL_WRITES, _WRITES_AHEAD + 1):
            pass
        self._unwritten.clear()


FIRST_WINDOW_BYTES = 16 * 1024
"""Bytes of the window that is asked first. In quoted text it usually suffices."""
MOST_UNDECIDED = 16
"""Windows in a row that prove no row end, after which no more are asked. Example: quoted text in
which every cell ends with a delimiter."""
ASKED_AT_FIRST = 4
MOST_ASKED = 256
"""Places that are asked at once, at first and after all of those before had a row end."""
USELESS_WINDOWS = 8
"""First windows in a row that prove nothing, where the longer ones do. Then these are read at
once."""


@dataclass(slots=True)
class EdgeProbe:
    """Finder of row ends near given offsets of one source, in windows of it."""

    boundaries: RowBoundaries
    read_windows: Callable[[Iterable[tuple[int, int]]], Generator[bytes]]
    """Reader of ranges of the source, in order."""
    size: int
    """Bytes of the source."""
    longest: int
    """Bytes of a window that proves a row end, if there is one: more than the longest row has."""
    undecided: int
    """Offsets in a row, the last ones of those that were returned, without a row end."""
    _useless: int = field(default=0, init=False)

    def gave_up(self) -> bool:
        """Return true if so many windows proved nothing that others are not asked."""
        return self.undecided >= MOST_UNDECIDED

    def find(self, offsets: Iterable[int]) -> Generator[tuple[int, int | None]]:
        """Yield each offset with a row end after it, or None if its windows prove none.

        Ends early if `gave_up`. `offsets` rise, and lie after the first row's start.
        """
        left = iter(offsets)
        asked = ASKED_AT_FIRST
        while not self.gave_up() and (batch := list(islice(left, asked))):
            decided = 0
            for offset, edge in self._ask(batch):
                self.undecided = 0 if edge is not None else self.undecided + 1
                decided += edge is not None
                yield offset, edge
                if self.gave_up():
                    return
            # Where windows prove nothing, more of them would be read in vain.
            asked = min(2 * asked, MOST_ASKED) if decided == len(batch) else ASKED_AT_FIRST

    def _ask(self, offsets: list[int]) -> Generator[tuple[int, int | None]]:
        """Look for row ends in the first windows, and where these prove none in longer ones."""
        windows, first = dict.fromkeys(offsets, b""), min(FIRST_WINDOW_BYTES, self.longest)
        if self._useless < USELESS_WINDOWS:
            ranges = [(offset, min(self.size, offset + first)) for offset in offsets]
            windows = dict(zip(offsets, self.read_windows(ranges), strict=True))
        found = {offset: self._prove(offset, window) for offset, window in windows.items()}
        longer = {
            offset: (offset + len(window), end)
            for offset, window in windows.items()
            if found[offset] is None
            and offset + len(window) < (end := min(self.size, offset + self.longest))
        }
        # Read in order, and only as far as they are asked for.
        with closing(self.read_windows(longer.values())) as rest:
            for offset in offsets:
                first_suffices = True
                if offset in longer:
                    window = windows.pop(offset) + next(rest)
                    found[offset] = self._prove(offset, window)
                    first_suffices = self._prove(offset, window[:first]) is not None
                self._useless = 0 if first_suffices else self._useless + 1
                yield offset, found[offset]

    def _prove(self, offset: int, window: bytes) -> int | None:
        end = self.boundaries.edge(
            window,
            final=offset + len(window) >= self.size,
            longest=len(window) >= self.longest,
        )
        return offset + end if end else None
