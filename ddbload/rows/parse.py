"""From a block of whole rows to their fields.

The standard library's reader does it where a block is well-formed UTF-8 and well quoted.
It stops at the first fault, so a block with one is read again row by row, and each bad row
becomes a `Defect`. `columns` does the same a column at a time, for whom that is enough.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection

from ddbload.rows.blocks import Block
from ddbload.rows.cutter import FieldCutter, text
from ddbload.rows.defects import Defect
from ddbload.rows.dialect import Dialect
from ddbload.rows.encodings import UTF_8
from ddbload.rows.ends import RowEnds
from ddbload.rows.places import Places
from ddbload.rows.row_fields import Fields

_UNDECODABLE = re.compile("[\udc80-\udcff]")


Record = list[str] | Defect


class RowParser:
    r"""Parses blocks of one dialect.

    `markers`: an unquoted field that is written like one of these is null, and becomes empty, so
    that the `\N` of a dialect that escapes by backslashes is neither an N nor the text `\\N`. A
    marker without an escape in it may as well stay as it is: nothing else is written like it.
    """

    def __init__(self, dialect: Dialect, ends: RowEnds, markers: Collection[str] = ()) -> None:
        self.dialect = dialect
        self.ends = ends
        self.cutter = FieldCutter(dialect, ends, markers)
        self._fields = Fields(dialect, markers)

    def parse(self, block: Block) -> Rows:
        """The block's rows, in order, empty lines and comments left out."""
        cutter = self.cutter
        try:
            said = cutter.octets(block.data)
            fields = cutter.fields(said)
        except (UnicodeDecodeError, csv.Error):
            return Rows(block, self.ends, self.parse_rows(block))
        if not said.isascii():
            fields = [list(map(text, row)) for row in fields]
        return Rows(block, self.ends, [*fields])

    def parse_rows(self, block: Block) -> list[Record]:
        """The same row by row, for a block with a bad one."""
        data = block.data
        return [self.parse_row(data[start:end]) for start, end in self.ends.spans(data)]

    def parse_row(self, data: bytes) -> Record:
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


class Rows(Places):
    """The rows of a block: records, and where each stands."""

    def __init__(self, block: Block, ends: RowEnds, records: list[Record]) -> None:
        super().__init__(block, ends, len(records))
        self.records = records
