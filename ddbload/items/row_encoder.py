"""What a run's rows are read by: delimited text, or lines of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ddbload.contracts.payload import DYNAMODB_EXPORT, DYNAMODB_JSON, JSON, PARQUET, Source
from ddbload.contracts.run_record import RunRecord
from ddbload.items.documents.document_builder import DocumentRules
from ddbload.items.documents.document_encoder import DocumentEncoder
from ddbload.items.documents.envelopes import bare, export_line, item_line
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.mode_encoders import mode_encoder
from ddbload.items.item_builder import Item
from ddbload.items.item_layout import column_changes
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.json_line_boundaries import JsonLineBoundaries
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.boundaries.row_boundaries import RowBoundaries
from ddbload.rows.columns import ColumnReader, Columns
from ddbload.rows.dialect import Dialect
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_parser import RowParser
from ddbload.rows.row_positions import RowPositions

_ENVELOPES = {
    JSON: bare,
    DYNAMODB_JSON: item_line,
    PARQUET: item_line,
    DYNAMODB_EXPORT: export_line,
}


class RowEncoder(Protocol):
    """Makes requests of blocks of whole rows."""

    @property
    def ends(self) -> RowBoundaries:
        """How its rows end."""

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """The rows of a block: where they stand, and the request of each."""

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, as the window has it; or why it is none.

        `byte`: where the row begins in the source.
        """

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""


class DelimitedRowEncoder:
    """Rows of fields, all with the same columns."""

    def __init__(self, record: RunRecord) -> None:
        dialect = Dialect.of(record.payload.source)
        self.ends = dialect_boundaries(dialect)
        parser = RowParser(dialect, self.ends, record.payload.nulls.markers)
        self._reader = ColumnReader(parser, len(record.columns))
        self._shape = mode_encoder(record)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """The rows of a block."""
        # Of columns nothing is kept: a row's JSON takes less than its cells do.
        _, places, window = self.read_columns(block)
        return places, window

    def read_columns(self, block: Block) -> tuple[Columns, RowPositions, EncodedRows]:
        """The same, and the rows' cells."""
        columns = self._reader.read(block)
        places = RowPositions(block, self.ends, columns.count)
        return columns, places, self._shape.encode(columns, places)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, or why it is none."""
        record = self._reader.parse_row(data)
        return record if isinstance(record, Defect) else self._shape.build(record, byte)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""
        return self._shape.body(puts)


def row_boundaries_for(source: Source) -> RowBoundaries:
    """How a source's rows end."""
    return dialect_boundaries(Dialect.of(source)) if source.delimited else JsonLineBoundaries()


def row_encoder_for(record: RunRecord) -> RowEncoder:
    """What a run's rows are read by."""
    if record.payload.source.delimited:
        return DelimitedRowEncoder(record)
    return DocumentEncoder(_rules(record))


def _rules(record: RunRecord) -> DocumentRules:
    payload = record.payload
    file_format, options = payload.source.format, payload.options
    return DocumentRules(
        table=record.table,
        types=payload.types,
        changes=column_changes(payload.mapping),
        nulls=payload.nulls.policy,
        markers=frozenset(payload.nulls.markers),
        mode=options.mode,
        position_attribute=options.position_attribute,
        started=record.created,
        typed=file_format != JSON,
        native=file_format not in (JSON, PARQUET),
        envelope=_ENVELOPES[file_format],
    )
