"""Feed the scheduler with a chunk's rows: read, encode, check, and offer them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from ddbload.contracts.chunks import Chunk, ObjectSlice
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb import limits
from ddbload.errors import DdbloadError
from ddbload.items.encode.batch_encoder import MAX_ROW_BYTES
from ddbload.ledger.attempts import Attempt
from ddbload.reading.row_blocks import RunReader
from ddbload.reading.source_objects import ChunkBlock
from ddbload.rows.reject_lines import Defect, reject_line
from ddbload.steps.row_window import PendingRequests, PendingRows
from ddbload.write.scheduler.scheduler import Scheduler

FEED_READ_BYTES = 64 * 1024
"""Bytes that are read and encoded together: few enough to stay in a processor's cache."""
READ_AHEAD_BYTES = 1024 * 1024
"""Most bytes whose rows are offered together: the scheduler spreads these over partitions."""
READ_AHEAD_SECONDS = 0.25
"""Longest time that the rows of a full request wait for more rows to be offered with them."""
MAX_REJECT_BYTES = 32 * 1024 * 1024
"""Bytes of rejects that end a segment; the next invocation continues."""


class RowFeeder:
    """Reader of one chunk from a cursor on, which offers its rows to a scheduler."""

    def __init__(
        self,
        reader: RunReader,
        chunk: Chunk,
        start: Cursor,
        *,
        clock: Callable[[], float],
        attempt: Attempt | None = None,
    ) -> None:
        """`attempt` records rows before they are offered; if that fails, they are not sent."""
        self.error: DdbloadError | None = None
        """Error that ended reading early. Rows before it are written all the same."""
        self.pending = PendingRows(reader.encoder)
        """Rows until their outcome is known. Drivers take items and request bodies from it."""
        self._reader = reader
        self._record = reader.record
        self._limit = reader.record.payload.options.reject_limit
        self._chunk = chunk
        self._start = start
        self._clock = clock
        self._attempt = attempt
        self._blocks: Iterator[ChunkBlock] = iter(())
        self._scheduler: Scheduler | None = None
        # The end of the last block whose rows were encoded.
        self._read_to = start
        self._at_chunk_end = False
        # The first handle that the scheduler does not know.
        self._offered = 0
        # An error that is raised once the rows before it were offered.
        self._error_ahead: DdbloadError | None = None
        # Objects in the order in which they were read, with their names.
        self._slices: list[tuple[ObjectSlice, str]] = []
        self._rejects: dict[int, tuple[str, bytes]] = {}
        self._reject_bytes = 0
        # Bytes at which rows begin that found an identical item, in the order of the answers.
        self._identical = array("Q")
        # Ranges of bytes that no object has: where they end, and their length.
        self._padding: list[tuple[int, int]] = []

    def attach(self, blocks: Iterator[ChunkBlock], scheduler: Scheduler) -> None:
        """Set where blocks come from and which scheduler gets their rows."""
        self._blocks = blocks
        self._scheduler = scheduler

    def detach(self) -> None:
        """Drop blocks and scheduler: feeder and scheduler refer to each other, and to all rows."""
        self._blocks = iter(())
        self._scheduler = None

    @property
    def exhausted(self) -> bool:
        """True if the chunk was read to its end and every row was offered."""
        return self._at_chunk_end and self._offered == self.pending.rows

    @property
    def rejected(self) -> int:
        """Rejects so far, including those after the end of the segment."""
        return len(self._rejects)

    @property
    def has_too_many_rejects(self) -> bool:
        """True if the run has too many rejects, whatever its other rows are."""
        limit, rejected = self._limit, len(self._rejects)
        if limit.percent is None or not rejected:
            return rejected > limit.rows
        besides = self._record.most_rows_besides(self.bytes_read)
        return limit.surely_exceeded(rejected, self.pending.rows, besides)

    @property
    def bytes_read(self) -> int:
        """Bytes of whole rows that were read, from the start cursor on."""
        byte = self._read_to.byte
        return byte - self._start.byte - self.padding_before(byte)

    def feed(self, room: int) -> bool:
        """Offer up to `room` more rows to the scheduler; False if there are no more.

        A call that reads only rows to leave out offers none.
        """
        scheduler = self._scheduler
        if scheduler is None or self.error is not None:
            return False
        if self._reject_bytes > MAX_REJECT_BYTES or self.has_too_many_rejects:
            return False
        try:
            if self._offered == self.pending.rows:
                before = self._read_to
                self._read_ahead(scheduler)
                if self._offered == self.pending.rows:
                    return self._read_to != before
            if self._attempt is not None:
                self._attempt.cover(self._read_to.byte, self.pending.rows, self._untouched_before)
            requests = self.pending.requests_with(self._offered)
            left = requests.end - self._offered
            # Equal shares: the scheduler spreads the rows that are offered together.
            shares = -(-left // room)
            self._offer_rows(scheduler, requests, -(-left // shares))
        except DdbloadError as error:
            self.error = error
            return False
        return True

    def release(self, handles: Sequence[int]) -> None:
        """Record rejects by DynamoDB, and identical items, among rows that have an outcome."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        refused, identical = scheduler.refused, scheduler.identical
        for handle in refused.keys() & handles if refused else ():
            self._reject(handle, Defect(refused[handle].cause, refused[handle].message))
        if identical:
            self._identical.extend(map(self.pending.byte, identical))
            identical.clear()

    def identical_within(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Count rows within byte ranges that found an identical item, or one not shown."""
        begins = sorted(self._identical)
        return sum(bisect_left(begins, end) - bisect_left(begins, start) for start, end in ranges)

    def cursor(self, frontier: int) -> Cursor:
        """Return the position of the row with this handle; where reading is if it was not read."""
        if frontier < self.pending.rows:
            return self.pending.position(frontier)
        return self._read_to

    def counts(self, scheduler: Scheduler) -> RowCounts:
        """Count the settled rows: those before the frontier, and those left out among them."""
        counts = scheduler.outcomes.counts
        if not self.pending.filtered:
            return counts
        filtered = self.pending.filtered_before(scheduler.outcomes.frontier)
        return replace(counts, read=counts.read + filtered, filtered=filtered)

    def settled_bytes(self, frontier: int) -> int:
        """Estimate the bytes from the start cursor to the row with this handle, for progress.

        Exact where a block begins, and at the end. Finding a row's true byte takes longer than
        encoding its block, and progress is reported many times a second.
        """
        if frontier < self.pending.rows:
            byte = self.pending.estimated_byte(frontier)
            return byte - self._start.byte - self.padding_before(byte)
        return self.bytes_read

    def block_start(self, frontier: int) -> int:
        """Return the byte at which the block of a row begins; where reading is if it is unread."""
        if frontier < self.pending.rows:
            return self.pending.position_in_block(frontier)[0].block.start.byte
        return self._read_to.byte

    def padding_before(self, byte: int) -> int:
        """Return how many bytes, from the start cursor to this one, no object has."""
        return sum(length for end, length in self._padding if end <= byte)

    def rejects(self, frontier: int) -> list[bytes]:
        """Return the reject lines of the rows before a handle, in order."""
        return [line for handle, (_, line) in sorted(self._rejects.items()) if handle < frontier]

    def causes(self, frontier: int) -> dict[str, int]:
        """Count the rejects before a handle by cause."""
        return dict(
            Counter(cause for handle, (cause, _) in self._rejects.items() if handle < frontier)
        )

    def _read_ahead(self, scheduler: Scheduler) -> None:
        """Read blocks until there are enough rows to spread.

        An error that comes after rows is raised by the next call, when they were offered.
        """
        pending = self.pending
        pending.discard_before(scheduler.outcomes.frontier)
        if self._error_ahead is not None:
            raise self._error_ahead
        end, until = self._read_to.byte + READ_AHEAD_BYTES, self._clock() + READ_AHEAD_SECONDS
        while pending.rows - self._offered < scheduler.READY_ROWS and self._read_to.byte < end:
            try:
                chunk_block = next(self._blocks, None)
            except DdbloadError as error:
                if pending.rows == self._offered:
                    raise
                self._error_ahead = error
                return
            if chunk_block is None:
                return
            self._add(chunk_block)
            now, waiting = self._clock(), pending.rows - self._offered
            if (now >= until and waiting >= limits.MAX_BATCH_ROWS) or now >= scheduler.deadline:
                return

    def _add(self, chunk_block: ChunkBlock) -> None:
        object_slice, name, block = chunk_block
        if not self._slices or self._slices[-1][0] is not object_slice:
            self._slices.append((object_slice, name))
        self._at_chunk_end = block.end.byte == self._chunk.end
        gap = block.start.byte - self._read_to.byte
        if gap:
            self._padding.append((block.start.byte, gap))
        if block.data:
            self.pending.add(block, self._offered, self._reader.encoder_of(object_slice))
        self._read_to = block.end

    def _untouched_before(self) -> int | None:
        """Return the byte before which no row was written; None once any row was."""
        if self._scheduler is None or self._scheduler.outcomes.counts.written:
            return None
        return self.pending.byte(self._scheduler.outcomes.frontier)

    def _offer_rows(self, scheduler: Scheduler, requests: PendingRequests, count: int) -> None:
        first = scheduler.reserve_handles(count)
        assert first == self._offered, "only this method reserves handles"  # noqa: S101
        self._offered += count
        handles = range(first, first + count)
        encoded = requests.encoded
        rows = slice(first - requests.first, first - requests.first + count)
        if encoded.odd and not encoded.odd.isdisjoint(range(rows.start, rows.stop)):
            self._offer_rows_one_by_one(scheduler, requests, handles)
            return
        units = None if encoded.units is None else encoded.units[rows]
        scheduler.offer_all(handles, encoded.keys[rows], units, encoded.row_bytes)

    def _offer_rows_one_by_one(
        self, scheduler: Scheduler, requests: PendingRequests, handles: range
    ) -> None:
        """Offer rows of which some must be built and checked by themselves."""
        encoded = requests.encoded
        group = _RowGroup(scheduler, encoded.row_bytes)
        for handle in handles:
            row = handle - requests.first
            if row not in encoded.odd:
                group.add(
                    handle, encoded.keys[row], 1 if encoded.units is None else encoded.units[row]
                )
                continue
            built = self.pending.build(handle)
            if isinstance(built, Defect):
                scheduler.reject(handle)
                self._reject(handle, built)
                continue
            alone = self.pending.goes_alone(built)
            if built.wire_bytes <= MAX_ROW_BYTES and not alone:
                group.add(handle, built.key, -(-built.size // limits.WRITE_UNIT_BYTES))
            else:
                group.offer()
                scheduler.offer(handle, built.key, built.size, built.wire_bytes, alone=alone)
        group.offer()

    def _reject(self, handle: int, defect: Defect) -> None:
        record = self._record
        positions, row = self.pending.position_in_block(handle)
        byte = positions.byte(row)
        object_slice, name = next(each for each in reversed(self._slices) if each[0].base <= byte)
        line = reject_line(
            positions,
            row,
            defect,
            record.columns,
            object_slice.skip - object_slice.base,
            None if record.objects is None else name,
            knows_line=self._chunk.first_line > 0,
            places_of_fields=object_slice.places,
        )
        self._rejects[handle] = defect.cause, line
        self._reject_bytes += len(line)


class _RowGroup:
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
        """Offer the rows that were added since the last call."""
        self._scheduler.offer_all(self._handles, self._keys, self._units, self._row_bytes)
        self._handles, self._keys, self._units = [], [], []
