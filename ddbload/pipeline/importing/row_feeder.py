"""A chunk's rows on their way in: read, parsed, checked, and told to the scheduler."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence

from ddbload.contracts.chunks import Chunk, ObjectSlice
from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb import limits
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.errors import DdbloadError
from ddbload.items.encode.batch_encoder import MAX_ROW_BYTES
from ddbload.ledger.attempts import Attempt
from ddbload.pipeline.importing.row_window import PendingRequests, PendingRows
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.source_objects import chunk_blocks
from ddbload.rows.block_splitter import Block
from ddbload.rows.reject_lines import Defect, reject_line
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.write.scheduler.scheduler import Scheduler

PIECE_BYTES = 64 * 1024
"""How much is read and looked at together: little enough to stay in a processor's cache."""
GATHERED_BYTES = 1024 * 1024
"""How much is told of together, at most; rows that are told of together are spread."""
GATHER_SECONDS = 0.25
"""How long the rows of a full request wait for others, at most, to be told of together."""

MAX_REJECT_BYTES = 32 * 1024 * 1024
"""Rejects that one segment holds: with more, the segment ends and the next one goes on."""


class RowFeeder:
    """Feeds a scheduler with one byte range, from a cursor on."""

    def __init__(
        self,
        reading: RunReader,
        chunk: Chunk,
        start: Cursor,
        max_rejects: int,
        *,
        clock: Callable[[], float],
        attempt: Attempt | None = None,
    ) -> None:
        """`attempt` is told of rows before they are sent, and may keep them from it."""
        self.error: DdbloadError | None = None
        """Why reading ended early. The rows before it are settled all the same."""
        self._reading = reading
        self._chunk = chunk
        self._max_rejects = max_rejects
        self._start = start
        # A block that is cut, and then refused, is not read.
        self._reached = start
        self._held = PendingRows(reading.rows)
        self._parts: list[tuple[ObjectSlice, str]] = []
        # The handle of the first row that the scheduler was not told of.
        self._told = 0
        self._late: DdbloadError | None = None
        self._rejects: dict[int, bytes] = {}
        self._reject_bytes = 0
        self._clock = clock
        self._attempt = attempt
        # Where rows begin that found an identical item, in the order of the answers.
        self._identical = array("Q")
        self._blocks: Iterator[Block] = iter(())
        self._at_end = False
        self._scheduler: Scheduler | None = None

    def attach(
        self, parts: Iterator[tuple[ObjectSlice, DecodedSource]], scheduler: Scheduler
    ) -> None:
        """Say where rows come from and where they go."""
        self._blocks = self._read(parts)
        self._scheduler = scheduler

    def detach(self) -> None:
        """Take no more. It and its scheduler know each other, and so would keep all rows."""
        self._blocks = iter(())
        self._scheduler = None

    @property
    def exhausted(self) -> bool:
        """Whether the chunk's last byte was reached, ended a row, and every row was told of."""
        return self._at_end and self._told == self._held.rows

    @property
    def rejected(self) -> int:
        """Rejects found so far, whether their segment will reach them or not."""
        return len(self._rejects)

    @property
    def bytes_read(self) -> int:
        """How far reading is, from the start."""
        return self._reached.byte - self._start.byte

    def feed(self, room: int) -> bool:
        """Tell the scheduler of up to `room` more rows; false when there are no more."""
        if self._scheduler is None or self.error is not None or self._enough_rejects():
            return False
        try:
            if self._told == self._held.rows:
                self._read_ahead(self._scheduler)
                if self._told == self._held.rows:
                    return False
            if self._attempt is not None:
                self._attempt.cover(self._reached.byte, self._held.rows, self._untouched)
            held = self._held.window(self._told)
            left = held.after - self._told
            # In equal parts: rows are spread over those that are told of together.
            parts = -(-left // room)
            self._offer_rows(self._scheduler, held, -(-left // parts))
        except DdbloadError as error:
            self.error = error
            return False
        return True

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """The items of these rows."""
        return self._held.items(handles)

    def body(self, handles: Sequence[int]) -> bytes:
        """The body of the request that puts these rows."""
        return self._held.body(handles)

    def release(self, handles: Sequence[int]) -> None:
        """Note rejects of what DynamoDB refused, and identical items, of rows that are settled."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        refused, identical = scheduler.refused, scheduler.identical
        for handle in refused.keys() & handles if refused else ():
            self._reject(handle, Defect(refused[handle].cause, refused[handle].message))
        if identical:
            self._identical.extend(map(self._held.byte, identical))
            identical.clear()

    def identical_within(self, ranges: Sequence[tuple[int, int]]) -> int:
        """How many rows there found an identical item that this run may have put."""
        begins = sorted(self._identical)
        return sum(bisect_left(begins, end) - bisect_left(begins, start) for start, end in ranges)

    def byte(self, handle: int) -> int:
        """The byte at which a row begins that is not settled, or comes after one that is not."""
        return self._held.byte(handle)

    def cursor(self, frontier: int) -> Cursor:
        """Where the row with this handle begins; where reading is, when there is none."""
        return self._held.position(frontier) if frontier < self._held.rows else self._reached

    def rejects(self, frontier: int) -> list[bytes]:
        """The reject lines of the rows before a handle, in order."""
        return [line for handle, line in sorted(self._rejects.items()) if handle < frontier]

    def _read(self, parts: Iterator[tuple[ObjectSlice, DecodedSource]]) -> Iterator[Block]:
        found = chunk_blocks(self._reading, self._chunk, self._start, parts, PIECE_BYTES)
        for part, name, block in found:
            if not self._parts or self._parts[-1][0] is not part:
                self._parts.append((part, name))
            self._at_end = block.end.byte == self._chunk.end
            yield block

    def _read_ahead(self, scheduler: Scheduler) -> None:
        """Read blocks, until there are enough rows to be spread; raises what it meets first."""
        held = self._held
        held.forget(scheduler.outcomes.frontier)
        if self._late is not None:
            raise self._late
        enough, until = self._reached.byte + GATHERED_BYTES, self._clock() + GATHER_SECONDS
        while held.rows - self._told < scheduler.READY_ROWS and self._reached.byte < enough:
            try:
                block = next(self._blocks, None)
            except DdbloadError as error:
                if held.rows == self._told:
                    raise
                # Rows before it are rows all the same.
                self._late = error
                return
            if block is None:
                return
            held.add(block, self._told)
            self._reached = block.end
            now, waiting = self._clock(), held.rows - self._told
            if (now >= until and waiting >= limits.MAX_BATCH_ROWS) or now >= scheduler.deadline:
                return

    def _untouched(self) -> int | None:
        """The byte before which nothing was put, where nothing was; not to be asked at the end."""
        if self._scheduler is None or self._scheduler.outcomes.counts.written:
            return None
        return self._held.byte(self._scheduler.outcomes.frontier)

    def _offer_rows(self, scheduler: Scheduler, held: PendingRequests, count: int) -> None:
        first = scheduler.reserve_handles(count)
        assert first == self._told, "rows are told of by this alone"  # noqa: S101
        self._told += count
        window = held.window
        some = slice(first - held.first, first - held.first + count)
        if window.odd and not window.odd.isdisjoint(range(some.start, some.stop)):
            self._offer_rows_one_by_one(scheduler, held, range(first, first + count))
            return
        units = None if window.units is None else window.units[some]
        handles = range(first, first + count)
        scheduler.offer_all(handles, window.keys[some], units, window.row_bytes)

    def _offer_rows_one_by_one(
        self, scheduler: Scheduler, held: PendingRequests, handles: range
    ) -> None:
        """Where some rows are for the builder to judge."""
        window = held.window
        group = _Group(scheduler, window.row_bytes)
        for handle in handles:
            place = handle - held.first
            if place not in window.odd:
                group.add(
                    handle, window.keys[place], 1 if window.units is None else window.units[place]
                )
                continue
            built = self._held.build(handle)
            if isinstance(built, Defect):
                scheduler.reject(handle)
                self._reject(handle, built)
            elif built.wire_bytes <= MAX_ROW_BYTES:
                group.add(handle, built.key, -(-built.size // 1024))
            else:
                group.offer()
                scheduler.offer(handle, built.key, built.size, built.wire_bytes)
        group.offer()

    def _reject(self, handle: int, defect: Defect) -> None:
        record = self._reading.record
        places, row = self._held.place(handle)
        byte = places.byte(row)
        part, name = next(each for each in reversed(self._parts) if each[0].base <= byte)
        source = None if record.objects is None else name
        data = reject_line(places, row, defect, record.columns, part.skip - part.base, source)
        self._rejects[handle] = data
        self._reject_bytes += len(data)

    def _enough_rejects(self) -> bool:
        return self.rejected > self._max_rejects or self._reject_bytes > MAX_REJECT_BYTES


class _Group:
    """Rows that are offered together, in their order."""

    def __init__(self, scheduler: Scheduler, row_bytes: int) -> None:
        self._scheduler = scheduler
        self._row_bytes = row_bytes
        self._handles: list[int] = []
        self._keys: list[Hashable] = []
        self._units: list[int] = []

    def add(self, handle: int, key: Hashable, units: int) -> None:
        self._handles.append(handle)
        self._keys.append(key)
        self._units.append(units)

    def offer(self) -> None:
        """Offer those that were added since."""
        self._scheduler.offer_all(self._handles, self._keys, self._units, self._row_bytes)
        self._handles, self._keys, self._units = [], [], []
