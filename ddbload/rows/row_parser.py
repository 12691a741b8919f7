"""From a block of whole rows to their fields.

The standard library's reader does it where a block is well-formed UTF-8 and well quoted.
It stops at the first fault, so a block with one is read again row by row, and each bad row
becomes a `Defect`. `columns` does the same a column at a time, for whom that is enough.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection

from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.row_boundaries import RowBoundaries
from ddbload.rows.dialect import UTF_8, Dialect
from ddbload.rows.field_splitter import FieldSplitter
from ddbload.rows.octets import from_octets
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions
from ddbload.rows.row_splitter import RowSplitter

_UNDECODABLE = re.compile("[\udc80-\udcff]")


ParsedRow = list[str] | Defect


class RowParser:
    r"""Parses blocks of one dialect.

    `markers`: an unquoted field that is written like one of these is null, and becomes empty, so
    that the `\N` of a dialect that escapes by backslashes is neither an N nor the text `\\N`. A
    marker without an escape in it may as well stay as it is: nothing else is written like it.
    """

    def __init__(
        self, dialect: Dialect, ends: RowBoundaries, markers: Collection[str] = ()
    ) -> None:
        self.dialect = dialect
        self.ends = ends
        self.cutter = FieldSplitter(dialect, ends, markers)
        self._fields = RowSplitter(dialect, markers)

    def parse(self, block: Block) -> ParsedRows:
        """The block's rows, in order, empty lines and comments left out."""
        cutter = self.cutter
        try:
            said = cutter.octets(block.data)
            fields = cutter.fields(said)
        except (UnicodeDecodeError, csv.Error):
            return ParsedRows(block, self.ends, self.parse_rows(block))
        if not said.isascii():
            fields = [list(map(from_octets, row)) for row in fields]
        return ParsedRows(block, self.ends, [*fields])

    def parse_rows(self, block: Block) -> list[ParsedRow]:
        """The same row by row, for a block with a bad one."""
        data = block.data
        return [self.parse_row(data[start:end]) for start, end in self.ends.spans(data)]

    def parse_row(self, data: bytes) -> ParsedRow:
        """One row by itself, with its line end or without."""
        encoding = self.dialect.encoding
        fields, defect = self._fields.of(data.decode(encoding, "surrogateescape"))
        for column, value in enumerate(fields):
            found = _UNDECODABLE.search(value)
            if found:
                byte = ord(found.group()) - 0xDC00
                name = "UTF-8" if encoding == UTF_8 else encoding
                return Defect("bad_encoding", f"byte 0x{byte:02X} is not {name} here", column)
        return defect or fields


class ParsedRows(RowPositions):
    """The rows of a block: records, and where each stands."""

    def __init__(self, block: Block, ends: RowBoundaries, records: list[ParsedRow]) -> None:
        super().__init__(block, ends, len(records))
        self.records = records
