"""Feed the scheduler with a chunk's rows: read, encode, check, and offer them.

Rows stay in memory, by handle, until DynamoDB has acknowledged them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ddbload.contracts.chunks import Chunk, ObjectSlice
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb import limits
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.modes import RowWrites
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import MAX_ROW_BYTES, EncodedRows
from ddbload.items.item_requests import Item, Request, item_of_request, named_values
from ddbload.items.row_encoder import RowEncoder
from ddbload.ledger.ledger import Attempt, Ledger
from ddbload.reading.row_blocks import ChunkBlock, RunReader
from ddbload.rows.blocks import Block, Defect, RowPositions
from ddbload.run_worker import WorkerSession
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.write.scheduler.scheduler import Scheduler

FEED_READ_BYTES = 64 * 1024
"""Bytes that are read and encoded together: few enough to stay in a processor's cache."""
READ_AHEAD_BYTES = 1024 * 1024
"""Most bytes whose rows are offered together: the scheduler spreads these over partitions."""
READ_AHEAD_SECONDS = 0.25
"""Longest time that the rows of a full request wait for more rows to be offered with them."""
MAX_REJECT_BYTES = 32 * 1024 * 1024
"""Bytes of rejects that end a segment; the next invocation continues."""


@dataclass(slots=True)
class PendingBlock:
    """Positions of rows that were read together; `first` is the handle of the first row."""

    first: int
    positions: RowPositions
    encoder: RowEncoder
    """Encoder of the object that the rows are from."""
    filtered: int
    """Rows that are left out before the block, from the cursor on."""

    @property
    def end(self) -> int:
        """Handle after the last row."""
        return self.first + self.positions.count


@dataclass(slots=True)
class PendingRequests:
    """Requests for rows that are offered together; `first` is the handle of the first row."""

    first: int
    encoded: EncodedRows
    end: int
    """Handle after the last row."""


class PendingRows:
    """Rows by handle: 0, 1, 2, … in their order in the chunk, from the cursor on.

    `writes` merges rows of one key into the last of them, which then stands for all.
    """

    def __init__(self, encoder: RowEncoder, writes: RowWrites | None = None) -> None:
        self._writes = writes
        # By the handle of the last of the merged rows.
        self._merged: dict[int, Attributes] = {}
        self.rows = 0
        """Rows added so far: the next handle. Rows that are left out have none."""
        self.filtered = 0
        """Rows left out so far."""
        self.encoder = encoder
        """Encoder of the run."""
        self._blocks: deque[PendingBlock] = deque()
        self._requests: deque[PendingRequests] = deque()

    def add(self, block: Block, offered: int, encoder: RowEncoder | None = None) -> None:
        """Encode a block's rows and keep them, together with others that were not offered yet.

        `offered`: the first handle that the scheduler does not know. `encoder` is that of the
        block's object, if not the run's.
        """
        encoder = encoder or self.encoder
        positions, encoded = encoder.read(block)
        before = self.filtered
        self.filtered += positions.filtered
        if not positions.count:
            return
        self._blocks.append(PendingBlock(self.rows, positions, encoder, before))
        last = self._requests[-1] if self._requests else None
        if last is None or last.first < offered:
            self._requests.append(PendingRequests(self.rows, encoded, self.rows + len(encoded)))
        else:
            last.end += len(encoded)
            last.encoded.extend(encoded)
        self.rows += len(encoded)

    def requests_with(self, handle: int) -> PendingRequests:
        """Return the requests that a row was encoded with. Raises `LookupError`."""
        # Asked for every request, and nearly always one of the first.
        for requests in self._requests:
            if handle < requests.end:
                return requests
        raise LookupError(handle)

    def body(self, handles: Sequence[int]) -> bytes:
        """Make the body of the request that writes these rows."""
        merged = self._merged.get(handles[0]) if self._merged else None
        requests = self._row_requests(handles) if merged is None else [named_values(merged)]
        return self.encoder.joiner.body(requests)

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """Return the items of these rows, with those merged into them, or the keys to delete."""
        if self._merged:
            return [self._item(handle) for handle in handles]
        return [item_of_request(request) for request in self._row_requests(handles)]

    def merge(self, earlier: int, later: int) -> bool:
        """Merge a row into a later one, as `RowMerger` says."""
        assert self._writes is not None, "only a merging order asks for it"  # noqa: S101
        row = self._writes.merged(self._item(earlier), self._item(later))
        if row is None:
            return False
        self._merged.pop(earlier, None)
        self._merged[later] = row
        return True

    def restore(self, handles: Sequence[int]) -> None:
        """Merge only these rows into the last of them."""
        self.forget(handles)
        for earlier, later in pairwise(handles):
            merged = self.merge(earlier, later)
            assert merged, "these rows were merged before"  # noqa: S101

    def forget(self, handles: Sequence[int]) -> None:
        """Forget the rows that were merged into these."""
        for handle in handles if self._merged else ():
            self._merged.pop(handle, None)

    def _item(self, handle: int) -> Attributes:
        merged = self._merged.get(handle)
        return item_of_request(self._row_request(handle)) if merged is None else merged

    def build(self, handle: int) -> Item | Defect:
        """Build a row's item by itself; its defect if there is one."""
        block = self._block_of(handle)
        positions, row = block.positions, handle - block.first
        return block.encoder.build(positions.data(row), positions.byte(row))

    def filtered_before(self, handle: int) -> int:
        """Count the rows left out before a row; all of them if it was not read yet."""
        if handle >= self.rows:
            return self.filtered
        block = self._block_of(handle)
        return block.filtered + block.positions.filtered_before(handle - block.first)

    def position_in_block(self, handle: int) -> tuple[RowPositions, int]:
        """Return the positions of the block that a row was read with, and its number in it."""
        block = self._block_of(handle)
        return block.positions, handle - block.first

    def byte(self, handle: int) -> int:
        """Return the byte at which a row begins in the source. Raises `SplitMismatch`."""
        positions, row = self.position_in_block(handle)
        return positions.byte(row)

    def discard_before(self, frontier: int) -> None:
        """Free blocks and requests whose rows all have handles below `frontier`."""
        for pending in (self._blocks, self._requests):
            while pending and pending[0].end <= frontier:
                pending.popleft()

    def _block_of(self, handle: int) -> PendingBlock:
        return next(block for block in self._blocks if handle < block.end)

    def _row_requests(self, handles: Sequence[int]) -> list[Request]:
        if isinstance(handles, range):
            requests = self.requests_with(handles[0])
            if handles[-1] < requests.end and not requests.encoded.odd:
                first = requests.first
                return requests.encoded.puts[
                    handles[0] - first : handles[-1] - first + 1 : handles.step
                ]
        return [self._row_request(handle) for handle in handles]

    def _row_request(self, handle: int) -> Request:
        requests = self.requests_with(handle)
        row = handle - requests.first
        if row not in requests.encoded.odd:
            return requests.encoded.puts[row]
        built = self.build(handle)
        assert isinstance(built, Item), f"row {handle} was offered but has a defect"  # noqa: S101
        return self.encoder.joiner.request(built)


def write_segment(
    segment: Segment,
    rejects: tuple[list[bytes], dict[str, int]],
    trail: SeekTrail,
    ledger: Ledger,
    session: WorkerSession | None,
) -> Segment:
    """Write rejects, then the segment that names them; another's, if it was written first.

    `rejects`: their lines and the counts of their causes. The point of a compressed object to
    continue at is written, too.
    """
    (lines, causes), start, end = rejects, segment.start.byte, segment.end.byte
    if lines:
        name = ledger.put_rejects(segment.chunk, start, end, lines)
        segment = replace(segment, rejects=name, causes=causes)
    point = None if segment.proven else trail.last_before(end)
    if point is not None:
        ledger.put_seek_point(end, point)
    counted = ledger.put_segment(segment)
    if session is not None and counted is segment:
        session.settle(segment)
    return counted


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
        writes: RowWrites | None = None,
    ) -> None:
        """`attempt` records rows before they are offered; if that fails, they are not sent.

        `writes` merges rows of one key.
        """
        self.error: DdbloadError | None = None
        """Error that ended reading early. Rows before it are written all the same."""
        self.pending = PendingRows(reader.encoder, writes)
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

    def attach(self, blocks: Iterator[ChunkBlock], scheduler: Scheduler | None) -> None:
        """Set where blocks come from and which scheduler gets their rows.

        None at the end: feeder and scheduler refer to each other, and to all rows.
        """
        self._blocks = blocks
        self._scheduler = scheduler

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
        self.pending.forget(handles)
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
        if frontier >= self.pending.rows:
            return self._read_to
        positions, row = self.pending.position_in_block(frontier)
        return positions.position(row)

    def counts(self, scheduler: Scheduler) -> RowCounts:
        """Count the settled rows: those before the frontier, and those left out among them."""
        counts = scheduler.outcomes.counts
        if not self.pending.filtered:
            return counts
        filtered = self.pending.filtered_before(scheduler.outcomes.frontier)
        return replace(counts, read=counts.read + filtered, filtered=filtered)

    def settled_bytes(self, frontier: int) -> tuple[int, int]:
        """Estimate the bytes from the start cursor to a row, for progress; and where its block is.

        Exact where a block begins, and at the end. Finding a row's true byte takes longer than
        encoding its block, and progress is reported many times a second.
        """
        byte = block_start = self._read_to.byte
        if frontier < self.pending.rows:
            # As if the rows of a block had one length.
            positions, row = self.pending.position_in_block(frontier)
            block = positions.block
            block_start = block.start.byte
            byte = block_start + len(block.data) * row // positions.count
        return byte - self._start.byte - self.padding_before(byte), block_start

    def padding_before(self, byte: int) -> int:
        """Return how many bytes, from the start cursor to this one, no object has."""
        return sum(length for end, length in self._padding if end <= byte)

    def rejects(self, frontier: int) -> tuple[list[bytes], dict[str, int]]:
        """Return the reject lines of the rows before a handle, in order, and count their causes."""
        found = [each for handle, each in sorted(self._rejects.items()) if handle < frontier]
        return [line for _, line in found], dict(Counter(cause for cause, _ in found))

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
        group: list[tuple[int, Hashable, int]] = []

        def offer() -> None:
            if group:
                numbers, keys, units = map(list, zip(*group, strict=True))
                scheduler.offer_all(numbers, keys, units, encoded.row_bytes)
                group.clear()

        for handle in handles:
            row = handle - requests.first
            if row not in encoded.odd:
                units = 1 if encoded.units is None else encoded.units[row]
                group.append((handle, encoded.keys[row], units))
                continue
            built = self.pending.build(handle)
            if isinstance(built, Defect):
                scheduler.reject(handle)
                self._reject(handle, built)
                continue
            alone = not self._reader.encoder.joiner.fits(built.attributes)
            if built.wire_bytes <= MAX_ROW_BYTES and not alone:
                group.append((handle, built.key, -(-built.size // limits.WRITE_UNIT_BYTES)))
            else:
                offer()
                scheduler.offer(handle, built.key, built.size, built.wire_bytes, alone=alone)
        offer()

    def _reject(self, handle: int, defect: Defect) -> None:
        positions, row = self.pending.position_in_block(handle)
        byte = positions.byte(row)
        found = next(each for each in reversed(self._slices) if each[0].base <= byte)
        knows_line = self._chunk.first_line > 0
        line = self._reader.reject_line(positions, row, defect, *found, knows_line=knows_line)
        self._rejects[handle] = defect.cause, line
        self._reject_bytes += len(line)
