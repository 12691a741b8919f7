"""From a block of whole rows to their fields.

The standard library's reader does it where a block is well-formed UTF-8 and well quoted.
It stops at the first fault, so a block with one is read again row by row, and each bad row
becomes a `Defect`. `columns` does the same a column at a time, for whom that is enough.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.rows.blocks import Block
from ddbload.rows.dialect import Dialect
from ddbload.rows.places import Places
from ddbload.rows.split import RowEnds

# A row's length is bounded by max_row_bytes; the reader's own limit for a field, 128 KiB by
# default and for the whole process, would only be in the way.
csv.field_size_limit(2**31 - 1)

_UNDECODABLE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a row is none.

    `column` counts from 0 and may lie beyond the header, or is the name of an attribute that is no
    column of the file.
    """

    cause: str
    detail: str
    column: int | str | None = None

    def column_of(self, columns: Sequence[str]) -> str | None:
        """The name of what is wrong, in a file with these columns; none where it is the row."""
        if isinstance(self.column, int):
            return columns[self.column] if self.column < len(columns) else None
        return self.column


Record = list[str] | Defect


def read_fields(text: str, dialect: Dialect) -> list[list[str]]:
    """The fields of well-formed rows, empty lines left out. Raises `csv.Error` for others."""
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
    """Parses blocks of one dialect."""

    def __init__(self, dialect: Dialect, ends: RowEnds) -> None:
        self.dialect = dialect
        self.ends = ends
        if dialect.quote is not None:
            quote = re.escape(dialect.quote)
            self._quoted = re.compile(
                rf"{quote}([^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+){quote}"
            )

    def parse(self, block: Block) -> Rows:
        """The block's rows, in order, empty lines left out."""
        data = block.data
        try:
            records: list[Record] = [*read_fields(data.decode(), self.dialect)]
        except (UnicodeDecodeError, csv.Error):
            spans = Places(block, self.ends, 0).spans
            records = [self.parse_row(data[start:end]) for start, end in spans]
        return Rows(block, self.ends, records)

    def parse_row(self, data: bytes) -> Record:
        """One row by itself, with its line end or without."""
        fields, defect = self._fields(data.decode(errors="surrogateescape"))
        for column, value in enumerate(fields):
            found = _UNDECODABLE.search(value)
            if found:
                byte = ord(found.group()) - 0xDC00
                return Defect("bad_encoding", f"byte 0x{byte:02X} is not UTF-8 here", column)
        return defect or fields

    def _fields(self, text: str) -> tuple[list[str], Defect | None]:
        delimiter, quote = self.dialect.delimiter, self.dialect.quote
        stripped = text.rstrip("\r\n")
        if quote is None:
            return stripped.split(delimiter), None
        fields: list[str] = []
        defect = None
        position = 0
        while True:
            value = ""
            if text.startswith(quote, position):
                found = self._quoted.match(text, position)
                if found is None:
                    column = len(fields)
                    fields.append(text[position + 1 :].replace(quote * 2, quote))
                    return fields, defect or Defect(
                        "unterminated_quote", "the quoted field is not closed", column
                    )
                value = found.group(1).replace(quote * 2, quote)
                position = found.end()
                if position < len(stripped) and not stripped.startswith(delimiter, position):
                    defect = defect or Defect(
                        "bad_quote",
                        "text after the closing quote; inside a quoted field a quote is doubled",
                        len(fields),
                    )
            stop = stripped.find(delimiter, position)
            if stop < 0:
                fields.append(value + stripped[position:])
                return fields, defect
            fields.append(value + stripped[position:stop])
            position = stop + 1


class Rows(Places):
    """The rows of a block: records, and where each stands."""

    def __init__(self, block: Block, ends: RowEnds, records: list[Record]) -> None:
        super().__init__(block, ends, len(records))
        self.records = records
