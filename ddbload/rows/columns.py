"""A column's cells as they stand in JSON, all at once."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field

from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.row_boundaries import RowBoundaries
from ddbload.rows.octets import JSON_ESCAPED, has_none_of, to_octets
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_parser import ParsedRow, RowParser

FILLER = "0"
"""Stands where there is no cell, or no good one, and troubles nobody: any type takes it."""


@dataclass(slots=True)
class Columns:
    """The rows of a block, column by column."""

    count: int
    """How many rows there are, empty lines left out."""
    cells: list[Sequence[str]]
    """Of each column, in octets."""
    odd: set[int] = field(default_factory=set)
    """Rows that are not like the others; their cells mean nothing."""
    longest: int | None = None
    """Bytes of the cells of the longest row, or more, where that is known."""
    plain: bool = False
    """Whether it is known that all cells stand in JSON as they are."""


class ColumnReader:
    """Reads blocks of one dialect, whose rows have so many columns."""

    def __init__(self, parser: RowParser, count: int) -> None:
        self._parser = parser
        self._count = count
        self._cutter = parser.cutter
        # A line end becomes a cell of its own, and stands where a row of that length ends.
        self._marked = f"{self._cutter.delimiter}\n{self._cutter.delimiter}"
        self._special = bytes(set(JSON_ESCAPED) - {ord("\n"), ord(self._cutter.delimiter)})

    @property
    def ends(self) -> RowBoundaries:
        """How its rows end."""
        return self._parser.ends

    def parse_row(self, data: bytes) -> ParsedRow:
        """One row by itself, as the parser has it."""
        return self._parser.parse_row(data)

    def read(self, block: Block) -> Columns:
        """The block's rows, empty lines left out."""
        try:
            return self._read(block)
        except (UnicodeDecodeError, csv.Error):
            pass
        records = self._parser.parse_rows(block)
        return self._columns(
            [
                [] if isinstance(record, Defect) else [to_octets(cell) for cell in record]
                for record in records
            ],
        )

    def _read(self, block: Block) -> Columns:
        cutter = self._cutter
        said = cutter.octets(block.data)
        if not cutter.is_bare(said):
            return self._columns(cutter.fields(said))
        if "\r" in said:
            said = said.replace("\r\n", "\n")
            if "\r" in said:
                return self._columns(cutter.fields(said))
        said = cutter.replaced(said)
        lines = said.split("\n")
        longest = max(map(len, lines))
        cells = self._flat(said, len(lines) - 1) if said.endswith("\n") else None
        if cells is None:
            return self._columns([line.split(cutter.delimiter) for line in lines if line])
        # Whatever changes a block makes it longer or shorter.
        data = block.data if len(said) == len(block.data) else said.encode("latin-1")
        plain = has_none_of(self._special, data)
        return Columns(len(lines) - 1, cells, longest=longest, plain=plain)

    def _flat(self, said: str, rows: int) -> list[Sequence[str]] | None:
        """The columns of rows that have as many cells as they should, cut in one go."""
        count = self._count
        flat = said.replace("\n", self._marked).split(self._cutter.delimiter)
        if (
            count < 2
            or len(flat) != rows * (count + 1) + 1
            or flat[count :: count + 1].count("\n") != rows
        ):
            return None
        flat.pop()
        return [flat[place :: count + 1] for place in range(count)]

    def _columns(self, fields: list[list[str]]) -> Columns:
        """`fields`: of each row, in octets; of those that are none, any other number of them."""
        count = self._count
        odd: set[int] = set()
        if set(map(len, fields)) != {count}:
            odd = {row for row, each in enumerate(fields) if len(each) != count}
            for row in odd:
                fields[row] = [FILLER] * count
        cells: list[Sequence[str]] = [*zip(*fields, strict=True)] or [()] * count
        return Columns(len(fields), cells, odd)
