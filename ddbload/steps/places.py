"""Places of a source: the chunks that a worker reads side by side, each from its own cursor on."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from ddbload.contracts.chunks import Chunk, ObjectSlice
from ddbload.contracts.results import Segment
from ddbload.contracts.run_record import Cursor
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import EncodedRows
from ddbload.items.row_encoder import RowEncoder
from ddbload.ledger.ledger import Attempt
from ddbload.reading.row_blocks import ChunkBlock, RunReader
from ddbload.rows.blocks import Defect, RowPositions
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.write.scheduler.answers import OutcomeTracker, RowOutcome

MANY_KEYS, SAMPLED_KEYS = 32, 128
"""Partition keys among those sampled from a block, from which on its rows load all partitions."""


@dataclass(slots=True)
class PendingBlock:
    """Rows of a block, from number `row` on, which have the handles from `first` to `end`."""

    place: int
    """Number of the place that the rows are from. A reference would form a cycle."""
    positions: RowPositions
    encoder: RowEncoder
    """Encoder of the object that the rows are from."""
    filtered: int
    """Rows of the place that are left out before the block, from the cursor on."""
    row: int
    first: int
    end: int

    def row_at(self, handle: int) -> int:
        """Return the number in the block of the row with this handle."""
        return handle - self.first + self.row


class Place:
    """A chunk that is read from a cursor on, and what is known of its rows.

    Rows of a block that is read wait here until they get handles.
    """

    def __init__(
        self,
        reader: RunReader,
        chunk: Chunk,
        start: Cursor,
        number: int,
        attempt: Attempt | None,
        *,
        has_own_keys: bool = False,
    ) -> None:
        """Begin at a cursor; `number` is that of the place among those of the worker.

        `has_own_keys`: add the number to each key, so that rows of other places have others.
        """
        self.chunk = chunk
        self.start = start
        self.number = number
        self.attempt = attempt
        self.key_end: tuple[Hashable, ...] = (number,) if has_own_keys else ()
        self.trail = SeekTrail()
        self.blocks: Iterator[ChunkBlock] = iter(())
        self.error: DdbloadError | None = None
        """Error that ended reading early. Rows before it are written all the same."""
        self.read_to = start
        """End of the last block that was encoded."""
        self.rows = 0
        """Rows read so far."""
        self.filtered = 0
        """Rows left out so far."""
        self.has_few_keys = False
        """True if the last block has so few partition keys that its rows load few partitions."""
        self._reader = reader
        # The last block, if not all of its rows have handles: those before number `row` have.
        self._waiting: tuple[PendingBlock, EncodedRows] | None = None
        # Objects in the order in which they were read, with their names.
        self._slices: list[tuple[ObjectSlice, str]] = []
        self.rejected: dict[int, tuple[str, bytes]] = {}
        """Causes and lines of rejects so far, including those after the end of the segment."""
        self.identical = array("Q")
        """Bytes at which rows begin that found an identical item, or one not shown."""
        # Ranges of bytes that no object has: where they end, and their length.
        self._padding: list[tuple[int, int]] = []

    @property
    def first_waiting(self) -> tuple[PendingBlock, int] | None:
        """Block of the first row without a handle, and its number in it; None without any."""
        return None if self._waiting is None else (self._waiting[0], self._waiting[0].row)

    @property
    def needs_record(self) -> bool:
        """True if rows were read that the attempt's record does not cover."""
        return self.attempt is not None and self.read_to.byte > self.attempt.recorded_to

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the block of which rows wait."""
        return 0 if self._waiting is None else len(self._waiting[0].positions.block.data)

    def cover(self, untouched: tuple[PendingBlock, int] | None) -> None:
        """Record the rows that were read, and some of the next ones, as rows that may be sent.

        `untouched`: the row before which none was sent; None if any was written. Raises errors of
        the ledger.
        """
        byte = None if untouched is None else self.cursor(untouched).byte
        if self.attempt is not None:
            self.attempt.cover(self.read_to.byte, self.rows, byte)

    def read(self) -> bool:
        """Read and encode the next block; return false at the end or after an error."""
        try:
            chunk_block = next(self.blocks, None)
            if chunk_block is None:
                return False
            object_slice, name, block = chunk_block
            if not self._slices or self._slices[-1][0] is not object_slice:
                self._slices.append((object_slice, name))
            gap = block.start.byte - self.read_to.byte
            if gap:
                self._padding.append((block.start.byte, gap))
            if block.data:
                encoder = self._reader.encoder_of(object_slice)
                positions, encoded = encoder.read(block)
                if self.key_end:
                    encoded.keys = [key + self.key_end for key in encoded.keys]
                if positions.count:
                    sample = encoded.keys[:: len(encoded.keys) // SAMPLED_KEYS + 1]
                    # The key of a row that must be built by itself may be empty.
                    self.has_few_keys = len({key[:1] for key in sample}) < MANY_KEYS
                    kept = positions, encoder, self.filtered
                    self._waiting = PendingBlock(self.number, *kept, 0, 0, 0), encoded
                self.rows += positions.count
                self.filtered += positions.filtered
            self.read_to = block.end
        except DdbloadError as error:
            self.error = error
            return False
        return True

    def take(self, most: int, first: int) -> tuple[PendingBlock, EncodedRows]:
        """Take up to `most` rows that wait, of which the first one gets the handle `first`."""
        assert self._waiting is not None, "only rows that wait are taken"  # noqa: S101
        block, encoded = self._waiting
        row, end = block.row, min(block.row + most, len(encoded))
        taken = replace(block, first=first, end=first + end - row)
        if end == len(encoded):
            self._waiting = None
        if row or end < len(encoded):
            encoded = encoded.part(row, end)
        block.row = end
        return taken, encoded

    def cursor(self, unsettled: tuple[PendingBlock, int] | None) -> Cursor:
        """Return the position of the first unsettled row; where reading is if there is none."""
        return self.read_to if unsettled is None else unsettled[0].positions.position(unsettled[1])

    def filtered_before(self, unsettled: tuple[PendingBlock, int] | None) -> int:
        """Count the rows left out before the first unsettled row."""
        if unsettled is None:
            return self.filtered
        block, row = unsettled
        return block.filtered + block.positions.filtered_before(row)

    def settled_bytes(self, unsettled: tuple[PendingBlock, int] | None) -> tuple[int, int]:
        """Estimate the bytes before the first unsettled row, for progress; and where its block is.

        Exact where a block begins, and at the end. Finding a row's true byte takes longer than
        encoding its block, and progress is reported many times a second.
        """
        byte = block_start = self.read_to.byte
        if unsettled is not None:
            # As if the rows of a block had one length.
            positions, row = unsettled[0].positions, unsettled[1]
            block_start = positions.block.start.byte
            byte = block_start + len(positions.block.data) * row // positions.count
        return self.bytes_to(byte), block_start

    def padding_before(self, byte: int) -> int:
        """Return how many bytes, from the start cursor to this one, no object has."""
        return sum(length for end, length in self._padding if end <= byte)

    def bytes_to(self, byte: int) -> int:
        """Return the bytes of objects from the start cursor to this byte."""
        return byte - self.start.byte - self.padding_before(byte)

    def reject(self, handle: int, positions: RowPositions, row: int, defect: Defect) -> int:
        """Keep the reject of a row; return its length."""
        byte = positions.byte(row)
        found = next(each for each in reversed(self._slices) if each[0].base <= byte)
        knows_line = self.chunk.first_line > 0
        line = self._reader.reject_line(positions, row, defect, *found, knows_line=knows_line)
        self.rejected[handle] = defect.cause, line
        return len(line)

    def rejects(self, frontier: int) -> tuple[list[bytes], dict[str, int]]:
        """Return the reject lines of the rows before a handle, in order, and count their causes."""
        found = [each for handle, each in sorted(self.rejected.items()) if handle < frontier]
        return [line for _, line in found], dict(Counter(cause for cause, _ in found))

    def with_own_items(
        self, segment: Segment, outcomes: OutcomeTracker, by_condition: bool
    ) -> Segment:
        """Count identical items as written where another invocation may have written them.

        They are uncertain, and so are those that a request without an answer may have written.
        `by_condition`: rows are skipped by a user's condition.
        """
        if self.attempt is None:
            return segment
        identical, unseen, uncertain = (
            outcomes.count(outcome, self.number)
            for outcome in (RowOutcome.IDENTICAL, RowOutcome.UNSEEN, RowOutcome.UNCERTAIN)
        )
        own, begins = 0, sorted(self.identical)
        for start, end in self.attempt.others(segment.end.byte) if identical or unseen else ():
            own += bisect_left(begins, end) - bisect_left(begins, start)
        rows = segment.rows
        rows = replace(rows, written=rows.written + own, skipped=rows.skipped - own)
        segment = replace(segment, rows=rows, uncertain=own + uncertain)
        # An emulator does not return the item, so it may or may not be identical. Rows that a
        # user's condition skips have other reasons.
        return segment if unseen or by_condition else replace(segment, identical=identical - own)
