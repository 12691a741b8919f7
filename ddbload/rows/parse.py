"""From a block of whole rows to their fields.

The standard library's reader does it where a block is well-formed UTF-8 and well quoted.
It stops at the first fault, so a block with one is read again row by row, and each bad row
becomes a `Defect`. `columns` does the same a column at a time, for whom that is enough.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection

from ddbload.rows.blocks import Block
from ddbload.rows.defects import Defect
from ddbload.rows.dialect import Dialect
from ddbload.rows.encodings import UTF_8
from ddbload.rows.places import Places
from ddbload.rows.row_fields import Fields
from ddbload.rows.split import RowEnds

# A row's length is bounded by max_row_bytes; the reader's own limit for a field, 128 KiB by
# default and for the whole process, would only be in the way.
csv.field_size_limit(2**31 - 1)

_UNDECODABLE = re.compile("[\udc80-\udcff]")


__all__ = ["Defect", "Record", "RowParser", "Rows", "read_fields"]

Record = list[str] | Defect


def read_fields(text: str, dialect: Dialect) -> list[list[str]]:
    """The fields of well-formed rows, empty lines left out. Raises `csv.Error` for others.

    The delimiter must be one character.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    rows = list(reader)
    # An empty line is not a row.
    return [row for row in rows if row] if [] in rows else rows


class RowParser:
    r"""Parses blocks of one dialect.

    `markers`: an unquoted field that is written like one of these stays as it is written, so
    that the `\N` of a dialect that escapes by backslashes is not taken for an N.
    """

    def __init__(self, dialect: Dialect, ends: RowEnds, markers: Collection[str] = ()) -> None:
        self.dialect = dialect
        self.ends = ends
        self._fields = Fields(dialect, markers)

    def parse(self, block: Block) -> Rows:
        """The block's rows, in order, empty lines and comments left out."""
        data, dialect = block.data, self.dialect
        try:
            if dialect.is_plain:
                records: list[Record] = [*read_fields(data.decode(dialect.encoding), dialect)]
                return Rows(block, self.ends, records)
        except (UnicodeDecodeError, csv.Error):
            pass
        spans = Places(block, self.ends, 0).spans
        records = [self.parse_row(data[start:end]) for start, end in spans]
        return Rows(block, self.ends, records)

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
