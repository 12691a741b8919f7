"""A source's rows from the first to the last, in one pass: for whoever imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from ddbload.contracts import Cursor, Part
from ddbload.errors import UnterminatedQuote
from ddbload.pipeline.context import Context
from ddbload.pipeline.cutting import refuse_unterminated
from ddbload.pipeline.ledger import Ledger
from ddbload.pipeline.objects import listed, naming, open_each, part_of
from ddbload.pipeline.reading import Reading, readable
from ddbload.rows.blocks import BLOCK_BYTES, Block
from ddbload.rows.columns import Columns
from ddbload.rows.defects import Defect
from ddbload.rows.encode import Window
from ddbload.rows.formats import DelimitedText
from ddbload.rows.items import Item
from ddbload.rows.places import Places
from ddbload.rows.rejects import reject_line
from ddbload.source.metered import Metered

Line = bytes
"""A line of JSON, with its end."""


@dataclass(frozen=True, slots=True)
class Walked:
    """Rows that were read together."""

    reading: Reading
    name: str
    """Of the object that they stand in."""
    part: Part
    places: Places
    window: Window
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
        return self.reading.rows.build(self.places.data(row), self.places.byte(row))

    def column_of(self, defect: Defect) -> str | None:
        """The name of the column that a defect is in."""
        return defect.column_of(self.reading.record.columns)

    def reject_line(self, row: int, defect: Defect) -> Line:
        """What is told of a row that is rejected. Raises `SplitMismatch`."""
        record = self.reading.record
        offset = self.part.skip - self.part.base
        name = None if record.objects is None else self.name
        return reject_line(self.places, row, defect, record.columns, offset, name)


def walk(
    reading: Reading,
    ledger: Ledger,
    context: Context,
    *,
    piece_bytes: int = BLOCK_BYTES,
    must_end: Callable[[], bool] = lambda: False,
) -> Generator[Walked, None, None]:
    """Every row of a run's source, until it ends, or `must_end` says so between two pieces.

    Of several objects the `ledger` has the listing. Raises what preflight raises for the rows,
    `RowTooLong`, `UnterminatedQuote` and `HeaderMismatch`; `SplitMismatch`; and what keeps the
    source from being read.
    """
    record = reading.record
    base = record.data_start.byte
    before = 0
    objects = listed(record, ledger, 0)
    with closing(open_each(objects, context, several=record.objects is not None)) as each:
        for pinned, raw in each:
            if base > record.data_start.byte and must_end():
                return
            with naming(raw, several=record.objects is not None):
                source = record.payload.source
                # Not metered: what is looked at for the header is not how far reading is.
                part = part_of(record, pinned, readable(raw, source, pinned), base)
                metered = Metered(raw)
                file = readable(metered, source, pinned)
                end = part.end if file.plain else None
                start = Cursor(part.base, part.line)
                offset = part.skip - part.base
                for block in reading.blocks(file, part, start, end, piece_bytes):
                    if block is not None:
                        base = block.end.byte
                        try:
                            refuse_unterminated(reading.ends, block, offset)
                        except UnterminatedQuote:
                            # The rows before it are rows all the same.
                            whole = reading.ends.last(block.data, final=True)
                            if whole:
                                good = Block(block.data[:whole], block.start)
                                yield walked_of(
                                    reading, raw.name, part, good, before + metered.read
                                )
                            raise
                        yield walked_of(reading, raw.name, part, block, before + metered.read)
                    if (end is None or base < end) and must_end():
                        return
            before += raw.size


def walked_of(reading: Reading, name: str, part: Part, block: Block, kept: int = 0) -> Walked:
    """The rows of a block, which stand in the object of this name. `kept`: see `Walked`."""
    columns = None
    if isinstance(reading.rows, DelimitedText):
        columns, places, window = reading.rows.read_columns(block)
    else:
        places, window = reading.rows.read(block)
    return Walked(reading, name, part, places, window, columns, len(block.data), kept)
