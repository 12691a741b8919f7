"""What finds row ends, whatever rows are written in; and how lines are counted."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import AnyStr, ClassVar

from ddbload.rows.dialect import UTF_8

_LOSES_ITS_PLACE = sys.version_info < (3, 11, 5)
"""`(?:...)*+` may go on from where its last try failed (CPython gh-100061 and gh-106052)."""

NEAR_BYTES = 1024
"""How far back from an offset a place of which all is known is looked for first."""
FARTHER = 8
"""How much farther then, each time."""


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
    begin, end = ("(?>(?:", ")*)") if _LOSES_ITS_PLACE else ("(?:", ")*+")
    if isinstance(pattern, bytes):
        return begin.encode() + pattern + end.encode()
    return begin + pattern + end
