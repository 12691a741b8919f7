"""Row ends, blocks of whole rows, and positions of rows in the source.

A format finds the ends of its rows with a `RowBoundaries`: that of JSON Lines is here, that of
delimited text in `dialect_grammar`. A `BlockSplitter` cuts a stream at row ends. Positions are
computed on demand, because they are needed for few rows.
"""

from __future__ import annotations

import io
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import AnyStr, ClassVar

from ddbload.contracts.run_record import Cursor
from ddbload.contracts.text_encodings import UTF_8
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.errors import RowTooLong, SplitMismatch
from ddbload.records import Record

_POSSESSIVE_IS_BROKEN = sys.version_info < (3, 11, 5)
"""True if `(?:...)*+` may match wrongly in this Python (CPython gh-100061, gh-106052)."""

WHITE_SPACE = " \t\r\n"
"""White space of RFC 8259. It includes CR, so a CR before a line feed belongs to the line."""
_WHITE_SPACE = WHITE_SPACE.encode()


class RowBoundaries(ABC):
    """Finder of row ends in buffers that begin at the start of a row.

    All offsets are relative to the buffer. Empty lines and comments have ends like rows, but are
    not rows.
    """

    LONG_ROWS: ClassVar[str] = (
        "most often a quote is not closed: if the file does not quote its fields, say so (--quote"
        " none; in a payload, quote null)"
    )
    """Advice on the most common reason for a row that is too long."""

    encoding = UTF_8
    """Encoding of the text in the buffers."""

    @abstractmethod
    def all(self, data: bytes) -> list[int]:
        """Return the end of each row in a buffer of whole rows, including its line end.

        The last row may lack a line end. Empty lines and comments count as rows here.
        """

    @abstractmethod
    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return (start, end) of each row in a buffer of whole rows.

        Empty lines and comments are not rows.
        """

    @abstractmethod
    def last(self, data: bytes, *, final: bool) -> int:
        """Return the end of the last row that is certainly complete; 0 if there is none.

        A CR at the end of the buffer ends a row only if `final` (nothing follows), because
        otherwise an LF may follow. The bytes after the returned offset are an incomplete row or, if
        `final`, one without a line end.
        """

    @abstractmethod
    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        """Return the first certain row end at `offset` or later; 0 if there is none.

        `start`: offset at which a row begins; the search need not look before it.
        """

    @abstractmethod
    def closes(self, data: bytes) -> bool:
        """Return whether every quoted field of a buffer is closed within it."""

    @abstractmethod
    def edge(self, window: bytes, *, final: bool, longest: bool) -> int:
        """Return the offset of a row end in a window of a file; 0 if the window proves none.

        Args:
            window: Bytes from anywhere after the first row's start.
            final: True if the window ends with the file.
            longest: True if no row can be as long as the window.
        """

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """Count the line ends in a range of a buffer, including those inside fields."""
        return count_line_ends(data, start, end)


def count_line_ends(data: bytes, start: int = 0, end: int | None = None) -> int:
    """Count the line ends in a range of a buffer. CR, LF and CRLF count as one each."""
    stop = len(data) if end is None else end
    count = data.count(b"\n", start, stop)
    if data.find(b"\r", start, stop) >= 0:
        count += data.count(b"\r", start, stop) - data.count(b"\r\n", start, stop)
    return count


def repeated(pattern: AnyStr) -> AnyStr:
    """Return a pattern that repeats another as often as possible, without backtracking."""
    # An atomic group works in any Python, but is slow and stores every repetition.
    begin, end = ("(?>(?:", ")*)") if _POSSESSIVE_IS_BROKEN else ("(?:", ")*+")
    if isinstance(pattern, bytes):
        return begin.encode() + pattern + end.encode()
    return begin + pattern + end


class JsonLineBoundaries(RowBoundaries):
    """Boundaries of JSON Lines: a line feed ends a row, because JSON values contain none.

    Lines of white space are not rows.
    """

    LONG_ROWS = (
        "each row is one JSON object on a line, or of an array: a quote or a bracket may be missing"
    )

    def all(self, data: bytes) -> list[int]:
        """Return the end of every line."""
        return list(accumulate(map(len, io.BytesIO(data))))

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return (start, end) of each line that is a row."""
        return [
            (start, end)
            for start, end in pairwise([0, *self.all(data)])
            if data[start] not in _WHITE_SPACE or data[start:end].strip(_WHITE_SPACE)
        ]

    def last(self, data: bytes, *, final: bool) -> int:  # noqa: ARG002 - a line feed is one
        """Return the end of the last complete line; 0 if there is none."""
        return data.rfind(b"\n") + 1

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:  # noqa: ARG002
        """Return the first line end at `offset` or later; 0 if there is none."""
        return data.find(b"\n", max(start, offset - 1)) + 1

    def closes(self, data: bytes) -> bool:  # noqa: ARG002 - as others
        """Return true: no row of JSON Lines continues after a line feed."""
        return True

    def edge(self, window: bytes, *, final: bool, longest: bool) -> int:  # noqa: ARG002 - as others
        """Return the offset after the first line feed; 0 if there is none."""
        return window.find(b"\n") + 1

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """Count the line feeds in a range of a buffer."""
        return data.count(b"\n", start, len(data) if end is None else end)


BLOCK_BYTES = 1024 * 1024
"""Maximum bytes to read at a time."""


ReadValues = tuple[
    tuple[str, ...],
    tuple[str, ...],
    bool,
    Callable[[], list[str]],
    Callable[[int], list[str | None]],
]
"""Values of rows that all have the same attributes: the names; the types, empty for values to be
checked; whether any value is null; a function that returns the item of each row without nulls,
`{"Item":{...}}` in octets; and one that returns the values of the attribute at a place, None for
null. A string or number has the text that JSON has between its quotes, any other value is JSON with
its type. The functions raise `UnicodeDecodeError`."""


class RowBytes(bytes):
    """Whole rows, each with a line end, and their values."""

    values: ReadValues | None = None
    """Values of these and other rows; None once they are encoded."""
    part: slice
    """Slice of the values that these rows have."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a source. Only the source's last row may lack a line end."""

    data: bytes
    start: Cursor
    terminated: bool = True
    """False for the source's last block if its last row has no line end."""
    line_ends: int | None = field(default=None, compare=False, repr=False)
    """Number of line ends in the data; None to count them when the block is made."""
    end: Cursor = field(init=False, compare=False, repr=False)
    """Position after the block, at which the next row begins."""

    def __post_init__(self) -> None:
        """Compute the end once, because every step of an import uses it."""
        lines = count_line_ends(self.data) if self.line_ends is None else self.line_ends
        object.__setattr__(self, "line_ends", lines)
        end = Cursor(self.start.byte + len(self.data), self.start.line + lines)
        object.__setattr__(self, "end", end)


class BlockSplitter:
    """Splitter that receives a stream piece by piece and returns blocks of whole rows.

    Pieces must not exceed `piece_bytes`. This guarantees that no row longer than `max_row_bytes`,
    including its line end, is returned.
    """

    def __init__(
        self, ends: RowBoundaries, start: Cursor, max_row_bytes: int, *, knows_line: bool = True
    ) -> None:
        """`knows_line`: `start` has the source's line number, so errors may name the line."""
        self.piece_bytes = min(BLOCK_BYTES, max_row_bytes)
        self.at = start
        """Position at which the next block begins."""
        self._ends = ends
        self._knows_line = knows_line
        self._max_row_bytes = max_row_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        # While no row ends, search again only when the held bytes have doubled, for linear time.
        self._look_at = 0

    def feed(self, piece: bytes, *, final: bool) -> Block | None:
        """Return the rows that a piece completes; None if it completes none.

        `final`: nothing follows, so all remaining bytes are returned. Raises `RowTooLong`.
        """
        self._pieces.append(piece)
        self._held += len(piece)
        if not final and self._held < self._look_at and self._held <= self._max_row_bytes:
            return None
        data = b"".join(self._pieces)
        self._refuse_long_rows(data)
        complete = self._ends.last(data, final=final)
        taken = len(data) if final else complete
        self._pieces, self._held = [data[taken:]], len(data) - taken
        self._look_at = 0 if taken else 2 * len(data)
        if not taken:
            return None
        # A whole piece may be `RowBytes`.
        rows = piece if taken == len(data) == len(piece) else data[:taken]
        block = Block(rows, self.at, complete == taken, self._ends.count_lines(rows))
        self.at = block.end
        return block

    def _refuse_long_rows(self, data: bytes) -> None:
        if len(data) <= self._max_row_bytes:
            return
        start = 0
        for end in self._ends.all(data):
            if end - start > self._max_row_bytes:
                line = self.at.line + self._ends.count_lines(data, 0, start)
                at_line = f"line {line}, " if self._knows_line else ""
                raise RowTooLong(
                    f"the row at {at_line}byte {self.at.byte + start} is longer than"
                    f" {self._max_row_bytes} bytes (max_row_bytes); {self._ends.LONG_ROWS}"
                )
            start = end


_FINAL_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")


class RowPositions:
    """Positions of a block's rows, by row number; empty lines and comments are not rows.

    Rows filtered out by `where` are counted, but have no number.
    """

    def __init__(self, block: Block, ends: RowBoundaries, count: int) -> None:
        """Take a block in which the parser found `count` rows."""
        self.block = block
        self.count = count
        """Number of rows, except filtered ones."""
        self.ends = ends
        self._parsed = count
        self._kept: Sequence[int] | None = None
        self._spans: list[tuple[int, int]] | None = None
        self._known = (0, block.start.line)

    def keep(self, rows: Sequence[int] | None) -> None:
        """Keep only these rows and number them from 0. None keeps all."""
        if rows is not None:
            self._kept = rows
            self.count = len(rows)

    @property
    def filtered(self) -> int:
        """Number of rows that were filtered out."""
        return self._parsed - self.count

    def filtered_before(self, row: int) -> int:
        """Return the number of filtered rows before a row."""
        return 0 if self._kept is None else self._kept[row] - row

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each row within the block, including its line end."""
        if self._spans is None:
            self._spans = self.ends.spans(self.block.data)
        return self._spans

    def span(self, row: int) -> tuple[int, int]:
        """Return start and end of a row within the block. Raises `SplitMismatch`."""
        if len(self.spans) != self._parsed:
            raise SplitMismatch(
                f"between byte {self.block.start.byte} and {self.block.end.byte} the splitter"
                f" sees {len(self.spans)} rows and the parser {self._parsed}: please report it"
            )
        return self.spans[row if self._kept is None else self._kept[row]]

    def byte(self, row: int) -> int:
        """Return the byte offset of a row in the source. Raises `SplitMismatch`."""
        return self.block.start.byte + self.span(row)[0]

    def position(self, row: int) -> Cursor:
        """Return the byte and line of the source at which a row begins. Raises `SplitMismatch`."""
        start = self.span(row)[0]
        offset, line = self._known
        if start < offset:
            offset, line = 0, self.block.start.line
        line += self.ends.count_lines(self.block.data, offset, start)
        self._known = (start, line)
        return Cursor(self.block.start.byte + start, line)

    def after(self, row: int) -> Cursor:
        """Return the byte and line directly after a row. Raises `SplitMismatch`."""
        start, end = self.span(row)
        at = self.position(row)
        return Cursor(
            self.block.start.byte + end,
            at.line + self.ends.count_lines(self.block.data, start, end),
        )

    def data(self, row: int) -> bytes:
        """Return a row's bytes, including its line end. Raises `SplitMismatch`."""
        start, end = self.span(row)
        return self.block.data[start:end]

    def raw(self, row: int) -> str:
        """Return a row's text without its line end; undecodable bytes become surrogates."""
        text = self.data(row).decode(self.ends.encoding, "surrogateescape")
        # If a quote is never closed, the line end belongs to the field.
        open_end = self.span(row)[1] == len(self.block.data) and not self.block.terminated
        return text if open_end else _FINAL_LINE_END.sub("", text)


class Defect(Record):
    """Reason why a row is rejected.

    `cause` is a code, `detail` a sentence without row data. `column` is the column's index, which
    may lie beyond the header; for an attribute that is not read from a column, it is the
    attribute's name.
    """

    cause: str
    detail: str
    column: int | str | None = None

    def column_of(self, columns: Sequence[str]) -> str | None:
        """Return the name of the bad column, given the file's columns; None for the whole row."""
        if isinstance(self.column, int):
            return columns[self.column] if self.column < len(columns) else None
        return self.column


def field_count(found: int, columns: int) -> Defect:
    """Return the defect of a row whose number of fields differs from the file's columns."""
    # Splitting stops at this number of fields.
    count = f"more than {MAX_COLUMNS}" if found > MAX_COLUMNS else str(found)
    return Defect("field_count", f"{count} fields; the file has {columns} columns")
