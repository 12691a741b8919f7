"""From a block of whole rows to its columns, for rows that are all alike.

Cells are *octets* here: UTF-8 with a character for each byte, as in Latin-1. So a text of any
alphabet takes one byte a character, its length is its size, and it is encoded by copying it.
Whatever has to be understood (a row of another length, a bad quote, bytes that are no UTF-8)
is the parser's, row by row.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field

from ddbload.rows.blocks import Block
from ddbload.rows.cells import ESCAPED, FILLER, has_none_of
from ddbload.rows.parse import Defect, Record, RowParser, read_fields
from ddbload.rows.split import RowEnds


def octets(text: str) -> str:
    """A text's UTF-8, a character for each byte."""
    return text if text.isascii() else text.encode().decode("latin-1")


def text(cell: str) -> str:
    """The text of octets."""
    return cell if cell.isascii() else cell.encode("latin-1").decode()


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
    """Bytes of the longest row, or more, where that is known."""
    plain: bool = False
    """Whether it is known that all cells stand in JSON as they are."""


class ColumnReader:
    """Reads blocks of one dialect, whose rows have so many columns."""

    def __init__(self, parser: RowParser, count: int) -> None:
        self._parser = parser
        self._count = count
        dialect = parser.dialect
        delimiter, quote = dialect.delimiter, dialect.quote
        self._is_ascii = delimiter.isascii() and (quote is None or quote.isascii())
        self._marked = f"{delimiter}\n{delimiter}"
        self._special = bytes(set(ESCAPED) - {ord("\n"), ord(delimiter) & 0xFF})

    @property
    def ends(self) -> RowEnds:
        """How its rows end."""
        return self._parser.ends

    def parse_row(self, data: bytes) -> Record:
        """One row by itself, as the parser has it."""
        return self._parser.parse_row(data)

    def read(self, block: Block) -> Columns:
        """The block's rows, empty lines left out."""
        try:
            if self._is_ascii:
                return self._read(block)
        except (UnicodeDecodeError, csv.Error):
            pass
        records = self._parser.parse(block).records
        return self._columns(
            [
                [] if isinstance(record, Defect) else [octets(cell) for cell in record]
                for record in records
            ],
        )

    def _read(self, block: Block) -> Columns:
        data, dialect = block.data, self._parser.dialect
        if not data.isascii():
            data.decode()
        said = data.decode("latin-1")
        quote = dialect.quote
        if quote is not None and quote in said:
            return self._columns(read_fields(said, dialect))
        if "\r" in said:
            said = said.replace("\r\n", "\n")
            if "\r" in said:
                return self._columns(read_fields(said, dialect))
        lines = said.split("\n")
        longest = max(map(len, lines))
        cells = self._flat(said, len(lines) - 1) if said.endswith("\n") else None
        if cells is None:
            delimiter = dialect.delimiter
            return self._columns([line.split(delimiter) for line in lines if line])
        plain = has_none_of(self._special, data)
        return Columns(len(lines) - 1, cells, longest=longest, plain=plain)

    def _flat(self, said: str, rows: int) -> list[Sequence[str]] | None:
        """The columns of rows that have as many cells as they should, cut in one go."""
        count = self._count
        # A line end becomes a cell of its own, and stands where a row of that length ends.
        flat = said.replace("\n", self._marked).split(self._parser.dialect.delimiter)
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
