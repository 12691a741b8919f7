"""A source's rows from the first to the last, in one pass: for whoever imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ddbload.contracts import Cursor
from ddbload.errors import UnterminatedQuote
from ddbload.pipeline.intake import Reading
from ddbload.pipeline.preflight import refuse_unterminated
from ddbload.rows.blocks import Block, BlockCutter
from ddbload.rows.columns import Columns
from ddbload.rows.encode import Window
from ddbload.rows.items import Item
from ddbload.rows.parse import Defect
from ddbload.rows.places import Places
from ddbload.source.base import ByteSource


@dataclass(frozen=True, slots=True)
class Walked:
    """Rows that were read together."""

    reading: Reading
    places: Places
    window: Window
    """What the import would send of them. Of its odd rows nothing means anything."""
    columns: Columns | None
    """Their cells, where the format has such."""
    bytes: int
    """Of the source, with the line ends and empty lines between the rows."""

    @property
    def count(self) -> int:
        """How many rows these are."""
        return len(self.window)

    def build(self, row: int) -> Item | Defect:
        """A row's item, or why there is none. What the window calls odd has to be asked for."""
        reading, places = self.reading, self.places
        record = reading.reader.parse_row(places.data(row))
        if isinstance(record, Defect):
            return record
        return reading.shape.build(record, places.byte(row))

    def column_of(self, defect: Defect) -> str | None:
        """The name of the column that a defect is in."""
        return defect.column_of(self.reading.record.columns)


def walk(
    reading: Reading,
    source: ByteSource,
    *,
    piece_bytes: int | None = None,
    must_end: Callable[[], bool] = lambda: False,
) -> Iterator[Walked]:
    """Every row of a run's source, until it ends, or `must_end` says so between two pieces.

    Raises what preflight raises for the rows: `RowTooLong`, `UnterminatedQuote`; and
    `SplitMismatch`, and what `ByteSource.stream` raises.
    """
    record = reading.record
    start: Cursor = record.data_start
    cutter = BlockCutter(reading.ends, start, record.payload.options.max_row_bytes)
    most = cutter.piece_bytes if piece_bytes is None else min(piece_bytes, cutter.piece_bytes)
    position = start.byte
    for piece in source.stream(position, record.size, most):
        position += len(piece)
        block = cutter.feed(piece, final=position == record.size)
        if block is not None:
            try:
                refuse_unterminated(reading.ends, block)
            except UnterminatedQuote:
                # The rows before it are rows all the same.
                whole = reading.ends.last(block.data, final=True)
                if whole:
                    yield _walked(reading, Block(block.data[:whole], block.start))
                raise
            yield _walked(reading, block)
        if position < record.size and must_end():
            return


def _walked(reading: Reading, block: Block) -> Walked:
    columns = reading.reader.read(block)
    places = Places(block, reading.ends, columns.count)
    window = reading.shape.examine(columns, places)
    return Walked(reading, places, window, columns, len(block.data))
