"""Finds row ends of dialects with escapes, comments, or delimiters of several characters.

One regular expression matches exactly one row from its start, so rows are found one after another.

As in plain dialects, it need not begin at the start of the buffer. A row certainly ends where a
quote follows text and precedes a line end, possibly with one more field without quotes and escapes
in between: that is a row end whether the quote closes a field, is text, or stands in a comment. In
text without quotes, every line end that is not escaped is a row end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddbload.contracts.dialect import Dialect
from ddbload.rows.boundaries.row_boundaries import FARTHER, NEAR_BYTES, RowBoundaries, repeated

_SURE_END = rb"(?:\r\n|\n|\r(?!\Z))"
"""Line end, except for a CR at the end of the buffer, which an LF may follow."""
_FINAL_END = rb"(?:\r\n?+|\n)"


class GeneralBoundaries(RowBoundaries):
    """Row boundaries of any dialect."""

    def __init__(self, dialect: Dialect, near_bytes: int = NEAR_BYTES) -> None:
        self.encoding = dialect.encoding
        self._near_bytes = near_bytes
        self._comment = None if dialect.comment is None else dialect.comment.encode(self.encoding)
        grammar = Grammar(dialect)
        sure, final = grammar.row + _SURE_END, grammar.row + _FINAL_END
        self._sure_row, self._sure_rows = _compiled(sure), _compiled(repeated(sure))
        self._final_row, self._final_rows = _compiled(final), _compiled(repeated(final))
        # A row that does not match has a field that is never closed: it takes the rest.
        self._line = _compiled(rb"%b(?:%b|\Z)|.+" % (grammar.row, _FINAL_END))
        self._closed = _compiled(grammar.row)
        quote, escape = dialect.quote, dialect.escape
        self._quote = None if quote is None else quote.encode(self.encoding)
        self._escape = None if escape is None else escape.encode(self.encoding)
        self._end_of_bare = _compiled(grammar.end_of_bare)
        self._end_of_quoted = _compiled(grammar.end_of_quoted)

    def all(self, data: bytes) -> list[int]:
        ends = [found.end() for found in self._line.finditer(data)]
        # The pattern also matches the empty text after a final line end, which is not a row.
        if len(ends) > 1 and ends[-2] == len(data):
            ends.pop()
        return ends if data else []

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        comment = self._comment
        return [
            (start, end)
            for start, end in (found.span() for found in self._line.finditer(data))
            if start < end
            and data[start] not in b"\r\n"
            and not (comment is not None and data.startswith(comment, start))
        ]

    def last(self, data: bytes, *, final: bool) -> int:
        if b"\n" not in data and b"\r" not in data:
            return 0
        position = next(self._row_ends_near(data, 0, len(data)))
        return _end(self._final_rows if final else self._sure_rows, data, position, len(data))

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        # A row end that is certain in a part of the buffer is certain in the whole.
        before = max(start, offset - 1)
        position = next(self._row_ends_near(data, start, before))
        position = _end(self._sure_rows, data, position, before)
        row = self._final_row if final else self._sure_row
        while (found := row.match(data, position)) is not None:
            position = found.end()
            if position >= offset:
                return position
        return 0

    def _row_ends_near(self, data: bytes, start: int, limit: int) -> Iterator[int]:
        """Yield certain row ends up to `limit`, the nearest first.

        The last is `start`, where a row begins.
        """
        is_bare = self._quote is None or data.find(self._quote, start, limit) < 0
        pattern = self._end_of_bare if is_bare else self._end_of_quoted
        back = self._near_bytes
        while limit - back > start:
            found = pattern.search(data, limit - back, limit)
            if found is not None:
                yield found.end()
            back *= FARTHER
        yield start

    def closes(self, data: bytes) -> bool:
        position = self.last(data, final=True)
        return _end(self._closed, data, position, len(data)) == len(data)


class Grammar:
    """Regular expressions for the parts of a dialect, in bytes. None of them backtracks."""

    def __init__(self, dialect: Dialect) -> None:
        delimiter, quote, escape, comment = (
            None if mark is None else mark.encode(dialect.encoding)
            for mark in (dialect.delimiter, dialect.quote, dialect.escape, dialect.comment)
        )
        assert delimiter is not None  # noqa: S101 - for the type checker
        escaped = [] if escape is None else [re.escape(escape) + rb"(?:.|\Z)"]
        self.delimiter = re.escape(delimiter)
        self.unquoted = _text(delimiter, escape, line_end=True)
        """Unquoted field, or the text after the closing quote of a quoted one."""
        if escaped:
            self.unquoted += repeated(escaped[0] + self.unquoted)
        field, self.quoted_or_not = self.unquoted, b"()"
        """Quoted field with its quotes, as a group, or nothing where none begins."""
        if quote is not None:
            plain = _text(quote, escape)
            mark = re.escape(quote)
            inner = b"|".join([mark + mark, *escaped])
            quoted = rb"%b%b%b%b" % (mark, plain, repeated(rb"(?:%b)%b" % (inner, plain)), mark)
            self.quoted_or_not = rb"(?:(%b)|(?!%b))" % (quoted, mark)
            field = rb"(?:%b|(?!%b))%b" % (quoted, mark, self.unquoted)
        self.row = field + repeated(self.delimiter + field)
        """Row, empty line or comment, without its line end."""
        safe = b"" if escape is None else rb"(?<!%b)" % re.escape(escape[-1:])
        self.end_of_bare = safe + _SURE_END
        """Line end that ends a row in text without quotes."""
        self.end_of_quoted = self.end_of_bare
        """Last bytes of a row that ends there wherever it began."""
        if quote is not None:
            mark = re.escape(quote)
            before = b"".join(
                rb"(?<!%b%b)" % (re.escape(each), mark)
                for each in (quote[-1:], delimiter[-1:], (escape or b"\n")[-1:], b"\r", b"\n")
            )
            firsts = re.escape(quote[:1]) + re.escape((escape or b"")[:1])
            rest = rb"(?:%b[^%b\r\n]*+)?+" % (self.delimiter, firsts)
            self.end_of_quoted = mark + before + rest + _SURE_END
        if comment is not None:
            self.row = rb"(?>%b[^\r\n]*+|%b)" % (re.escape(comment), self.row)


def _text(mark: bytes, other: bytes | None, *, line_end: bool = False) -> bytes:
    """Return a pattern for text up to one of the marks, and without line ends if asked."""
    marks = [mark] if other is None else [mark, other]
    # The first byte of a character tells: in UTF-8 it occurs at no other place in a character.
    firsts = b"".join(sorted({re.escape(each[:1]) for each in marks}))
    plain = rb"[^%b%b]*+" % (firsts, rb"\r\n" if line_end else b"")
    if all(len(each) == 1 for each in marks):
        return plain
    none = b"|".join(re.escape(each) for each in marks)
    return plain + repeated(rb"(?!%b)[%b]%b" % (none, firsts, plain))


def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


def _end(pattern: re.Pattern[bytes], data: bytes, start: int, stop: int) -> int:
    found = pattern.match(data, start, stop)
    return start if found is None else found.end()
