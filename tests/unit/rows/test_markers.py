"""Tests of null markers in dialects with an escape."""

from __future__ import annotations

import itertools

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.payload import ColumnMapping, NullHandling, Payload
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import Source
from ddbload.items.row_attributes import item_layout
from ddbload.rows.blocks import Block
from ddbload.rows.columns import ColumnReader, RowParser, from_octets
from ddbload.rows.dialect_grammar import dialect_boundaries

BACKSLASHES = Source(delimiter="\t", quote=None, escape="\\", path="x")
QUOTES = Source(escape="\\", path="x")


def laid_out(source: Source, data: str, *markers: str) -> list[list[str]]:
    """Return the rows' texts, read by column; read row by row they must be the same."""
    payload = Payload(source, "table", nulls=NullHandling(markers=markers), mapping=ColumnMapping())
    dialect = Dialect.of(source)
    parser = RowParser(dialect, dialect_boundaries(dialect), markers)
    layout = item_layout(["a", "b"], payload)
    columns = layout.apply(ColumnReader(parser, 2).read(Block(data.encode(), Cursor(0, 1))))
    together = [[*map(from_octets, row)] for row in zip(*columns.cells, strict=True)]
    alone = []
    for line in data.splitlines(keepends=True):
        record = parser.parse_row(line.encode())
        assert isinstance(record, list)
        alone.append([*layout.row(record)])
    assert together == alone
    return together


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_null_marker_differs_from_text_escaped_to_look_like_it(end: str) -> None:
    data = "\\N\t\\\\N\na\\\\b\tN\n\\NN\t\\N" + end
    found = laid_out(BACKSLASHES, data, "\\N")
    assert found == [["", "\\N"], ["a\\b", "N"], ["NN", ""]]


def test_quoted_field_is_not_a_marker() -> None:
    found = laid_out(QUOTES, '\\N,"\\N"\n"\\\\N",NULL\n"NULL",x\n', "\\N", "NULL")
    assert found == [["", "N"], ["\\N", ""], ["", "x"]]


@pytest.mark.parametrize("markers", [["\\N"], ["\\N", "a\\N"], ["\\"], ["\\\\"]], ids=repr)
def test_blocks_are_parsed_like_single_rows(markers: list[str]) -> None:
    dialect = Dialect.of(BACKSLASHES)
    parser = RowParser(dialect, dialect_boundaries(dialect), markers)
    for parts in itertools.product(("N", "a", "\\", "\t", "\n"), repeat=5):
        block = Block("".join([*parts, "\n"]).encode(), Cursor(0, 1))
        assert parser.parse(block).records == parser.parse_rows(block)
