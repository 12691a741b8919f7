"""The types of a run's attributes: declared, the table's, or found out from the first rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ddbload.contracts import Payload, Table
from ddbload.pipeline.header import Header
from ddbload.pipeline.reading import blocks, size_of
from ddbload.pipeline.tables import check_document_types, check_position, column_types
from ddbload.rows.blocks import BlockCutter
from ddbload.rows.columns import ColumnReader, Columns
from ddbload.rows.dialect import Dialect
from ddbload.rows.infer import infer, inferred_types
from ddbload.rows.layout import layout_of
from ddbload.rows.parse import RowParser
from ddbload.rows.split import row_ends
from ddbload.source.decoded import Decoded

SAMPLE_BYTES = 1024 * 1024
"""As much is looked at before types are given that nobody declared."""
_PIECE_BYTES = 64 * 1024


def attribute_types(
    file: Decoded, header: Header, payload: Payload, table: Table
) -> tuple[str, ...]:
    """One type for each attribute of delimited text; none for JSON, which has types of its own.

    Raises `UnknownColumn`, `DuplicateColumn`, `InvalidPayload` and what `column_types` raises.
    """
    if not payload.source.delimited:
        check_document_types(payload.types, table)
        check_position(payload.options.position_attribute, (), table)
        return ()
    layout = layout_of(header.columns, payload)
    check_position(payload.options.position_attribute, layout.attributes, table)
    if not header.columns:
        # A file without any row has nothing to contradict the table.
        return ()
    inferred = None
    if payload.infer_types:
        inferred = inferred_types(infer(layout, _sample(file, header, payload)))
    types = column_types(layout.attributes, payload.types, table, inferred, header.columns)
    layout.check_constants(types)
    return types


def _sample(file: Decoded, header: Header, payload: Payload) -> Iterator[Columns]:
    """The cells of the first rows."""
    dialect = Dialect.of(payload.source)
    ends = row_ends(dialect)
    reader = ColumnReader(RowParser(dialect, ends, payload.nulls.markers), len(header.columns))
    cutter = BlockCutter(ends, header.data_start, payload.options.max_row_bytes)
    found = blocks(file, cutter, size_of(file), _PIECE_BYTES)
    for block in islice(found, SAMPLE_BYTES // _PIECE_BYTES):
        if block is not None:
            yield reader.read(block)
