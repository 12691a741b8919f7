"""What a run's rows are read by: delimited text, or lines of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ddbload.contracts import (
    DYNAMODB_EXPORT,
    DYNAMODB_JSON,
    JSON,
    PARQUET,
    RunRecord,
    Source,
)
from ddbload.rows.blocks import Block
from ddbload.rows.columns import ColumnReader, Columns
from ddbload.rows.defects import Defect
from ddbload.rows.dialect import Dialect
from ddbload.rows.document_items import Rules
from ddbload.rows.documents import DocumentRows
from ddbload.rows.encode import Window
from ddbload.rows.ends import RowEnds
from ddbload.rows.envelopes import bare, export_line, item_line
from ddbload.rows.items import Item
from ddbload.rows.json_lines import JsonLineEnds
from ddbload.rows.layout import changes_of
from ddbload.rows.parse import RowParser
from ddbload.rows.places import Places
from ddbload.rows.shapes import shape_of
from ddbload.rows.split import row_ends

_ENVELOPES = {
    JSON: bare,
    DYNAMODB_JSON: item_line,
    PARQUET: item_line,
    DYNAMODB_EXPORT: export_line,
}


class RowFormat(Protocol):
    """Makes requests of blocks of whole rows."""

    @property
    def ends(self) -> RowEnds:
        """How its rows end."""

    def read(self, block: Block) -> tuple[Places, Window]:
        """The rows of a block: where they stand, and the request of each."""

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, as the window has it; or why it is none.

        `byte`: where the row begins in the source.
        """

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""


class DelimitedText:
    """Rows of fields, all with the same columns."""

    def __init__(self, record: RunRecord) -> None:
        dialect = Dialect.of(record.payload.source)
        self.ends = row_ends(dialect)
        parser = RowParser(dialect, self.ends, record.payload.nulls.markers)
        self._reader = ColumnReader(parser, len(record.columns))
        self._shape = shape_of(record)

    def read(self, block: Block) -> tuple[Places, Window]:
        """The rows of a block."""
        # Of columns nothing is kept: a row's JSON takes less than its cells do.
        _, places, window = self.read_columns(block)
        return places, window

    def read_columns(self, block: Block) -> tuple[Columns, Places, Window]:
        """The same, and the rows' cells."""
        columns = self._reader.read(block)
        places = Places(block, self.ends, columns.count)
        return columns, places, self._shape.examine(columns, places)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, or why it is none."""
        record = self._reader.parse_row(data)
        return record if isinstance(record, Defect) else self._shape.build(record, byte)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""
        return self._shape.body(puts)


def ends_of(source: Source) -> RowEnds:
    """How a source's rows end."""
    return row_ends(Dialect.of(source)) if source.delimited else JsonLineEnds()


def format_of(record: RunRecord) -> RowFormat:
    """What a run's rows are read by."""
    if record.payload.source.delimited:
        return DelimitedText(record)
    return DocumentRows(_rules(record))


def _rules(record: RunRecord) -> Rules:
    payload = record.payload
    file_format, options = payload.source.format, payload.options
    return Rules(
        table=record.table,
        types=payload.types,
        changes=changes_of(payload.mapping),
        nulls=payload.nulls.policy,
        markers=frozenset(payload.nulls.markers),
        mode=options.mode,
        position_attribute=options.position_attribute,
        started=record.created,
        typed=file_format != JSON,
        native=file_format not in (JSON, PARQUET),
        envelope=_ENVELOPES[file_format],
    )
