"""Feed the scheduler with the rows of chunks: read, encode, check, and offer them.

Rows stay in memory, by handle, until DynamoDB has acknowledged them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ddbload.contracts.results import Segment
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb import limits
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.modes import RowWrites
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import MAX_ROW_BYTES, EncodedRows
from ddbload.items.item_requests import Item, Request, item_of_request, named_values
from ddbload.items.row_encoder import RowEncoder
from ddbload.ledger.ledger import Ledger
from ddbload.rows.blocks import Defect
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.steps.places import PendingBlock, Place
from ddbload.write.scheduler.scheduler import Scheduler

FEED_READ_BYTES = 64 * 1024
"""Bytes that are read and encoded together: few enough to stay in a processor's cache."""
READ_AHEAD_BYTES = 1024 * 1024
"""Most bytes whose rows are offered together: the scheduler spreads these over partitions."""
READ_AHEAD_SECONDS = 0.25
"""Longest time that the rows of a full request wait for more rows to be offered with them."""
TURN_ROWS = 25
"""Rows of a block with few partition keys that are taken before it is the next place's turn."""
MOST_WAITING_BYTES = 2 * 1024 * 1024
"""Bytes of rows that wait for their turn, from which on no other place is read in between."""
UNTHROTTLED_ROWS = 10_000
"""Rows after which places take no turns, unless requests were throttled: turns take CPU time."""
MAX_REJECT_BYTES = 32 * 1024 * 1024
"""Bytes of rejects that end a segment; the next invocation continues."""


@dataclass(slots=True)
class PendingRequests:
    """Requests for rows that are offered together; `first` is the handle of the first row."""

    first: int
    encoded: EncodedRows
    end: int
    """Handle after the last row."""


class PendingRows:
    """Rows by handle: 0, 1, 2, … in the order in which they are taken from their places.

    `writes` merges rows of one key into the last of them, which then stands for all.
    """

    def __init__(self, encoder: RowEncoder, writes: RowWrites | None = None) -> None:
        self._writes = writes
        # By the handle of the last of the merged rows.
        self._merged: dict[int, Attributes] = {}
        self.rows = 0
        """Rows added so far: the next handle. Rows that are left out have none."""
        self.encoder = encoder
        """Encoder of the run."""
        self._blocks: deque[PendingBlock] = deque()
        self._requests: deque[PendingRequests] = deque()

    def add(self, place: Place, most: int, offered: int) -> None:
        """Take up to `most` rows of a place, together with others that were not offered yet.

        `offered`: the first handle that the scheduler does not know.
        """
        block, encoded = place.take(most, self.rows)
        self._blocks.append(block)
        last = self._requests[-1] if self._requests else None
        if last is None or last.first < offered:
            self._requests.append(PendingRequests(self.rows, encoded, block.end))
        else:
            last.end = block.end
            last.encoded.extend(encoded)
        self.rows = block.end

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
        block = self.block_of(handle)
        positions, row = block.positions, block.row_at(handle)
        return block.encoder.build(positions.data(row), positions.byte(row))

    def block_of(self, handle: int) -> PendingBlock:
        """Return the part of a block that a row was read with."""
        return self._blocks[bisect_right(self._blocks, handle, key=lambda block: block.end)]

    def byte(self, handle: int) -> int:
        """Return the byte at which a row begins in the source. Raises `SplitMismatch`."""
        block = self.block_of(handle)
        return block.positions.byte(block.row_at(handle))

    def unsettled(self, frontier: int) -> dict[int, tuple[PendingBlock, int]]:
        """Find the first row of each place from a handle on: its block, and its number in it.

        By the number of the place. Those of which all rows with handles are before it are missing.
        """
        found = {}
        for block in reversed(self._blocks):
            if block.end <= frontier:
                break
            found[block.place] = block, block.row_at(max(frontier, block.first))
        return found

    def byte_after(self, place: int, handle: int) -> int:
        """Return a byte after the rows of a place up to this handle; 0 if none are in memory."""
        for block in reversed(self._blocks):
            if block.place == place and block.first <= handle:
                return block.positions.byte(block.row_at(min(handle, block.end - 1))) + 1
        return 0

    def discard_before(self, frontier: int) -> None:
        """Free blocks and requests whose rows all have handles below `frontier`."""
        for pending in (self._blocks, self._requests):
            while pending and pending[0].end <= frontier:
                pending.popleft()

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
) -> tuple[Segment, bool]:
    """Write rejects, then the segment that names them.

    Return the segment that counts, and whether it is this one: another may have been written first.
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
    return counted, counted is segment


class RowFeeder:
    """Reader of places, which offers their rows in turn to one scheduler."""

    def __init__(
        self,
        record: RunRecord,
        encoder: RowEncoder,
        places: Sequence[Place],
        *,
        clock: Callable[[], float],
        writes: RowWrites | None = None,
    ) -> None:
        """Begin to read places, whose attempts record rows before they are offered.

        If that fails, none are sent. `writes` merges rows of one key.
        """
        self.error: DdbloadError | None = None
        """Error that ended the work on all places."""
        self.pending = PendingRows(encoder, writes)
        """Rows until their outcome is known. Drivers take items and request bodies from it."""
        self._record = record
        self._limit = record.payload.options.reject_limit
        self._places = places
        # Those that are not read to their end, the next one first.
        self._turns = deque(places)
        self._clock = clock
        self._scheduler: Scheduler | None = None
        # The first handle that the scheduler does not know.
        self._offered = 0
        self.rejected = self._reject_bytes = 0
        """Rejects so far, including those after the end of the segments."""

    def attach(self, scheduler: Scheduler | None) -> None:
        """Set which scheduler gets the rows.

        None at the end: feeder and scheduler refer to each other, and to all rows.
        """
        self._scheduler = scheduler

    @property
    def has_too_many_rejects(self) -> bool:
        """True if the run has too many rejects, whatever its other rows are."""
        limit, rejected = self._limit, self.rejected
        if limit.percent is None or not rejected:
            return rejected > limit.rows
        besides = self._record.most_rows_besides(self.bytes_read)
        return limit.surely_exceeded(rejected, self.rows_read, besides)

    @property
    def rows_read(self) -> int:
        """Rows that were read, from the start cursors on."""
        return sum(place.rows for place in self._places)

    @property
    def bytes_read(self) -> int:
        """Bytes of whole rows that were read, from the start cursors on."""
        return sum(place.bytes_to(place.read_to.byte) for place in self._places)

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
                has_read = self._read_ahead(scheduler)
                if self._offered == self.pending.rows:
                    return has_read
            self._cover(scheduler)
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
        scheduler, pending = self._scheduler, self.pending
        pending.forget(handles)
        if scheduler is None:
            return
        refused, identical = scheduler.refused, scheduler.identical
        for handle in refused.keys() & handles if refused else ():
            self._reject(handle, Defect(refused[handle].cause, refused[handle].message))
        if identical:
            for handle in identical:
                self._places[pending.block_of(handle).place].identical.append(pending.byte(handle))
            identical.clear()

    def unsettled(self, frontier: int) -> list[tuple[PendingBlock, int] | None]:
        """Find the first unsettled row of each place, as `PendingRows.unsettled`; None without."""
        found = self.pending.unsettled(frontier)
        return [found.get(place.number) or place.first_waiting for place in self._places]

    def _read_ahead(self, scheduler: Scheduler) -> bool:
        """Take rows from the places in turn until there are enough to spread; False without any.

        A place is read when none of its rows wait.
        """
        pending, turns, has_read = self.pending, self._turns, False
        pending.discard_before(scheduler.outcomes.frontier)
        until, bytes_left = self._clock() + READ_AHEAD_SECONDS, READ_AHEAD_BYTES
        while turns and pending.rows - self._offered < scheduler.READY_ROWS and bytes_left > 0:
            place = turns[0]
            if place.first_waiting is None:
                before = place.read_to.byte
                if not place.read():
                    turns.popleft()
                    if place.error is not None and not place.error.chunk_local:
                        turns.clear()
                    continue
                has_read = True
                bytes_left -= place.read_to.byte - before
            may_be_throttled = scheduler.stats.throttled or pending.rows < UNTHROTTLED_ROWS
            shares = len(turns) > 1 and may_be_throttled and place.has_few_keys
            shares = shares and sum(each.waiting_bytes for each in turns) < MOST_WAITING_BYTES
            if place.first_waiting is not None:
                pending.add(place, TURN_ROWS if shares else scheduler.MAX_AHEAD, self._offered)
                scheduler.outcomes.assign(pending.rows, place.number)
            if shares:
                turns.rotate(-1)
            now, waiting = self._clock(), pending.rows - self._offered
            if (now >= until and waiting >= limits.MAX_BATCH_ROWS) or now >= scheduler.deadline:
                break
        return has_read

    def _cover(self, scheduler: Scheduler) -> None:
        """Record rows that may be sent, of places whose attempt's record does not cover them."""
        for place in self._places:
            if place.needs_record:
                has_written = scheduler.outcomes.counts_of(place.number).written > 0
                unsettled = self.unsettled(scheduler.outcomes.frontier)
                place.cover(None if has_written else unsettled[place.number])

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
            key = built.key + self._places[self.pending.block_of(handle).place].key_end
            alone = not self.pending.encoder.joiner.fits(built.attributes)
            if built.wire_bytes <= MAX_ROW_BYTES and not alone:
                group.append((handle, key, -(-built.size // limits.WRITE_UNIT_BYTES)))
            else:
                offer()
                scheduler.offer(handle, key, built.size, built.wire_bytes, alone=alone)
        offer()

    def _reject(self, handle: int, defect: Defect) -> None:
        block = self.pending.block_of(handle)
        place, row = self._places[block.place], block.row_at(handle)
        self.rejected += 1
        self._reject_bytes += place.reject(handle, block.positions, row, defect)
