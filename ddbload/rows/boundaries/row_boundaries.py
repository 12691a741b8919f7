"""What finds row ends, whatever rows are written in; and how lines are counted."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from itertools import accumulate, pairwise
from typing import AnyStr, ClassVar

from ddbload.rows.dialect import UTF_8

_POSSESSIVE_IS_BROKEN = sys.version_info < (3, 11, 5)
"""`(?:...)*+` may go on from where its last try failed (CPython gh-100061 and gh-106052)."""

NEAR_BYTES = 1024
"""How far back from an offset a place of which all is known is looked for first."""
FARTHER = 8
"""How much farther then, each time."""

WHITE_SPACE = " \t\r\n"
"""JSON's own. A CR before a line feed is some, and so ends no line by itself."""
_WHITE_SPACE = WHITE_SPACE.encode()


class RowBoundaries(ABC):
    """Finds row ends in buffers that begin at a row's start. Offsets are relative to the buffer.

    An empty line, or a comment, is no row; but it ends where it ends, as rows do.
    """

    LONG_ROWS: ClassVar[str] = (
        "most often a quote is not closed: if the file does not quote its fields, say so (--quote"
        " none; in a payload, quote null)"
    )
    """What makes rows too long, most often, and what to do."""

    encoding = UTF_8
    """What the buffers' text is written in."""

    @abstractmethod
    def all(self, data: bytes) -> list[int]:
        """The end of every row, line end included, of a buffer that holds whole rows.

        The last row may lack its line end. Empty lines and comments count as rows here.
        """

    @abstractmethod
    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Start and end of every row of such a buffer, without empty lines and comments."""

    @abstractmethod
    def last(self, data: bytes, *, final: bool) -> int:
        """The end of the last row that is surely complete; 0 when there is none.

        `final` says that nothing follows `data`: only then does a CR at its end end a row
        (an LF might follow). What stands after the returned offset is an unfinished row,
        or, when `final`, one without a line end.
        """

    @abstractmethod
    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        """The end of the first row that ends at `offset` or later; 0 when none surely does.

        `start`, where a row begins, saves looking at what stands before it.
        """

    @abstractmethod
    def closes(self, data: bytes) -> bool:
        """Whether every quoted field of a buffer is closed within it."""

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """How many lines end in a range of `data`, those inside of fields included."""
        return count_line_ends(data, start, end)


def count_line_ends(data: bytes, start: int = 0, end: int | None = None) -> int:
    """How many lines end in a range of `data`: CR, LF and CRLF count one each."""
    stop = len(data) if end is None else end
    count = data.count(b"\n", start, stop)
    if data.find(b"\r", start, stop) >= 0:
        count += data.count(b"\r", start, stop) - data.count(b"\r\n", start, stop)
    return count


def repeated(pattern: AnyStr) -> AnyStr:
    """A pattern as often as it matches, giving nothing back."""
    # An atomic group does the same everywhere, but slowly, and remembers every repetition.
    begin, end = ("(?>(?:", ")*)") if _POSSESSIVE_IS_BROKEN else ("(?:", ")*+")
    if isinstance(pattern, bytes):
        return begin.encode() + pattern + end.encode()
    return begin + pattern + end


class JsonLineBoundaries(RowBoundaries):
    """Finds the ends of lines, of which those with nothing but white space are no rows."""

    LONG_ROWS = (
        "each row is one line: if the file is an array of JSON, make lines of it (jq -c '.[]')"
    )

    def all(self, data: bytes) -> list[int]:
        """The end of every line."""
        lengths = [len(line) + 1 for line in data.split(b"\n")]
        # After the last line feed nothing begins, or a line without one.
        lengths[-1] -= 1
        ends = list(accumulate(lengths))
        return ends if lengths[-1] else ends[:-1]

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Start and end of every line that is a row."""
        return [
            (start, end)
            for start, end in pairwise([0, *self.all(data)])
            if data[start] not in _WHITE_SPACE or data[start:end].strip(_WHITE_SPACE)
        ]

    def last(self, data: bytes, *, final: bool) -> int:  # noqa: ARG002 - a line feed is one
        """The end of the last line that is complete; 0 when there is none."""
        return data.rfind(b"\n") + 1

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:  # noqa: ARG002
        """The end of the first line that ends at `offset` or later; 0 when none does."""
        return data.find(b"\n", max(start, offset - 1)) + 1

    def closes(self, data: bytes) -> bool:  # noqa: ARG002 - as others
        """Nothing goes on over a line's end."""
        return True

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """How many lines end in a range of `data`."""
        return data.count(b"\n", start, len(data) if end is None else end)
