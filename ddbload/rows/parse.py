"""From a block of whole rows to their fields.

The standard library's reader does it where a block is well-formed UTF-8 and well quoted.
It stops at the first fault, so a block with one is read again row by row, and each bad row
becomes a `Defect`. Positions and raw text are worked out for the rows that are asked for.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from ddbload.contracts import Cursor
from ddbload.errors import SplitMismatch
from ddbload.rows.blocks import Block
from ddbload.rows.dialect import Dialect
from ddbload.rows.split import RowEnds, count_line_ends

# A row's length is bounded by max_row_bytes; the reader's own limit for a field, 128 KiB by
# default and for the whole process, would only be in the way.
csv.field_size_limit(2**31 - 1)

_FINAL_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")
_UNDECODABLE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a row is none. `column` counts from 0 and may lie beyond the header."""

    cause: str
    detail: str
    column: int | None = None


Record = list[str] | Defect


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
        rows = Rows(block, self.ends)
        try:
            rows.records = self._read(block.data.decode())
        except (UnicodeDecodeError, csv.Error):
            rows.records = [self._row(block.data[start:end]) for start, end in rows.spans]
        return rows

    def _read(self, text: str) -> list[Record]:
        delimiter, quote = self.dialect.delimiter, self.dialect.quote
        if "\r" not in text and (quote is None or quote not in text):
            # Most of what is written by programs. It takes half of the reader's time.
            return [line.split(delimiter) for line in text.split("\n") if line]
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=delimiter,
            quotechar=quote,
            quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
        rows: list[Record] = list(reader)
        # An empty line is not a row.
        return [row for row in rows if row] if [] in rows else rows

    def _row(self, data: bytes) -> Record:
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


class Rows:
    """The rows of a block: records, and where each stands."""

    def __init__(self, block: Block, ends: RowEnds) -> None:
        self.block = block
        self.records: list[Record] = []
        self._ends = ends
        self._spans: list[tuple[int, int]] | None = None
        self._known = (0, block.start.line)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each row in the block, line end included."""
        if self._spans is None:
            data = self.block.data
            ends = self._ends.all(data)
            starts = [0, *ends[:-1]]
            self._spans = [
                (start, end)
                for start, end in zip(starts, ends, strict=True)
                if data[start] not in b"\r\n"
            ]
        return self._spans

    def span(self, row: int) -> tuple[int, int]:
        """Start and end of a row in the block. Raises `SplitMismatch`."""
        if len(self.spans) != len(self.records):
            raise SplitMismatch(
                f"between byte {self.block.start.byte} and {self.block.end.byte} the splitter"
                f" sees {len(self.spans)} rows and the parser {len(self.records)}: please report it"
            )
        return self.spans[row]

    def position(self, row: int) -> Cursor:
        """Where a row begins in the source."""
        start = self.span(row)[0]
        offset, line = self._known
        if start < offset:
            offset, line = 0, self.block.start.line
        line += count_line_ends(self.block.data, offset, start)
        self._known = (start, line)
        return Cursor(self.block.start.byte + start, line)

    def after(self, row: int) -> Cursor:
        """Where the row after this one begins, or an empty line, or nothing."""
        start, end = self.span(row)
        at = self.position(row)
        return Cursor(
            self.block.start.byte + end, at.line + count_line_ends(self.block.data, start, end)
        )

    def raw(self, row: int) -> str:
        """A row as it stands, without its line end; bytes that are not UTF-8 as surrogates."""
        start, end = self.span(row)
        text = self.block.data[start:end].decode(errors="surrogateescape")
        last = row == len(self.records) - 1 and not self.block.terminated
        return text if last else _FINAL_LINE_END.sub("", text)
