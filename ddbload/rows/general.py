"""Where rows end in dialects with escapes, comments, or delimiters of several characters.

One pattern matches one row, from its start, and nothing but it: everything is seen from there.
"""

from __future__ import annotations

import re

from ddbload.rows.dialect import Dialect
from ddbload.rows.ends import RowEnds, repeated

_SURE_END = rb"(?:\r\n|\n|\r(?!\Z))"
"""A line end, but for a CR that an LF may follow."""
_FINAL_END = rb"(?:\r\n?+|\n)"


class GeneralEnds(RowEnds):
    """Row ends of any dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.encoding = dialect.encoding
        self._comment = None if dialect.comment is None else dialect.comment.encode(self.encoding)
        grammar = Grammar(dialect)
        sure, final = grammar.row + _SURE_END, grammar.row + _FINAL_END
        self._sure_row, self._sure_rows = _compiled(sure), _compiled(repeated(sure))
        self._final_row, self._final_rows = _compiled(final), _compiled(repeated(final))
        # What no row matches is one with a field that is not closed: it takes all there is.
        self._line = _compiled(rb"%b(?:%b|\Z)|.+" % (grammar.row, _FINAL_END))
        self._closed = _compiled(grammar.row)

    def all(self, data: bytes) -> list[int]:
        ends = [found.end() for found in self._line.finditer(data)]
        # After a line end at the end of a buffer stands no row, which the pattern finds.
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
        return _end(self._final_rows if final else self._sure_rows, data, 0, len(data))

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        # Rows that surely end in a part end there in the whole.
        position = _end(self._sure_rows, data, start, max(start, offset - 1))
        row = self._final_row if final else self._sure_row
        while (found := row.match(data, position)) is not None:
            position = found.end()
            if position >= offset:
                return position
        return 0

    def closes(self, data: bytes) -> bool:
        position = self.last(data, final=True)
        return _end(self._closed, data, position, len(data)) == len(data)


class Grammar:
    """Patterns of a dialect, in bytes. None of them ever gives back what it took."""

    def __init__(self, dialect: Dialect) -> None:
        delimiter, quote, escape, comment = (
            None if mark is None else mark.encode(dialect.encoding)
            for mark in (dialect.delimiter, dialect.quote, dialect.escape, dialect.comment)
        )
        assert delimiter is not None  # noqa: S101 - for the type checker
        escaped = [] if escape is None else [re.escape(escape) + rb"(?:.|\Z)"]
        self.delimiter = re.escape(delimiter)
        self.unquoted = _text(delimiter, escape, line_end=True)
        """An unquoted field, or what follows the closing quote of another."""
        if escaped:
            self.unquoted += repeated(escaped[0] + self.unquoted)
        field, self.quoted_or_not = self.unquoted, b"()"
        """A quoted field with its quotes, in a group, or nothing where none begins."""
        if quote is not None:
            plain = _text(quote, escape)
            mark = re.escape(quote)
            inner = b"|".join([mark + mark, *escaped])
            quoted = rb"%b%b%b%b" % (mark, plain, repeated(rb"(?:%b)%b" % (inner, plain)), mark)
            self.quoted_or_not = rb"(?:(%b)|(?!%b))" % (quoted, mark)
            field = rb"(?:%b|(?!%b))%b" % (quoted, mark, self.unquoted)
        self.row = field + repeated(self.delimiter + field)
        """A row, an empty line or a comment, without its line end."""
        if comment is not None:
            self.row = rb"(?>%b[^\r\n]*+|%b)" % (re.escape(comment), self.row)


def _text(mark: bytes, other: bytes | None, *, line_end: bool = False) -> bytes:
    """As much text as there is before one of the marks, and without line ends if so wanted."""
    marks = [mark] if other is None else [mark, other]
    # Characters are looked at by their first bytes, at which no other character's begin.
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
