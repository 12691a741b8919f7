"""A source's rows from the first to the last, in one pass: for whoever imports nothing."""

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
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
)
from ddbload.pipeline.reading.row_blocks import RunReader, refuse_unterminated
from ddbload.pipeline.reading.source_objects import (
    iter_objects,
    slice_for_object,
)
from ddbload.rows.block_splitter import BLOCK_BYTES, Block
from ddbload.rows.columns import Columns
from ddbload.rows.reject_lines import Defect, reject_line
from ddbload.rows.row_positions import RowPositions
from ddbload.source.byte_source import CountingSource

RejectLine = bytes
"""A line of JSON, with its end."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows that were read together."""

    reading: RunReader
    name: str
    """Of the object that they stand in."""
    part: ObjectSlice
    places: RowPositions
    window: EncodedRows
    """What the import would send of them. Of its odd rows nothing means anything."""
    columns: Columns | None
    """Their cells, where the format has such."""
    bytes: int
    """Of the source, with the line ends and empty lines between the rows."""
    kept: int
    """How far reading is, in bytes of the source as it is kept: compressed, or not."""

    @property
    def count(self) -> int:
        """How many rows these are."""
        return len(self.window)

    def build(self, row: int) -> Item | Defect:
        """A row's item, or why there is none. What the window calls odd has to be asked for."""
        return self.reading.encoder.build(self.places.data(row), self.places.byte(row))

    def column_of(self, defect: Defect) -> str | None:
        """The name of the column that a defect is in."""
        return defect.column_of(self.reading.record.columns)

    def reject_line(self, row: int, defect: Defect) -> RejectLine:
        """What is told of a row that is rejected. Raises `SplitMismatch`."""
        record = self.reading.record
        offset = self.part.skip - self.part.base
        name = None if record.objects is None else self.name
        return reject_line(self.places, row, defect, record.columns, offset, name)


def iter_row_batches(
    reading: RunReader,
    ledger: Ledger,
    context: Context,
    *,
    piece_bytes: int = BLOCK_BYTES,
    must_end: Callable[[], bool] = lambda: False,
) -> Generator[RowBatch, None, None]:
    """Every row of a run's source, until it ends, or `must_end` says so between two pieces.

    Of several objects the `ledger` has the listing. Raises what preflight raises for the rows,
    `RowTooLong`, `UnterminatedQuote` and `HeaderMismatch`; `SplitMismatch`; and what keeps the
    source from being read.
    """
    record = reading.record
    base = record.data_start.byte
    before = 0
    objects = iter_objects(record, ledger, 0)
    with closing(open_each(objects, context, several=record.objects is not None)) as each:
        for pinned, raw in each:
            if base > record.data_start.byte and must_end():
                return
            with prefix_errors_with_object_name(raw, several=record.objects is not None):
                source = record.payload.source
                # Not metered: what is looked at for the header is not how far reading is.
                part = slice_for_object(record, pinned, open_decoded(raw, source, pinned), base)
                metered = CountingSource(raw)
                file = open_decoded(metered, source, pinned)
                end = part.end if file.plain else None
                start = Cursor(part.base, part.line)
                offset = part.skip - part.base
                for block in reading.iter_blocks(file, part, start, end, piece_bytes):
                    if block is not None:
                        base = block.end.byte
                        try:
                            refuse_unterminated(reading.boundaries, block, offset)
                        except UnterminatedQuote:
                            # The rows before it are rows all the same.
                            whole = reading.boundaries.last(block.data, final=True)
                            if whole:
                                good = Block(block.data[:whole], block.start)
                                yield make_row_batch(
                                    reading, raw.name, part, good, before + metered.read
                                )
                            raise
                        yield make_row_batch(reading, raw.name, part, block, before + metered.read)
                    if (end is None or base < end) and must_end():
                        return
            before += raw.size


def make_row_batch(
    reading: RunReader, name: str, part: ObjectSlice, block: Block, kept: int = 0
) -> RowBatch:
    """The rows of a block, which stand in the object of this name. `kept`: see `Walked`."""
    columns = None
    if isinstance(reading.encoder, DelimitedRowEncoder):
        columns, places, window = reading.encoder.read_columns(block)
    else:
        places, window = reading.encoder.read(block)
    return RowBatch(reading, name, part, places, window, columns, len(block.data), kept)
