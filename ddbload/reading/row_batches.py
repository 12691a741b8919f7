"""Read rows of a run in batches, for plans and conversions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddbload.context import Context
from ddbload.contracts.chunks import ObjectSlice
from ddbload.contracts.run_record import Cursor
from ddbload.items.batch_encoder import BatchEncoder, EncodedRows
from ddbload.items.item_requests import Item
from ddbload.items.row_encoder import (
    DelimitedRowEncoder,
    DocumentEncoder,
    RowEncoder,
)
from ddbload.items.row_values import RowValues
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import PinnedObject, iter_objects
from ddbload.reading.open_sources import (
    open_decoded,
    open_each,
    prefix_errors_with_object_name,
)
from ddbload.reading.row_blocks import (
    RunReader,
    notice_incomplete,
    refuse_unterminated,
    slice_for_object,
)
from ddbload.records import Record
from ddbload.rows.blocks import BLOCK_BYTES, Block, Defect, RowPositions
from ddbload.rows.columns import Columns
from ddbload.source.decoding.decoded_source import DecodedSource, HeadCachingSource

RejectLine = bytes
"""Line of JSON, with its line end."""
_PUT, _ITEM = '{"PutRequest":', slice(len('{"PutRequest":'), -1)
_EMPTY = '{"Item":{}}'
_NO_ATTRIBUTES = Defect("no_attributes", "the row is empty; an item has at least one attribute")
_DELETION = Defect("deletion", "the row deletes an item, and only items can be converted")


@dataclass(eq=False)
class RowBatch:
    """Rows that were read together, split and encoded when that is first asked for."""

    reader: RunReader
    name: str
    """Name of the object that holds the rows."""
    object_slice: ObjectSlice
    block: Block
    stored_bytes: int = 0
    """Bytes read of the source as stored, compressed or not, from its beginning."""
    _places: RowPositions | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the source, with line ends and empty lines."""
        return len(self.block.data)

    @cached_property
    def _encoder(self) -> RowEncoder:
        return self.reader.encoder_of(self.object_slice)

    @cached_property
    def _split(self) -> tuple[RowPositions, Columns, BatchEncoder, Columns] | None:
        """Rows as columns of the file, and what encodes the columns of their attributes."""
        encoder = self._encoder
        if not isinstance(encoder, DelimitedRowEncoder):
            return None
        places, columns = encoder.columns(self.block)
        return places, columns, encoder.fields.encoder, encoder.fields.attributes(columns, places)

    @property
    def columns(self) -> Columns | None:
        """Cells of delimited text; None for other formats."""
        return None if self._split is None else self._split[1]

    @cached_property
    def _read(self) -> tuple[RowPositions, EncodedRows]:
        if self._split is None:
            return self._encoder.read(self.block)
        places, _, encoder, attributes = self._split
        return places, encoder.encode(attributes)

    @cached_property
    def values(self) -> list[RowValues]:
        """Values of the rows, of which those that are missing here are built by themselves."""
        if self._split is not None:
            *_, encoder, attributes = self._split
            return [encoder.values(attributes)]
        assert isinstance(self._encoder, DocumentEncoder), "other rows are documents"  # noqa: S101
        self._places, found = self._encoder.values(self.block)
        return found

    def single_rows(self) -> Iterator[tuple[int, Item | Defect]]:
        """Build each row that has no values by itself."""
        if sum(len(each.rows) for each in self.values) < self.count:
            known = {row for each in self.values for row in each.rows}
            for row in range(self.count):
                if row not in known:
                    yield row, self.build(row)

    @property
    def positions(self) -> RowPositions:
        """Positions of the rows in the source."""
        if self._split is not None:
            return self._split[0]
        return self._places or self._read[0]

    @property
    def encoded(self) -> EncodedRows:
        """Requests that an import would send; entries of odd rows mean nothing."""
        return self._read[1]

    @property
    def count(self) -> int:
        """Number of rows, without those that `where` leaves out."""
        return self.positions.count

    @property
    def filtered(self) -> int:
        """Number of rows that `where` leaves out."""
        return self.positions.filtered

    def first(self, rows: int) -> RowBatch:
        """Return the batch without the rows after so many."""
        if rows >= self.count:
            return self
        data = self.block.data[: self.positions.span(rows)[0]]
        block = Block(data, self.block.start)
        return RowBatch(self.reader, self.name, self.object_slice, block, self.stored_bytes)

    def item_lines(self) -> str | None:
        """Return the items as one text in octets, a line each; None if rows have to be looked at.

        That is the fast way for blocks of good rows of delimited text.
        """
        if self._split is None:
            return None
        *_, encoder, attributes = self._split
        return encoder.encode_lines(attributes) if attributes.count else ""

    def item_texts(self, reject: Callable[[int, Defect], object]) -> list[str]:
        """Return the items as `{"Item": ...}`, in octets; call `reject` for each row that is none.

        An item is what an import would put, except that a row that deletes has a defect, too.
        """
        window = self.encoded
        if not window.odd:
            puts: list[Any] = window.puts
            texts = [put[_ITEM] for put in puts if put.startswith(_PUT)]
            if len(texts) == len(window) and _EMPTY not in texts:
                return texts
        texts = []
        for row in range(len(window)):
            text = self._item_text(row)
            if isinstance(text, Defect):
                reject(row, text)
            else:
                texts.append(text)
        return texts

    def _item_text(self, row: int) -> str | Defect:
        put: Any = self.encoded.puts[row]
        if row in self.encoded.odd:
            built = self.build(row)
            if isinstance(built, Defect):
                return built
            put = self._encoder.joiner.request(built)
        if not put.startswith(_PUT):
            return _DELETION
        text: str = put[_ITEM]
        return _NO_ATTRIBUTES if text == _EMPTY else text

    def build(self, row: int) -> Item | Defect:
        """Build a row's item by itself; its defect if there is one. Needed for odd rows."""
        return self._encoder.build(self.positions.data(row), self.positions.byte(row))

    def column_of(self, defect: Defect) -> str | None:
        """Return the name of the column with a defect."""
        return defect.column_of(self.reader.record.columns)

    def reject_line(self, row: int, defect: Defect, *, knows_line: bool = True) -> RejectLine:
        """Return the line of JSON that reports a reject. Raises `SplitMismatch`."""
        return self.reader.reject_line(
            self.positions, row, defect, self.object_slice, self.name, knows_line=knows_line
        )


def first_rows(batches: Iterator[RowBatch], rows: int) -> Iterator[RowBatch]:
    """Return batches up to a number of rows, exactly. No more are read then."""
    for batch in batches:
        yield batch.first(rows)
        rows -= batch.count
        if rows <= 0:
            return


class Part(Record):
    """Rows of a run: a byte range of its only object, or those of some of its objects."""

    start: Cursor
    """Position of the first row among those of all objects."""
    end: int | None = None
    """Offset of a cut after the last row; None for the end of the object or of the objects."""
    objects: tuple[PinnedObject, ...] | None = None
    """The objects; None for the only one, or for all."""
    stored_before: int = 0
    """Bytes of the objects before these, as stored."""


def iter_row_batches(
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    *,
    piece_bytes: int = BLOCK_BYTES,
    must_end: Callable[[], bool] = lambda: False,
    part: Part | None = None,
) -> Generator[RowBatch, None, None]:
    """Read rows of a run's source, all or those of a part, in one pass.

    Reading ends early if `must_end`, which is checked for each piece. `ledger` holds the listing
    of several objects. Raises `RowTooLong`, `UnterminatedQuote`, `HeaderMismatch`, `SplitMismatch`,
    and errors of reading the source. If the end of a part is inside a row, that row is not read.
    """
    record = reader.record
    if part is None:
        part = Part(record.data_start)
    several = record.objects is not None
    at, before = part.start, part.stored_before
    objects: Iterator[PinnedObject] = (
        iter_objects(record, ledger, 0) if part.objects is None else iter(part.objects)
    )
    with closing(open_each(objects, context, several=several)) as each:
        for pinned, raw in each:
            if at.byte > part.start.byte and must_end():
                return
            with prefix_errors_with_object_name(raw, several=several):
                source = record.payload.source
                # Not counted: bytes that are read for the header are read again with the rows.
                object_slice = slice_for_object(
                    record, pinned, open_decoded(raw, source, pinned), at.byte
                )
                counting = HeadCachingSource(raw, b"")
                file = open_decoded(counting, source, pinned)
                end = object_slice.end if file.plain else None
                if several:
                    at = Cursor(object_slice.base, object_slice.line)
                elif part.end is not None:
                    end = part.end
                for block in _whole_rows(reader, file, object_slice, at, end, piece_bytes, part):
                    if block is not None:
                        at = block.end
                        stored = before + counting.read
                        yield RowBatch(reader, file.name, object_slice, block, stored)
                    if (end is None or at.byte < end) and must_end():
                        return
                notice_incomplete(file, context)
            before += raw.size


def _whole_rows(
    reader: RunReader,
    file: DecodedSource,
    object_slice: ObjectSlice,
    start: Cursor,
    end: int | None,
    piece_bytes: int,
    part: Part,
) -> Iterator[Block | None]:
    """Read blocks of whole rows, and refuse a last row of the object that is not closed."""
    offset = object_slice.skip - object_slice.base
    boundaries = reader.boundaries
    for block in reader.iter_blocks(file, object_slice, start, end, piece_bytes):
        if block is None or block.terminated:
            yield block
            continue
        last = boundaries.last(block.data, final=True)
        is_cut = part.end is not None and part.end < object_slice.end
        if not is_cut and boundaries.closes(block.data[last:]):
            yield block
            continue
        if last:
            yield Block(block.data[:last], block.start)
        if not is_cut:
            refuse_unterminated(boundaries, block, offset)
