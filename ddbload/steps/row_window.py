"""Rows in memory until DynamoDB has acknowledged them, by handle; updates of one key merged."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.row_writes import RowWrites
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import batch_request, item_of_request, put_request
from ddbload.items.item_builder import Item
from ddbload.items.row_encoder import RowEncoder
from ddbload.rows.block_splitter import Block
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions


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
    """Rows by handle: 0, 1, 2, … in their order in the chunk, from the cursor on."""

    def __init__(self, encoder: RowEncoder) -> None:
        self.rows = 0
        """Rows added so far: the next handle. Rows that are left out have none."""
        self.filtered = 0
        """Rows left out so far."""
        self._encoder = encoder
        self._make_body = encoder.body
        self._blocks: deque[PendingBlock] = deque()
        self._requests: deque[PendingRequests] = deque()

    def add(self, block: Block, offered: int, encoder: RowEncoder | None = None) -> None:
        """Encode a block's rows and keep them, together with others that were not offered yet.

        `offered`: the first handle that the scheduler does not know. `encoder` is that of the
        block's object, if not the run's.
        """
        encoder = encoder or self._encoder
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
        return self._make_body(self._row_requests(handles))

    def body_of(self, item: Attributes) -> bytes:
        """Make the body of the request that writes an item that is no row's."""
        return self._make_body([put_request(item)])

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """Return the items of these rows, or the keys to delete."""
        return [item_of_request(request) for request in self._row_requests(handles)]

    def goes_alone(self, item: Item) -> bool:
        """Return whether an item goes in a request of its own."""
        return self._encoder.goes_alone(item)

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

    def position(self, handle: int) -> Cursor:
        """Return the byte and line at which a row begins in the source. Raises `SplitMismatch`."""
        positions, row = self.position_in_block(handle)
        return positions.position(row)

    def byte(self, handle: int) -> int:
        """Return the byte at which a row begins in the source. Raises `SplitMismatch`."""
        positions, row = self.position_in_block(handle)
        return positions.byte(row)

    def estimated_byte(self, handle: int) -> int:
        """Estimate the byte at which a row begins, as if rows of a block had one length."""
        positions, row = self.position_in_block(handle)
        block = positions.block
        return block.start.byte + len(block.data) * row // positions.count

    def discard_before(self, frontier: int) -> None:
        """Free blocks and requests whose rows all have handles below `frontier`."""
        for pending in (self._blocks, self._requests):
            while pending and pending[0].end <= frontier:
                pending.popleft()

    def _block_of(self, handle: int) -> PendingBlock:
        return next(block for block in self._blocks if handle < block.end)

    def _row_requests(self, handles: Sequence[int]) -> list[str]:
        if isinstance(handles, range):
            requests = self.requests_with(handles[0])
            if handles[-1] < requests.end and not requests.encoded.odd:
                first = requests.first
                return requests.encoded.puts[
                    handles[0] - first : handles[-1] - first + 1 : handles.step
                ]
        return [self._row_request(handle) for handle in handles]

    def _row_request(self, handle: int) -> str:
        requests = self.requests_with(handle)
        row = handle - requests.first
        if row not in requests.encoded.odd:
            return requests.encoded.puts[row]
        built = self.build(handle)
        assert isinstance(built, Item), f"row {handle} was offered but has a defect"  # noqa: S101
        return batch_request(built)


class MergedUpdates:
    """Rows in memory, some of which stand for earlier rows of their key as well."""

    def __init__(self, pending: PendingRows, writes: RowWrites) -> None:
        self._pending = pending
        self._writes = writes
        # By the handle of the last of the merged rows.
        self._merged: dict[int, Attributes] = {}

    def merge(self, earlier: int, later: int) -> bool:
        """Merge a row into a later one, as `RowMerger` says."""
        row = self._writes.merged(self._item(earlier), self._item(later))
        if row is None:
            return False
        self._merged.pop(earlier, None)
        self._merged[later] = row
        return True

    def restore(self, handles: Sequence[int]) -> None:
        """Merge only these rows into the last of them."""
        for handle in handles:
            self._merged.pop(handle, None)
        for earlier, later in pairwise(handles):
            merged = self.merge(earlier, later)
            assert merged, "these rows were merged before"  # noqa: S101

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """Return the rows with these handles, with those merged into them."""
        return [self._item(handle) for handle in handles]

    def body(self, handles: Sequence[int]) -> bytes:
        """Make the body of the request that writes these rows."""
        (handle,) = handles
        merged = self._merged.get(handle)
        return self._pending.body(handles) if merged is None else self._pending.body_of(merged)

    def release(self, handles: Sequence[int]) -> None:
        """Forget rows that have an outcome."""
        for handle in handles:
            self._merged.pop(handle, None)

    def _item(self, handle: int) -> Attributes:
        merged = self._merged.get(handle)
        return self._pending.items((handle,))[0] if merged is None else merged
