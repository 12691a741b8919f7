"""The first row of a file: its columns, and where the rows after it begin."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.contracts import Cursor, Source
from ddbload.errors import BadHeader
from ddbload.rows.blocks import Block, BlockCutter
from ddbload.rows.dialect import BYTE_ORDER_MARK, LONGEST_SIGNATURE, Dialect, refuse_other_kinds
from ddbload.rows.parse import Defect, RowParser, Rows
from ddbload.rows.split import row_ends
from ddbload.source.base import ByteSource

PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """`columns` is empty for a file without any row."""

    columns: tuple[str, ...]
    data_start: Cursor


def read_header(file: ByteSource, source: Source, max_row_bytes: int) -> Header:
    """Read as far as the first row.

    Raises `BadHeader`, `RowTooLong`, `UnsupportedFormat` and what `ByteSource.stream` raises.
    """
    first = b"".join(file.stream(0, min(file.size, LONGEST_SIGNATURE), LONGEST_SIGNATURE))
    refuse_other_kinds(first)
    start = Cursor(len(BYTE_ORDER_MARK) if first.startswith(BYTE_ORDER_MARK) else 0, 1)
    rows = _first_rows(file, source, start, max_row_bytes)
    if rows is None:
        return Header(source.columns or (), Cursor(file.size, 1))
    record = rows.records[0]
    if not source.header and source.columns is not None:
        return Header(source.columns, start)
    if isinstance(record, Defect):
        at = rows.position(0)
        place = f", column {record.column + 1}" if isinstance(record.column, int) else ""
        what = "header" if source.header else "first row, which says how many columns there are,"
        raise BadHeader(
            f"the {what} at line {at.line}, byte {at.byte}{place}: {record.detail} ({record.cause})"
        )
    if not source.header:
        return Header(tuple(f"c{place}" for place in range(1, len(record) + 1)), start)
    if source.columns is not None and len(source.columns) != len(record):
        raise BadHeader(
            f"{len(source.columns)} columns are named, and the header has {len(record)}"
        )
    return Header(source.columns or tuple(record), rows.after(0))


def _first_rows(file: ByteSource, source: Source, start: Cursor, max_row_bytes: int) -> Rows | None:
    dialect = Dialect.of(source)
    ends = row_ends(dialect)
    parser = RowParser(dialect, ends)
    cutter = BlockCutter(ends, start, max_row_bytes)
    position = start.byte
    for piece in file.stream(position, file.size, min(PIECE_BYTES, cutter.piece_bytes)):
        position += len(piece)
        block: Block | None = cutter.feed(piece, final=position == file.size)
        if block is not None:
            rows = parser.parse(block)
            if rows.records:
                return rows
    return None
