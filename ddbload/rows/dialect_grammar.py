"""Compile a dialect of delimited text into patterns for row ends and fields.

`Grammar` holds the regular expressions of a dialect, over bytes. `DelimitedBoundaries` finds row
ends with them, and `RowSplitter` the fields of one row.

A reader of delimited text is in one of four states: at a field's start, in an unquoted field, in a
quoted one, or after a quote in a quoted one. Whichever state it was in, it is outside quotes after

    a byte of text, an odd number of quotes, and a delimiter or line end

where text is a byte that no mark contains, and neither CR nor LF. The text ends every state but
unquoted and quoted; in an unquoted field the quotes are text, and in a quoted one all but the last
are pairs. So a search for a row end need not begin at the start of a buffer or file. In a comment
neither quotes nor delimiters count, so a line end without any other quote before it must follow.

A short window of a file without such a place proves nothing. But inside a quoted field an even
number of quotes changes nothing: a window that begins in one, and has only even runs of quotes,
ends in it. So if the window is longer than any row can be, it began outside, and each of its line
ends is a row end. A run at either end of the window may continue beyond it, which changes nothing
in between.

Rows longer than allowed can lead to a wrong row end. The import detects this, because the chunk
that should end there does not.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.source import Source
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.rows.blocks import Defect, JsonLineBoundaries, RowBoundaries, repeated

NEAR_BYTES = 1024
"""Bytes before an offset in which a certain row end is searched first."""
FARTHER = 8
"""Factor by which the searched range grows after each search without a result."""

_CONTROL = {b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_LETTERS = {
    "mysql": {**_CONTROL, b"0": b"\0", b"Z": b"\x1a"},
    "postgres": {**_CONTROL, b"f": b"\f", b"v": b"\v"},
}
"""Characters that letters after an escape stand for, by program; other letters are themselves."""

_LINE_END = {False: rb"(?:\r\n|\n|\r(?!\Z))", True: rb"(?:\r\n?+|\n)"}
"""Line end in buffers that end the source, and in others, where an LF may follow a final CR."""


class Grammar:
    """Regular expressions of a dialect's parts, not compiled. None of them backtracks."""

    def __init__(self, dialect: Dialect) -> None:
        encoding = dialect.encoding
        self.delimiter = dialect.delimiter.encode(encoding)
        self.quote, self.escape, self.comment = (
            None if mark is None else mark.encode(encoding)
            for mark in (dialect.quote, dialect.escape, dialect.comment)
        )
        quote, escape, between = self.quote, self.escape, re.escape(self.delimiter)
        escaped = [] if escape is None else [re.escape(escape) + rb"(?:.|\Z)"]
        unquoted = _text(self.delimiter, escape, line_end=True)
        if escaped:
            unquoted += repeated(escaped[0] + unquoted)
        field, quoted_or_not = unquoted, b"()"
        if quote is not None:
            mark, plain = re.escape(quote), _text(quote, escape)
            inner = b"|".join([mark + mark, *escaped])
            quoted = mark + plain + repeated(rb"(?:%b)%b" % (inner, plain)) + mark
            quoted_or_not = rb"(?:(%b)|(?!%b))" % (quoted, mark)
            field = rb"(?:%b|(?!%b))%b" % (quoted, mark, unquoted)
        self.field = rb"%b(%b)" % (quoted_or_not, unquoted)
        """Field. Groups: the quoted part with its quotes, if any, and the text outside quotes."""
        row = field + repeated(between + field)
        if self.comment is not None:
            row = rb"(?>%b[^\r\n]*+|%b)" % (re.escape(self.comment), row)
        self.row = row
        """Row, empty line or comment, without its line end."""
        # A line end after an escape may be text, so match the text before it, too.
        unescaped = b""
        if escape is not None:
            unescaped = rb"(?<=[\x00-\xff]{%d})(?<!%b)" % (len(escape), re.escape(escape))
        self.end_of_bare = {final: unescaped + end for final, end in _LINE_END.items()}
        """Line end that ends a row in text without quotes."""
        self.end_of_quoted = self.end_of_bare
        """Last bytes of a row that prove its end, wherever the row began."""
        if quote is None:
            return
        marks = re.escape(b"".join((self.delimiter, quote, escape or b"", self.comment or b"")))
        odd = rb"%b(?<=[^%b\r\n]%b)%b" % (mark, marks, mark, repeated(mark + mark))
        # Finds quotes fast, because patterns that begin with a literal byte are searched by it.
        self.field_end = rb"%b(?=%b|[\r\n])" % (odd, between)
        """Last bytes of a field that prove that the reader is outside quotes."""
        firsts = re.escape(quote[:1] + (escape or b"")[:1])
        rest = rb"(?:%b[^%b\r\n]*+)?+" % (between, firsts)
        self.end_of_quoted = {final: odd + rest + end for final, end in _LINE_END.items()}
        self.quotes = rb"(?:%b)+" % mark


@lru_cache(maxsize=16)
def dialect_boundaries(dialect: Dialect) -> DelimitedBoundaries:
    """Return the row boundaries of a dialect. They are stateless, and shared by all objects."""
    return DelimitedBoundaries(dialect)


def row_boundaries_for(source: Source) -> RowBoundaries:
    """Return what finds the row ends of a source."""
    if source.kind.has_columns:
        return dialect_boundaries(Dialect.of(source))
    return JsonLineBoundaries()


class DelimitedBoundaries(RowBoundaries):
    """Row boundaries of delimited text."""

    def __init__(self, dialect: Dialect, near_bytes: int = NEAR_BYTES) -> None:
        self.encoding = dialect.encoding
        self._near_bytes = near_bytes
        self._grammar = grammar = Grammar(dialect)
        self._row = {final: grammar.row + end for final, end in _LINE_END.items()}
        # A row that does not match has an unclosed field, which takes the rest.
        self._line = rb"%b(?:%b|\Z)|.+" % (grammar.row, _LINE_END[True])

    def all(self, data: bytes) -> list[int]:
        grammar = self._grammar
        if not _contains(data, grammar.quote) and not _contains(data, grammar.escape):
            # `bytes.splitlines` splits at the line ends of rows.
            return list(accumulate(map(len, data.splitlines(keepends=True))))
        ends = [found.end() for found in _compiled(self._line).finditer(data)]
        # The pattern also matches the empty text after the final line end, which is not a row.
        if len(ends) > 1 and ends[-2] == len(data):
            ends.pop()
        return ends

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        spans = list(pairwise([0, *self.all(data)]))
        comment = self._grammar.comment
        return [
            (start, end)
            for start, end in spans
            if data[start] not in b"\r\n"
            and not (comment is not None and data.startswith(comment, start))
        ]

    def last(self, data: bytes, *, final: bool) -> int:
        if b"\n" not in data and b"\r" not in data:
            return 0
        position = next(self._row_ends_near(data, 0, len(data)))
        return _end(repeated(self._row[final]), data, position, len(data))

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        # A row end that is certain within a part of the buffer is certain in the whole.
        before = max(start, offset - 1)
        position = next(self._row_ends_near(data, start, before))
        position = _end(repeated(self._row[False]), data, position, before)
        row = _compiled(self._row[final])
        while (found := row.match(data, position)) is not None:
            position = found.end()
            if position >= offset:
                return position
        return 0

    def _row_ends_near(self, data: bytes, start: int, limit: int) -> Iterator[int]:
        """Yield certain row ends up to `limit`, the nearest first.

        The last one is `start`, where a row begins.
        """
        grammar = self._grammar
        is_bare = grammar.quote is None or data.find(grammar.quote, start, limit) < 0
        pattern = _compiled((grammar.end_of_bare if is_bare else grammar.end_of_quoted)[False])
        back = self._near_bytes
        while limit - back > start:
            found = pattern.search(data, limit - back, limit)
            if found is not None:
                yield found.end()
            back *= FARTHER
        yield start

    def closes(self, data: bytes) -> bool:
        position = self.last(data, final=True)
        return _end(self._grammar.row, data, position, len(data)) == len(data)

    def edge(self, window: bytes, *, final: bool, longest: bool) -> int:
        grammar = self._grammar
        quote = grammar.quote
        if quote is not None and quote in window:
            found = self._edge_after_quotes(window, final)
            if found is not None:
                return found
            if grammar.escape is not None or not longest or self._has_odd_quotes(window):
                return 0
        elif quote is not None and not longest:
            return 0
        found_end = _compiled(grammar.end_of_bare[final]).search(window)
        return 0 if found_end is None else found_end.end()

    def _edge_after_quotes(self, window: bytes, final: bool) -> int | None:
        """Return the first row end after a place outside quotes; None if there is none."""
        grammar = self._grammar
        if grammar.comment is not None:
            found = _compiled(grammar.end_of_quoted[final]).search(window)
            return None if found is None else found.end()
        found = _compiled(grammar.field_end).search(window)
        if found is None:
            return None
        # Treat the place as the start of a row with an empty field.
        at = found.end()
        return self.first_from(window, at + 1, start=at, final=final)

    def _has_odd_quotes(self, window: bytes) -> bool:
        size = len(self._grammar.quote or b"")
        return any(
            run.start() > 0 and run.end() < len(window) and len(run[0]) // size % 2
            for run in _compiled(self._grammar.quotes).finditer(window)
        )


class EscapedLetters:
    r"""Letters and codes that stand for other characters after an escape, such as `n` in `\n`."""

    def __init__(self, dialect: Dialect) -> None:
        self._encoding, self._mark = dialect.encoding, dialect.escape
        self._escape = escape = (dialect.escape or "").encode(dialect.encoding)
        letters = _LETTERS.get(dialect.program or "", {}) if escape else {}
        self._pairs = [(escape + letter, escape + other) for letter, other in letters.items()]
        # Codes of bytes, some of which make a character together.
        codes = rb"(?:%b(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}))+" % re.escape(escape)
        self._codes = _compiled(codes) if dialect.program == "postgres" and escape else None

    def replaced_in(self, data: bytes) -> bytes:
        """Return whole rows with each of these as its character, which stays escaped."""
        if not self._pairs or self._escape not in data:
            return data
        # Between doubled escapes, what follows an escape is escaped.
        parts = data.split(self._escape * 2)
        for written, meant in self._pairs:
            parts = [part.replace(written, meant) for part in parts]
        if self._codes is not None:
            parts = [self._codes.sub(self._characters, part) for part in parts]
        return (self._escape * 2).join(parts)

    def _characters(self, found: re.Match[bytes]) -> bytes:
        codes = found[0].split(self._escape)[1:]
        octets = bytes(int(c[1:], 16) if c[:1] == b"x" else int(c, 8) & 0xFF for c in codes)
        text = octets.decode(self._encoding, "surrogateescape")
        # An escaped letter might be a null marker.
        marked = "".join(each if each.isalnum() else f"{self._mark}{each}" for each in text)
        return marked.encode(self._encoding, "surrogateescape")


class RowSplitter:
    """Splitter of single rows into fields that reports the first fault of a malformed row.

    Unquoted fields equal to one of the null `markers` become empty.
    """

    def __init__(self, dialect: Dialect, markers: Collection[str] = ()) -> None:
        grammar = Grammar(dialect)
        self._encoding, self._letters = dialect.encoding, EscapedLetters(dialect)
        self._delimiter, self._quote = grammar.delimiter, dialect.quote or ""
        self._quote_bytes = len(grammar.quote or b"")
        self._field = _compiled(grammar.field)
        self._markers = frozenset(markers)
        self._escaped = self._escaped_or_doubled = None
        if dialect.escape is not None:
            escaped, mark = rf"{re.escape(dialect.escape)}(.?)", re.escape(self._quote)
            self._escaped = re.compile(escaped, re.DOTALL)
            # One pattern for both, because an escaped quote is not the first half of a doubled one.
            self._escaped_or_doubled = re.compile(rf"{escaped}|({mark}){mark}", re.DOTALL)

    def split(self, row: bytes) -> tuple[list[str], Defect | None]:
        """Return the fields of a row, given with or without line end, and its first fault.

        Bytes that cannot be decoded become surrogates. Stops after `MAX_COLUMNS` + 1 fields,
        because no file has more columns.
        """
        fields: list[str] = []
        defect: Defect | None = None
        position = 0
        given, row = row, self._letters.replaced_in(row)
        while True:
            found = self._field.match(row, position)
            if found is None:
                column = len(fields)
                fields.append(self._inside(row[position + self._quote_bytes :]))
                return fields, defect or Defect(
                    "unterminated_quote", "the quoted field is not closed", column
                )
            quoted, position = found[1], found.end()
            value, rest = "", self._decoded(found[2])
            if quoted:
                value = self._inside(quoted[self._quote_bytes : -self._quote_bytes])
                if rest:
                    defect = defect or Defect(
                        "bad_quote",
                        "text after the closing quote; inside a quoted field a quote is doubled",
                        len(fields),
                    )
            if quoted or rest not in self._markers:
                if position == len(row) and self._ends_with_escape(self._decoded(given)):
                    defect = defect or Defect(
                        "bad_escape", "the last row ends with an escape", len(fields)
                    )
                value += rest if self._escaped is None else self._escaped.sub(r"\1", rest)
            fields.append(value)
            if not row.startswith(self._delimiter, position) or len(fields) > MAX_COLUMNS:
                return fields, defect
            position += len(self._delimiter)

    def _decoded(self, data: bytes) -> str:
        # Checked before marks are removed: the bytes around a mark could form a character.
        return data.decode(self._encoding, "surrogateescape")

    def _inside(self, data: bytes) -> str:
        """Return the text of a quoted field, given without its outer quotes."""
        field = self._decoded(data)
        if self._escaped_or_doubled is None:
            return field.replace(self._quote * 2, self._quote)
        return self._escaped_or_doubled.sub(lambda found: found[1] or found[2] or "", field)

    def _ends_with_escape(self, unquoted: str) -> bool:
        """Return whether a field ends with an escape before its end or a line end."""
        if self._escaped is None:
            return False
        return any(
            last.end() == len(unquoted) and last[1] in ("", "\r", "\n")
            for last in deque(self._escaped.finditer(unquoted), maxlen=1)
        )


def _contains(data: bytes, mark: bytes | None) -> bool:
    return mark is not None and mark in data


def _text(mark: bytes, other: bytes | None, *, line_end: bool = False) -> bytes:
    """Return a pattern for text up to one of the marks; with `line_end` also up to a line end."""
    marks = [mark] if other is None else [mark, other]
    # The first byte suffices, because in UTF-8 it never occurs within a character.
    firsts = b"".join(sorted({re.escape(each[:1]) for each in marks}))
    plain = rb"[^%b%b]*+" % (firsts, rb"\r\n" if line_end else b"")
    if all(len(each) == 1 for each in marks):
        return plain
    none = b"|".join(re.escape(each) for each in marks)
    return plain + repeated(rb"(?!%b)[%b]%b" % (none, firsts, plain))


@lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compile a pattern at its first use: guessing a dialect uses few patterns of many."""
    return re.compile(pattern, re.DOTALL)


def _end(pattern: bytes, data: bytes, start: int, stop: int) -> int:
    found = _compiled(pattern).match(data, start, stop)
    return start if found is None else found.end()
