"""Read all rows of a run in one pass, for plans and conversions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from ddbload.contracts.chunks import ObjectSlice
from ddbload.contracts.run_record import Cursor
from ddbload.errors import UnterminatedQuote
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.item_builder import Item
from ddbload.items.row_encoder import DelimitedRowEncoder
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import iter_objects
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
)
from ddbload.pipeline.reading.row_blocks import RunReader, refuse_unterminated
from ddbload.pipeline.reading.source_objects import slice_for_object
from ddbload.rows.block_splitter import BLOCK_BYTES, Block
from ddbload.rows.columns import Columns
from ddbload.rows.reject_lines import Defect, reject_line
from ddbload.rows.row_positions import RowPositions
from ddbload.source.byte_source import CountingSource

RejectLine = bytes
"""Line of JSON, with its line end."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows that were read and encoded together."""

    reader: RunReader
    name: str
    """Name of the object that holds the rows."""
    object_slice: ObjectSlice
    positions: RowPositions
    encoded: EncodedRows
    """Requests that an import would send; entries of odd rows mean nothing."""
    columns: Columns | None
    """Cells of delimited text; None for other formats."""
    bytes: int
    """Bytes of the source, with line ends and empty lines."""
    stored_bytes: int
    """Bytes read of the source as stored, compressed or not, from its beginning."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.encoded)

    def build(self, row: int) -> Item | Defect:
        """Build a row's item by itself; its defect if there is one. Needed for odd rows."""
        return self.reader.encoder.build(self.positions.data(row), self.positions.byte(row))

    def column_of(self, defect: Defect) -> str | None:
        """Return the name of the column with a defect."""
        return defect.column_of(self.reader.record.columns)

    def reject_line(self, row: int, defect: Defect) -> RejectLine:
        """Return the line of JSON that reports a reject. Raises `SplitMismatch`."""
        record = self.reader.record
        offset = self.object_slice.skip - self.object_slice.base
        name = None if record.objects is None else self.name
        return reject_line(self.positions, row, defect, record.columns, offset, name)


def iter_row_batches(
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    *,
    piece_bytes: int = BLOCK_BYTES,
    must_end: Callable[[], bool] = lambda: False,
) -> Generator[RowBatch, None, None]:
    """Read the rows of a run's source to its end, or until `must_end`, checked for each piece.

    `ledger` holds the listing of several objects. Raises `RowTooLong`, `UnterminatedQuote`,
    `HeaderMismatch`, `SplitMismatch`, and errors of reading the source.
    """
    record = reader.record
    base = record.data_start.byte
    before = 0
    objects = iter_objects(record, ledger, 0)
    with closing(open_each(objects, context, several=record.objects is not None)) as each:
        for pinned, raw in each:
            if base > record.data_start.byte and must_end():
                return
            with prefix_errors_with_object_name(raw, several=record.objects is not None):
                source = record.payload.source
                # Not counted: bytes that are read for the header are read again with the rows.
                object_slice = slice_for_object(
                    record, pinned, open_decoded(raw, source, pinned), base
                )
                counting = CountingSource(raw)
                file = open_decoded(counting, source, pinned)
                end = object_slice.end if file.plain else None
                start = Cursor(object_slice.base, object_slice.line)
                offset = object_slice.skip - object_slice.base
                for block in reader.iter_blocks(file, object_slice, start, end, piece_bytes):
                    if block is not None:
                        base = block.end.byte
                        try:
                            refuse_unterminated(reader.boundaries, block, offset)
                        except UnterminatedQuote:
                            # Rows before the open quote are complete.
                            whole = reader.boundaries.last(block.data, final=True)
                            if whole:
                                good = Block(block.data[:whole], block.start)
                                yield make_row_batch(
                                    reader, raw.name, object_slice, good, before + counting.read
                                )
                            raise
                        yield make_row_batch(
                            reader, raw.name, object_slice, block, before + counting.read
                        )
                    if (end is None or base < end) and must_end():
                        return
            before += raw.size


def make_row_batch(
    reader: RunReader, name: str, object_slice: ObjectSlice, block: Block, stored_bytes: int = 0
) -> RowBatch:
    """Encode the rows of a block of the object with this name."""
    columns = None
    if isinstance(reader.encoder, DelimitedRowEncoder):
        columns, positions, encoded = reader.encoder.read_columns(block)
    else:
        positions, encoded = reader.encoder.read(block)
    return RowBatch(
        reader, name, object_slice, positions, encoded, columns, len(block.data), stored_bytes
    )
