"""Proves row ends from a window anywhere in a file, without what comes before it.

The reader of delimited text is at a field's start, in an unquoted field, in a quoted one, or after
a quote in a quoted one. Whichever it was, it is outside quotes after

    a byte of text, an odd number of quotes, and a delimiter or line end

where text is a byte that no mark contains, and neither CR nor LF. The text ends every state but
unquoted and quoted; in an unquoted field the quotes are text, and in a quoted one all but the last
are pairs. From there the next row end follows by the rules of the dialect. In a comment neither
quotes nor delimiters count, so with comments the line has to end after that, with no other quote.

A window without such a place says nothing if it is short. But inside a quoted field an even number
of quotes changes nothing: a window that begins in one, and has only even runs of quotes, ends in
it. So if the window is longer than any row may be, it began outside, and each of its line ends is
a row end. A run at either end of the window may continue beyond, and changes nothing in between.

Rows longer than allowed can lead to a wrong row end. The import notices, because the chunk that
should end there does not.
"""

from __future__ import annotations

import re

from ddbload.contracts.dialect import Dialect
from ddbload.rows.boundaries.row_boundaries import RowBoundaries, repeated


class RowEdges:
    """Finder of row ends in windows of a file that begin anywhere after the first row's start."""

    def __init__(self, boundaries: RowBoundaries, dialect: Dialect | None = None) -> None:
        """Take the boundaries of a dialect; without `dialect`, those of lines of JSON."""
        self._boundaries = boundaries
        self._is_json = dialect is None
        self._quote: bytes | None = None
        self._has_escape = self._has_comments = False
        if dialect is None:
            return
        encoding = dialect.encoding
        delimiter = dialect.delimiter.encode(encoding)
        quote, escape, comment = (
            None if mark is None else mark.encode(encoding)
            for mark in (dialect.quote, dialect.escape, dialect.comment)
        )
        self._has_escape, self._has_comments = escape is not None, comment is not None
        # A line end after an escape may be text. The window must show what stands before it.
        unescaped = b""
        if escape is not None:
            unescaped = rb"(?<=[\x00-\xff]{%d})(?<!%b)" % (len(escape), re.escape(escape))
        self._line_end = _line_end(unescaped)
        if quote is None:
            return
        self._quote = quote
        mark, between = re.escape(quote), re.escape(delimiter)
        marks = re.escape(b"".join((delimiter, quote, escape or b"", comment or b"", b"\r\n")))
        odd = rb"%b(?<=[^%b]%b)%b" % (mark, marks, mark, repeated(mark + mark))
        # Finds quotes fast: patterns that begin with a byte are searched by it.
        self._field_end = re.compile(rb"%b(?=%b|[\r\n])" % (odd, between))
        firsts = re.escape(quote[:1] + (escape or b"")[:1])
        rest = rb"(?:%b[^%b\r\n]*+)?+" % (between, firsts)
        self._row_end = _line_end(odd + rest)
        self._quotes = re.compile(rb"(?:%b)+" % mark)

    def find(self, window: bytes, *, final: bool, longest: bool) -> int:
        """Return the offset of a row end in a window, greater than 0; 0 if it proves none.

        `final`: the window ends with the file. `longest`: no row may be as long as the window.
        """
        if self._is_json:
            return window.find(b"\n") + 1
        quote = self._quote
        if quote is not None and quote in window:
            found = self._after_quotes(window, final)
            if found is not None:
                return found
            if self._has_escape or not longest or self._has_odd_quotes(window):
                return 0
        elif quote is not None and not longest:
            return 0
        return _end(self._line_end[final].search(window))

    def _after_quotes(self, window: bytes, final: bool) -> int | None:
        """Return the first row end after a place outside quotes; None without such a place."""
        if self._has_comments:
            return _end(self._row_end[final].search(window)) or None
        found = self._field_end.search(window)
        if found is None:
            return None
        # As if a row began there, with an empty field.
        at = found.end()
        return self._boundaries.first_from(window, at + 1, start=at, final=final)

    def _has_odd_quotes(self, window: bytes) -> bool:
        quote = self._quote or b""
        return any(
            run.start() > 0 and run.end() < len(window) and len(run[0]) // len(quote) % 2
            for run in self._quotes.finditer(window)
        )


def _line_end(before: bytes) -> dict[bool, re.Pattern[bytes]]:
    """Compile a pattern that ends with a line end, for windows that end the file and others.

    Of a CR at the end of other windows nobody knows whether an LF follows.
    """
    return {
        False: re.compile(before + rb"(?:\r\n|\n|\r(?!\Z))"),
        True: re.compile(before + rb"(?:\r\n?+|\n)"),
    }


def _end(found: re.Match[bytes] | None) -> int:
    return 0 if found is None else found.end()
