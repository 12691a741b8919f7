"""Reads bytes as the pipeline does: split into chunks, chunks into pieces, pieces into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import Block, BlockSplitter, Defect, RowBoundaries
from ddbload.rows.columns import ParsedRow, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from tests.oracle.csv_machine import Row

LONG = 64 * 1024 * 1024


class Read(NamedTuple):
    """A row as the product reads it."""

    line: int
    byte: int
    record: ParsedRow
    raw: str


def chunks_of(data: bytes, ends: RowBoundaries, start: Cursor, chunk_bytes: int) -> list[Chunk]:
    """Split data into byte ranges of at least `chunk_bytes`, at row ends, as preflight does."""
    chunks: list[Chunk] = []
    begin, line = 0, start.line
    while begin < len(data):
        end = ends.first_from(data, begin + chunk_bytes, start=begin, final=True) or len(data)
        chunks.append(Chunk(len(chunks), start.byte + begin, start.byte + end, line))
        line = Block(data[begin:end], Cursor(begin, line)).end.line
        begin = end
    return chunks


def blocks_of(
    data: bytes, ends: RowBoundaries, start: Cursor, piece_bytes: Sequence[int] = (LONG,)
) -> Iterator[Block]:
    """Yield the blocks of a stream that comes in pieces of these sizes, over and over."""
    cutter = BlockSplitter(ends, start, LONG)
    position = number = 0
    while position < len(data):
        piece = data[position : position + piece_bytes[number % len(piece_bytes)]]
        position, number = position + len(piece), number + 1
        block = cutter.feed(piece, final=position == len(data))
        if block is not None:
            yield block


def rows_of_blocks(blocks: Iterator[Block], parser: RowParser) -> Iterator[Read]:
    """Yield every row of some blocks, with its position and its text."""
    for block in blocks:
        rows = parser.parse(block)
        for number, record in enumerate(rows.records):
            at = rows.position(number)
            yield Read(at.line, at.byte, record, rows.raw(number))


def read_all(
    data: bytes,
    dialect: Dialect,
    start: Cursor = Cursor(0, 1),  # noqa: B008 - frozen
    *,
    chunk_bytes: int = LONG,
    piece_bytes: Sequence[int] = (LONG,),
) -> list[Read]:
    """Read every row of `data`, which stands at `start` of a source."""
    ends = dialect_boundaries(dialect)
    parser = RowParser(dialect, ends)
    found: list[Read] = []
    for chunk in chunks_of(data, ends, start, chunk_bytes):
        part = data[chunk.start - start.byte : chunk.end - start.byte]
        blocks = blocks_of(part, ends, Cursor(chunk.start, chunk.first_line), piece_bytes)
        found += rows_of_blocks(blocks, parser)
    return found


def assert_same_rows(
    found: Sequence[Read], expected: Sequence[Row], data: bytes, encoding: str = "utf-8"
) -> None:
    """Assert that rows are the oracle's: once each, in order, whole or with the same defect."""
    assert [(read.line, read.byte) for read in found] == [(row.line, row.byte) for row in expected]
    for read, row in zip(found, expected, strict=True):
        text = data[row.byte : row.end_byte].decode(encoding, "surrogateescape")
        # A line end inside a field that is never closed is the field's, whatever else is wrong.
        without = text.removesuffix("\n").removesuffix("\r")
        told = {None: {without}, "unterminated_quote": {text}}.get(row.defect, {text, without})
        assert read.raw in told
        if row.defect is None:
            assert read.record == row.fields
        else:
            assert isinstance(read.record, Defect)
            assert (read.record.cause, read.record.column) in _defects(row)


def _defects(row: Row) -> set[tuple[str, int | None]]:
    # A row has one defect, and where several would do the product may name another.
    broken = [any("\udc80" <= char <= "\udcff" for char in text) for text in row.fields]
    if True in broken:
        found: set[tuple[str, int | None]] = {("bad_encoding", broken.index(True))}
    else:
        found = set()
    if row.defect in ("unterminated_quote", "bad_escape"):
        found.add((row.defect, len(row.fields) - 1))
    if row.defect == "bad_quote":
        found |= {("bad_quote", column) for column in range(len(row.fields))}
    return found
