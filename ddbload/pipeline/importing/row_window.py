"""A chunk's rows from when they are read until they are settled: for a body, an item, a place."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import batch_request, item_of_request
from ddbload.items.item_builder import Item
from ddbload.items.row_encoder import RowEncoder
from ddbload.rows.block_splitter import Block
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions


@dataclass(slots=True)
class PendingBlock:
    """Rows that were read together, and the handle of the first."""

    first: int
    places: RowPositions

    @property
    def after(self) -> int:
        """The handle of the row after these."""
        return self.first + self.places.count


@dataclass(slots=True)
class PendingRequests:
    """Rows that are told of together, and the handle of the first."""

    first: int
    window: EncodedRows
    after: int
    """The handle of the row after these."""


class PendingRows:
    """Rows by handle: 0, 1, 2, … in the order in which they stand in the source."""

    def __init__(self, rows: RowEncoder) -> None:
        self.rows = 0
        """How many came: the next handle."""
        self._format = rows
        self._blocks: deque[PendingBlock] = deque()
        self._windows: deque[PendingRequests] = deque()

    @property
    def held(self) -> int:
        """How many rows are kept now."""
        return self.rows - self._blocks[0].first if self._blocks else 0

    def add(self, block: Block, since: int) -> None:
        """Take a block's rows. They join a window that begins at the handle `since`, or later."""
        places, window = self._format.read(block)
        self._blocks.append(PendingBlock(self.rows, places))
        last = self._windows[-1] if self._windows else None
        if last is None or last.first < since:
            self._windows.append(PendingRequests(self.rows, window, self.rows + len(window)))
        else:
            last.after += len(window)
            last.window.extend(window)
        self.rows += len(window)

    def window(self, handle: int) -> PendingRequests:
        """The window of a row."""
        # Nearly always it is one of the first, and this is asked for each request.
        for held in self._windows:
            if handle < held.after:
                return held
        raise LookupError(handle)

    def body(self, handles: Sequence[int]) -> bytes:
        """The body of the request that writes these rows."""
        return self._format.body(self._puts(handles))

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """The items of these rows, or the keys that are to be deleted."""
        return [item_of_request(put) for put in self._puts(handles)]

    def build(self, handle: int) -> Item | Defect:
        """A row's item, or why there is none."""
        block = self._block(handle)
        places, row = block.places, handle - block.first
        return self._format.build(places.data(row), places.byte(row))

    def position(self, handle: int) -> Cursor:
        """Where a row begins in the source. Raises `SplitMismatch`."""
        block = self._block(handle)
        return block.places.position(handle - block.first)

    def byte(self, handle: int) -> int:
        """The byte at which a row begins. Raises `SplitMismatch`."""
        places, row = self.place(handle)
        return places.byte(row)

    def place(self, handle: int) -> tuple[RowPositions, int]:
        """The places of the rows that a row was read with, and its number among them."""
        block = self._block(handle)
        return block.places, handle - block.first

    def forget(self, frontier: int) -> None:
        """Let go of what stands before a handle, by the block and by the window."""
        for held in (self._blocks, self._windows):
            while held and held[0].after <= frontier:
                held.popleft()

    def _block(self, handle: int) -> PendingBlock:
        return next(held for held in self._blocks if handle < held.after)

    def _puts(self, handles: Sequence[int]) -> list[str]:
        if isinstance(handles, range):
            held = self.window(handles[0])
            if handles[-1] < held.after and not held.window.odd:
                first = held.first
                return held.window.puts[handles[0] - first : handles[-1] - first + 1 : handles.step]
        return [self._put(handle) for handle in handles]

    def _put(self, handle: int) -> str:
        held = self.window(handle)
        place = handle - held.first
        if place not in held.window.odd:
            return held.window.puts[place]
        built = self.build(handle)
        assert isinstance(built, Item), f"row {handle} was offered, and is none"  # noqa: S101
        return batch_request(built)
