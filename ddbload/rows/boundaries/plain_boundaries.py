"""Where rows end, in bytes, without parsing fields.

Everything here works on buffers that begin at a row's start, and is exact for any input:
a quote counts only where it opens or closes a quoted field, so bare quotes inside unquoted
fields (`5" disk`) mislead nobody.

Nor need all be looked at. A quote that follows text, and is followed by a delimiter or a line
end, ends a field whatever stands before: either it closes a quoted one, or it is a bare quote at
the end of an unquoted one. So the state after it is known, and a row's end near an offset is
found from the nearest such quote before it. From there one regular expression skips what is
well-formed, and the walk from quoted field to quoted field is left for what follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddbload.rows.boundaries.general_boundaries import GeneralBoundaries
from ddbload.rows.boundaries.row_boundaries import FARTHER, NEAR_BYTES, RowBoundaries, repeated
from ddbload.rows.dialect import Dialect

_LINE_END = re.compile(rb"\r\n?|\n")


def dialect_boundaries(dialect: Dialect) -> RowBoundaries:
    """What finds the row ends of a dialect."""
    return PlainBoundaries(dialect) if dialect.is_plain else GeneralBoundaries(dialect)


class PlainBoundaries(RowBoundaries):
    """Row ends of plain dialects: a delimiter and a quote of one character each, and no more."""

    def __init__(self, dialect: Dialect, near_bytes: int = NEAR_BYTES) -> None:
        self.encoding = dialect.encoding
        self._near_bytes = near_bytes
        self._quote = None if dialect.quote is None else dialect.quote.encode(self.encoding)
        if self._quote is None:
            return
        quote = re.escape(self._quote)
        delimiter = re.escape(dialect.delimiter.encode(self.encoding))
        # Any characters but the quote, found by its first byte.
        first, others = re.escape(self._quote[:1]), re.escape(self._quote[1:])
        plain = rb"[^%b]*+" % first
        if others:
            plain += repeated(rb"%b(?!%b)[^%b]*+" % (first, others, first))
        # The characters after the opening quote, up to and with the closing one.
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
            ends += [found.end() for found in _LINE_END.finditer(data, start, stop)]
        if data and (not ends or ends[-1] != len(data)):
            ends.append(len(data))
        return ends

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        ends = self.all(data)
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
            # One byte back: a line end that ends just at `offset` begins before it.
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
        """Offsets up to `limit` outside of quoted fields, each farther back; the last is `start`.

        `start` is a row's.
        """
        back = self._near_bytes
        while self._quote is not None and limit - back > start:
            found = self._field_end.search(data, limit - back, limit)
            if found is not None:
                yield found.end()
            back *= FARTHER
        yield start

    def _skip_well_formed(self, data: bytes, start: int, limit: int) -> int:
        """An offset up to `limit` where unquoted text begins: `start`, or after a quoted field."""
        if self._quote is None:
            return start
        if start == 0 and data.startswith(self._quote):
            # The opening pattern looks behind itself, and before a buffer there is nothing.
            first = self._inside.match(data, len(self._quote))
            if first is None or first.end() > limit:
                return start
            start = first.end()
        found = self._well_formed.match(data, start, max(start, limit))
        return start if found is None else found.end()

    def _last_from(self, data: bytes, start: int, final: bool) -> int:
        """The last row end outside quoted fields, from `start` (itself outside) on."""
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
        # Between the two, themselves outside, every quote is one of a quoted field: each turns
        # from outside to inside or back, and the two of a doubled one turn there and back again.
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
        """The stretches outside quoted fields, from `start` (itself outside) on."""
        position = start
        while (quoted := self._next_quoted(data, position, len(data))) is not None:
            opened, closed = quoted
            yield position, opened
            position = closed
        yield position, len(data)

    def _next_quoted(self, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
        """Where a quoted field opens between `start` (outside) and `stop`, and where it ends.

        One that is not closed takes all there is.
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
