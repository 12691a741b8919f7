"""Rows, row ends and lines of buffers according to the oracle, which does not know the product."""

from __future__ import annotations

import re
from functools import lru_cache

from tests.oracle.csv_machine import BOM, Row, read_rows

Mark = str | None
"""Delimiter, quote, escape, comment and encoding, as the oracle has them."""


@lru_cache(maxsize=4096)
def rows_of(data: bytes, *marks: Mark) -> tuple[Row, ...]:
    """Return every row of a buffer that begins at a row's start; a BOM there is text."""
    # The oracle skips one BOM, at byte 0: it gets one that is not the buffer's own.
    shift = len(BOM)
    rows = read_rows(BOM + data, *marks)  # type: ignore[arg-type]
    return tuple(r._replace(byte=r.byte - shift, end_byte=r.end_byte - shift) for r in rows)


def line_at(data: bytes, offset: int) -> int:
    """Return the line, from 1, that begins at `offset`: CR, LF and CRLF end one each."""
    return 1 + len(re.findall(b"\r\n|\r|\n", data[:offset]))


@lru_cache(maxsize=4096)
def row_ends(data: bytes, *marks: Mark) -> tuple[int, ...]:
    """Return all row ends, those of empty lines and comments included.

    The last row may lack its line end.
    """
    ends = []
    position = 0
    for row in rows_of(data, *marks):
        ends += _line_ends(data, position, row.byte)
        ends.append(row.end_byte)
        position = row.end_byte
    return (*ends, *_line_ends(data, position, len(data)))


def _line_ends(data: bytes, start: int, stop: int) -> list[int]:
    # Between two rows stand empty lines and comments, and nothing else.
    line = re.compile(b"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
    return [found.end() for found in line.finditer(data, start, stop)]


def terminated_ends(data: bytes, *marks: Mark) -> tuple[int, ...]:
    """Return the row ends of a whole buffer, without the last row's if that lacks its line end."""
    return _ends_before(data, b"a", *marks)


def certain_ends(prefix: bytes, *marks: Mark) -> tuple[int, ...]:
    """Return the offsets at which a row ends whatever follows `prefix`."""
    after_text = _ends_before(prefix, b"a", *marks)
    after_line_end = set(_ends_before(prefix, b"\n", *marks))
    return tuple(end for end in after_text if end in after_line_end)


def _ends_before(prefix: bytes, following: bytes, *marks: Mark) -> tuple[int, ...]:
    ends = row_ends(prefix + following, *marks)
    return tuple(end for end in ends if end <= len(prefix))
