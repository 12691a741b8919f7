"""Finds where rows end: the interface, the boundaries of JSON Lines, and the counting of lines."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from itertools import accumulate, pairwise
from typing import AnyStr, ClassVar

from ddbload.contracts.dialect import UTF_8

_POSSESSIVE_IS_BROKEN = sys.version_info < (3, 11, 5)
"""True for Pythons where `(?:...)*+` may resume at a failed try (CPython gh-100061, gh-106052)."""

WHITE_SPACE = " \t\r\n"
"""White space of RFC 8259. It includes CR, so a CR before a line feed belongs to the line."""
_WHITE_SPACE = WHITE_SPACE.encode()


class RowBoundaries(ABC):
    """Finder of row ends in buffers that begin at the start of a row.

    All offsets are relative to the buffer. Empty lines and comments have ends as rows have, but are
    not rows.
    """

    LONG_ROWS: ClassVar[str] = (
        "most often a quote is not closed: if the file does not quote its fields, say so (--quote"
        " none; in a payload, quote null)"
    )
    """Advice for the most common reason why a row is too long."""

    encoding = UTF_8
    """Encoding of the buffers' text."""

    @abstractmethod
    def all(self, data: bytes) -> list[int]:
        """Return the end of each row of a buffer of whole rows, line end included.

        The last row may lack its line end. Empty lines and comments count as rows here.
        """

    @abstractmethod
    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the start and end of each row of such a buffer.

        Empty lines and comments are not rows.
        """

    @abstractmethod
    def last(self, data: bytes, *, final: bool) -> int:
        """Return the end of the last row that is certainly complete; 0 without one.

        Only if `final`, which says that nothing follows, does a CR at the end of the buffer end a
        row: otherwise an LF may follow. After the returned offset stands an unfinished row or, if
        `final`, one without a line end.
        """

    @abstractmethod
    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        """Return the first certain row end at `offset` or later; 0 without one.

        `start`, where a row begins, saves searching what stands before it.
        """

    @abstractmethod
    def closes(self, data: bytes) -> bool:
        """Return whether every quoted field of a buffer is closed within it."""

    @abstractmethod
    def edge(self, window: bytes, *, final: bool, longest: bool) -> int:
        """Return the offset of a row end in a window of a file; 0 if the window proves none.

        The window begins anywhere after the first row's start. `final`: it ends with the file.
        `longest`: no row may be as long as the window.
        """

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """Count the line ends in a range of a buffer, those inside fields included."""
        return count_line_ends(data, start, end)


def count_line_ends(data: bytes, start: int = 0, end: int | None = None) -> int:
    """Count the line ends in a range of a buffer: CR, LF and CRLF count as one each."""
    stop = len(data) if end is None else end
    count = data.count(b"\n", start, stop)
    if data.find(b"\r", start, stop) >= 0:
        count += data.count(b"\r", start, stop) - data.count(b"\r\n", start, stop)
    return count


def repeated(pattern: AnyStr) -> AnyStr:
    """Return a pattern that repeats another as often as possible, without backtracking."""
    # An atomic group does the same in any Python, but slowly, and keeps every repetition.
    begin, end = ("(?>(?:", ")*)") if _POSSESSIVE_IS_BROKEN else ("(?:", ")*+")
    if isinstance(pattern, bytes):
        return begin.encode() + pattern + end.encode()
    return begin + pattern + end


class JsonLineBoundaries(RowBoundaries):
    """Boundaries of JSON Lines: a line feed ends a row, since JSON has none inside a value.

    Lines of nothing but white space are not rows.
    """

    LONG_ROWS = (
        "each row is one JSON object on a line, or of an array: a quote or a bracket may be missing"
    )

    def all(self, data: bytes) -> list[int]:
        """Return the end of every line."""
        lengths = [len(line) + 1 for line in data.split(b"\n")]
        # After the last line feed stands nothing, or a line without one.
        lengths[-1] -= 1
        ends = list(accumulate(lengths))
        return ends if lengths[-1] else ends[:-1]

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the start and end of each line that is a row."""
        return [
            (start, end)
            for start, end in pairwise([0, *self.all(data)])
            if data[start] not in _WHITE_SPACE or data[start:end].strip(_WHITE_SPACE)
        ]

    def last(self, data: bytes, *, final: bool) -> int:  # noqa: ARG002 - a line feed is one
        """Return the end of the last complete line; 0 without one."""
        return data.rfind(b"\n") + 1

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:  # noqa: ARG002
        """Return the first line end at `offset` or later; 0 without one."""
        return data.find(b"\n", max(start, offset - 1)) + 1

    def closes(self, data: bytes) -> bool:  # noqa: ARG002 - as others
        """Return True: no row of JSON Lines goes on after a line feed."""
        return True

    def edge(self, window: bytes, *, final: bool, longest: bool) -> int:  # noqa: ARG002 - as others
        """Return the offset after the first line feed; 0 without one."""
        return window.find(b"\n") + 1

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """Count the line feeds in a range of a buffer."""
        return data.count(b"\n", start, len(data) if end is None else end)
