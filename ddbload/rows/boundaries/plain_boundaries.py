"""Finds row ends of RFC 4180 text with one quote and one delimiter, without parsing fields.

The result is exact for any input, as long as the buffer begins at the start of a row: a quote
counts only where it opens or closes a quoted field, so bare quotes in unquoted fields (`5" disk`)
do not mislead it.

It need not read the whole buffer. A quote that follows text and precedes a delimiter or a line end
ends a field in either state: it closes a quoted field, or is a bare quote at the end of an unquoted
one. So the state after it is known, and to find a row end near an offset it is enough to begin at
the nearest such quote before it. From there one regular expression skips well-formed fields, and
only the rest is walked from quoted field to quoted field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

from ddbload.contracts.dialect import Dialect
from ddbload.rows.boundaries.general_boundaries import GeneralBoundaries
from ddbload.rows.boundaries.row_boundaries import FARTHER, NEAR_BYTES, RowBoundaries, repeated

_LINE_END = re.compile(rb"\r\n?|\n")


@lru_cache(maxsize=16)
def dialect_boundaries(dialect: Dialect) -> RowBoundaries:
    """Return the boundaries that fit a dialect. They have no state, so all objects share them."""
    return PlainBoundaries(dialect) if dialect.is_plain else GeneralBoundaries(dialect)


class PlainBoundaries(RowBoundaries):
    """Row boundaries of plain dialects: one-character marks, no escape and no comments."""

    def __init__(self, dialect: Dialect, near_bytes: int = NEAR_BYTES) -> None:
        self.encoding = dialect.encoding
        self._near_bytes = near_bytes
        self._quote = None if dialect.quote is None else dialect.quote.encode(self.encoding)
        if self._quote is None:
            return
        quote = re.escape(self._quote)
        delimiter = re.escape(dialect.delimiter.encode(self.encoding))
        # Text without the quote, whose first byte may begin other characters, too.
        first, others = re.escape(self._quote[:1]), re.escape(self._quote[1:])
        plain = rb"[^%b]*+" % first
        if others:
            plain += repeated(rb"%b(?!%b)[^%b]*+" % (first, others, first))
        # The rest of a quoted field after its opening quote, the closing one included.
        inside = rb"%b%b%b" % (plain, repeated(rb"%b%b%b" % (quote, quote, plain)), quote)
        opening = rb"%b(?:(?<=%b%b)|(?<=[\r\n]%b))" % (quote, delimiter, quote, quote)
        self._opening = re.compile(opening)
        self._inside = re.compile(inside)
        self._field_end = re.compile(
            rb"%b(?<![\r\n]%b)(?<!%b%b)(?<!%b%b)(?=%b|[\r\n])"
            % (quote, quote, quote, quote, delimiter, quote, delimiter)
        )
        self._context = len(self._quote) + len(dialect.delimiter.encode(self.encoding))
        self._well_formed = re.compile(
            repeated(rb"%b%b%b(?=%b|[\r\n])" % (plain, opening, inside, delimiter))
        )

    def all(self, data: bytes) -> list[int]:
        ends: list[int] = []
        for start, stop in self._unquoted(data, 0):
            # Line ends of bytes are those of `_LINE_END`.
            lines = data[start:stop].splitlines(keepends=True)
            if lines and lines[-1][-1:] not in b"\r\n":
                lines.pop()
            positions = accumulate(map(len, lines), initial=start)
            next(positions)
            ends += positions
        if data and (not ends or ends[-1] != len(data)):
            ends.append(len(data))
        return ends

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        ends = self.all(data)
        if b"\n\n" not in data and b"\r" not in data and not data.startswith(b"\n"):
            # No line is empty.
            return list(pairwise([0, *ends]))
        return [
            (start, end)
            for start, end in zip([0, *ends], ends, strict=False)
            if data[start] not in b"\r\n"
        ]

    def last(self, data: bytes, *, final: bool) -> int:
        if b"\n" not in data and b"\r" not in data:
            return 0
        quote = -1 if self._quote is None else data.rfind(self._quote)
        if quote < 0:
            return self._last_between(data, 0, len(data), final)
        for position in self._outside(data, 0, min(len(data), quote + self._context)):
            skipped = self._skip_well_formed(data, position, len(data))
            found = self._last_from(data, skipped, final)
            if found or (found := self._last_before(data, position, skipped)):
                return found
        return 0

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:
        position = next(self._outside(data, start, max(start, offset - 1)))
        position = self._skip_well_formed(data, position, max(start, offset - 1))
        found: re.Match[bytes] | None = None
        while True:
            # A line end that ends at `offset` begins before it.
            since = max(position, offset - 1)
            if found is None or found.start() < since:
                line_ends = _LINE_END.finditer(data, since)
                found = next((each for each in line_ends if each.end() >= offset), None)
                if found is None:
                    return 0
            quoted = self._next_quoted(data, position, found.start())
            if quoted is None:
                return found.end() if self._is_sure(data, found.end(), final) else 0
            position = quoted[1]

    def closes(self, data: bytes) -> bool:
        if self._quote is None:
            return True
        position = next(self._outside(data, 0, len(data)))
        position = self._skip_well_formed(data, position, len(data))
        while (quoted := self._next_quoted(data, position, len(data))) is not None:
            opened, position = quoted
            if position == len(data):
                return self._inside.match(data, opened + len(self._quote)) is not None
        return True

    def _outside(self, data: bytes, start: int, limit: int) -> Iterator[int]:
        """Yield offsets outside quoted fields, each farther back, up to `limit`.

        The last is `start`, where a row begins.
        """
        back = self._near_bytes
        while self._quote is not None and limit - back > start:
            found = self._field_end.search(data, limit - back, limit)
            if found is not None:
                yield found.end()
            back *= FARTHER
        yield start

    def _skip_well_formed(self, data: bytes, start: int, limit: int) -> int:
        """Skip well-formed fields up to `limit`, and return an offset outside quoted fields.

        It is `start`, or the end of a quoted field.
        """
        if self._quote is None:
            return start
        if start == 0 and data.startswith(self._quote):
            # The opening pattern looks behind, and there is nothing before the buffer.
            first = self._inside.match(data, len(self._quote))
            if first is None or first.end() > limit:
                return start
            start = first.end()
        found = self._well_formed.match(data, start, max(start, limit))
        return start if found is None else found.end()

    def _last_from(self, data: bytes, start: int, final: bool) -> int:
        """Return the last row end after `start`, which is outside quoted fields."""
        last = 0
        for begin, stop in self._unquoted(data, start):
            last = max(last, self._last_between(data, begin, stop, final))
        return last

    @staticmethod
    def _last_between(data: bytes, start: int, stop: int, final: bool) -> int:
        if stop == len(data) and not final and data.endswith(b"\r"):
            stop -= 1
        return max(data.rfind(b"\n", start, stop), data.rfind(b"\r", start, stop)) + 1

    def _last_before(self, data: bytes, start: int, stop: int) -> int:
        # Both offsets are outside quoted fields, and every field between is well-formed. So each
        # quote switches between outside and inside, and a doubled one switches twice.
        outside = True
        while stop > start and self._quote is not None:
            quote = max(start, data.rfind(self._quote, start, stop))
            if outside:
                end = max(data.rfind(b"\n", quote, stop), data.rfind(b"\r", quote, stop)) + 1
                if end:
                    return end
            outside = not outside
            stop = quote
        return 0

    @staticmethod
    def _is_sure(data: bytes, end: int, final: bool) -> bool:
        return final or end < len(data) or data[end - 1 : end] != b"\r"

    def _unquoted(self, data: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches outside quoted fields, from `start`, which is outside, to the end."""
        position = start
        while (quoted := self._next_quoted(data, position, len(data))) is not None:
            opened, closed = quoted
            yield position, opened
            position = closed
        yield position, len(data)

    def _next_quoted(self, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
        """Return the start and end of the next quoted field that opens between `start` and `stop`.

        `start` is outside quoted fields. A field that is never closed extends to the end of the
        data.
        """
        if self._quote is None:
            return None
        if start == 0 and data.startswith(self._quote):
            opened = 0
        else:
            opening = self._opening.search(data, start, stop)
            if opening is None:
                return None
            opened = opening.start()
        closing = self._inside.match(data, opened + len(self._quote))
        return opened, len(data) if closing is None else closing.end()
