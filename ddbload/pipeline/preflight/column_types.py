"""The types of a run's attributes: declared, the table's, or found out from the first rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Table
from ddbload.items.item_layout import item_layout
from ddbload.items.type_inference import infer_types, inferred_types
from ddbload.pipeline.preflight.table_checks import (
    check_column_types,
    check_document_types,
    check_position,
)
from ddbload.pipeline.reading.header import Header
from ddbload.pipeline.reading.open_sources import known_size
from ddbload.pipeline.reading.row_blocks import iter_row_blocks
from ddbload.rows.block_splitter import BlockSplitter
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.columns import Columns
from ddbload.rows.dialect import Dialect
from ddbload.rows.row_parser import ColumnReader, RowParser
from ddbload.source.decoding.decoded_source import DecodedSource

SAMPLE_BYTES = 1024 * 1024
"""As much is looked at before types are given that nobody declared."""
_PIECE_BYTES = 64 * 1024


def settle_types(
    file: DecodedSource, header: Header, payload: Payload, table: Table
) -> tuple[str, ...]:
    """One type for each attribute of delimited text; none for JSON, which has types of its own.

    Raises `UnknownColumn`, `DuplicateColumn`, `InvalidPayload` and what `column_types` raises.
    """
    if not payload.source.delimited:
        check_document_types(payload.types, table)
        check_position(payload.options.position_attribute, (), table)
        return ()
    layout = item_layout(header.columns, payload)
    check_position(payload.options.position_attribute, layout.attributes, table)
    if not header.columns:
        # A file without any row has nothing to contradict the table.
        return ()
    inferred = None
    if payload.infer_types:
        inferred = inferred_types(infer_types(layout, _sample(file, header, payload)))
    types = check_column_types(layout.attributes, payload.types, table, inferred, header.columns)
    layout.check_constants(types)
    return types


def _sample(file: DecodedSource, header: Header, payload: Payload) -> Iterator[Columns]:
    """The cells of the first rows."""
    dialect = Dialect.of(payload.source)
    ends = dialect_boundaries(dialect)
    reader = ColumnReader(RowParser(dialect, ends, payload.nulls.markers), len(header.columns))
    cutter = BlockSplitter(ends, header.data_start, payload.options.max_row_bytes)
    found = iter_row_blocks(file, cutter, known_size(file), _PIECE_BYTES)
    for block in islice(found, SAMPLE_BYTES // _PIECE_BYTES):
        if block is not None:
            yield reader.read(block)
