"""Convert JSON values in an array, or over several lines, to one value per line.

The output has a byte for each byte of the input. A line feed replaces the byte before each value
except the first; spaces replace other separators, and line feeds within values. So every offset is
that of the source, reading can begin at any value, and line numbers count values. Values are not
parsed here: an invalid one is rejected later as a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

from ddbload.contracts.source import ARRAY, OBJECT, VALUES
from ddbload.rows.blocks import repeated
from ddbload.rows.json_containers import (
    MAX_CONTAINER_BYTES,
    PAGES,
    STRING,
    ContainerScanner,
    invalid,
    scan_start,
)

MORE_FOLLOWS = frozenset(("LastEvaluatedKey", "NextToken", "UnprocessedKeys"))
"""Members of a response of DynamoDB that show that there are more items."""

_SPACE, _LINE_FEED, _QUOTE, _BACKSLASH, _COMMA = b' \n"\\,'
_OPEN_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET, _CLOSE_BRACE = b"{[]}"
# JSON allows neither in a string, so the row stays as invalid as with the line feed.
_VERTICAL_TAB = 0x0B
_WHITE_SPACE = re.compile(rb"[ \t\r\n]*+")
_REGULAR_LEVELS = 8
"""Nesting depth of objects whose end one regular expression can find."""
_STRING_STOP = re.compile(rb'["\\\n]')
_SCALAR_STOP = re.compile(rb'[ \t\r\n,\[\]{}"]')
_STOPS = {_OPEN_BRACE: re.compile(rb'["{}]'), _OPEN_BRACKET: re.compile(rb'["\[\]]')}
_EMPTY_ITEMS = re.compile(rb'"Items"[ \t\r\n]*+:[ \t\r\n]*+\[[ \t\r\n]*+(?=\])')
_ARRAY_BEGINS = re.compile(rb"[ \t\r\n]*+\[[ \t\r\n]*+")

_FIRST, _AFTER, _NEXT, _INSIDE, _SCALAR, _TAIL, _AGAIN = range(7)
"""States of the framer.

In order: before the first value, after a value, after a comma, in an object, array or string, in
another value, after all values of an array, and before the first value of a further array.
"""


def rows_begin(data: bytes, layout: str, table: str | None = None) -> int | None:
    """Return the offset of the first value in a file's beginning, or of the end of an empty array.

    None if the beginning contains neither. `table`: see `ContainerScanner`.
    """
    if layout == ARRAY:
        found = _ARRAY_BEGINS.match(data)
        return None if found is None else found.end()
    if layout != OBJECT:
        begin = _skip_white_space(data, 0)
        return begin if begin < len(data) else None
    scanner, first = scan_start(data, table)
    if first is not None or scanner.fault is not None:
        return first
    empty = _EMPTY_ITEMS.search(data)
    return None if empty is None else empty.end()


class JsonFramer:
    """Framer of a stream of bytes that begins at a value."""

    def __init__(
        self,
        layout: str,
        byte: int,
        container: Callable[[], bytes] = bytes,
        table: str | None = None,
    ) -> None:
        """Make a framer.

        Args:
            layout: Arrangement of the values; see `LAYOUTS`.
            byte: Offset of the stream's first byte in the source.
            container: Function that reads the source's beginning, up to the array within its
                object.
            table: Table whose rows are read, of objects that name tables; see `ContainerScanner`.
        """
        self.members: frozenset[str] = frozenset()
        """Non-empty members of the last object around an array, once it has ended."""
        self.others: Counter[str] = Counter()
        """Number of rows of other tables, once the source has ended."""
        self._layout = layout
        self._container = container
        self._byte = byte
        self._start = byte
        self._unit = _unit_pattern(spaced=layout == VALUES)
        self._state = _FIRST
        self._value_byte = byte
        self._opener = self._depth = 0
        self._in_string = self._escaped = False
        # White space between values was read; its last byte is held back.
        self._has_gap = self._holds = False
        # Bytes of text around the values that are not decided yet.
        self._unread = b""
        self._table = table
        self._scanner: ContainerScanner | None = None
        self._tail_bytes = 0

    def frame(self, pieces: Iterator[bytes], *, to_end: bool) -> Iterator[bytes]:
        """Frame pieces. With `to_end` they end with the source, otherwise before a value.

        Raises `InvalidJson`.
        """
        for piece in pieces:
            framed = self.feed(piece)
            if framed:
                yield framed
        rest = self.finish() if to_end else self.stop()
        if rest:
            yield rest

    def feed(self, piece: bytes) -> bytes:
        """Frame a piece. Raises `InvalidJson`."""
        data = piece
        if self._holds:
            data, self._byte, self._holds = b" " + piece, self._byte - 1, False
        data, self._byte = self._unread + data, self._byte - len(self._unread)
        is_undecided, self._unread = bool(self._unread), b""
        # Restored within strings, and inserted between values.
        out = bytearray(data.replace(b"\n", b" "))
        at = 0 if is_undecided else len(data) - len(piece)
        while at < len(data):
            if self._state == _INSIDE:
                at = self._read_inside(data, out, at)
            elif self._state == _SCALAR:
                at = self._read_scalar(data, at)
            elif self._state == _TAIL:
                at = self._read_tail(data, out, at)
            else:
                at = self._read_between(data, out, at)
        self._byte += len(data)
        if self._unread:
            del out[-len(self._unread) :]
        # A value may begin with the next byte.
        elif self._has_gap and self._state in (_AFTER, _NEXT, _AGAIN):
            self._holds = True
            out.pop()
        return bytes(out)

    def stop(self) -> bytes:
        """Return the byte held back, when stopping before a value."""
        held = len(self._unread) or self._holds
        return b" " * (held - 1) + b"\n" if held else b""

    def finish(self) -> bytes:
        """Return the byte held back at the end of the source. Raises `InvalidJson`."""
        if self._state == _INSIDE:
            raise invalid(
                f"the value that begins at byte {self._value_byte} is not closed: the file is cut"
                " off, or a quote or bracket is missing"
            )
        if self._layout == VALUES or self._byte == self._start:
            return b" " if self._holds else b""
        if self._state != _TAIL:
            raise invalid(f"the array is not closed at the end, byte {self._byte}: it is cut off")
        if self._layout == OBJECT:
            scanner = self._scan()
            scanner.check_end()
            self.members, self.others = scanner.members, scanner.others
        return b""

    def _read_between(self, data: bytes, out: bytearray, at: int) -> int:
        """Read regular values, and separators up to another value."""
        if self._state == _AFTER and not self._has_gap:
            at = self._read_regular(data, out, at)
            if at == len(data):
                return at
        begin = at
        at = _skip_white_space(data, at)
        out[begin:at] = b" " * (at - begin)
        self._has_gap = self._has_gap or at > begin
        if at == len(data):
            return at
        mark = data[at]
        is_array = self._layout != VALUES
        if is_array and mark == _COMMA and self._state == _AFTER:
            out[at] = _SPACE
            self._state, self._has_gap = _NEXT, True
            return at + 1
        if is_array and mark == _CLOSE_BRACKET and self._state != _NEXT:
            self._state = _TAIL
            return at
        byte = self._byte + at
        if self._state == _AFTER and (is_array or not self._has_gap):
            expected = "a comma or ]" if is_array else "white space"
            raise invalid(f"byte {byte}: {expected} should follow the value before")
        if mark in b",]}":
            raise invalid(f"byte {byte}: {chr(mark)} where a value should be")
        if self._state != _FIRST:
            out[at - 1] = _LINE_FEED
        return self._begin_value(data, at)

    def _read_regular(self, data: bytes, out: bytearray, at: int) -> int:
        """Read objects that the regular expression matches, with their separators."""
        match = self._unit.match
        while (unit := match(data, at)) is not None:
            begin = unit.start(1)
            if begin - at > 1:
                out[at : begin - 1] = b" " * (begin - 1 - at)
            out[begin - 1] = _LINE_FEED
            at = unit.end()
        return at

    def _begin_value(self, data: bytes, at: int) -> int:
        self._value_byte = self._byte + at
        self._has_gap = False
        mark = data[at]
        self._depth, self._opener, self._in_string = 1, mark, False
        self._state = _INSIDE
        if mark == _QUOTE:
            self._depth, self._in_string = 0, True
        elif mark not in _STOPS:
            self._state = _SCALAR
            return at
        return at + 1

    def _read_inside(self, data: bytes, out: bytearray, at: int) -> int:
        """Continue within an object, array or string, up to its end or that of the data."""
        size = len(data)
        while at < size:
            if self._in_string:
                at = self._read_string(data, out, at)
                if self._in_string:
                    return at
            else:
                found = _STOPS[self._opener].search(data, at)
                if found is None:
                    return size
                at = found.end()
                mark = data[at - 1]
                if mark == _QUOTE:
                    self._in_string = True
                else:
                    self._depth += 1 if mark == self._opener else -1
            if not self._depth:
                self._state = _AFTER
                return at
        return at

    def _read_string(self, data: bytes, out: bytearray, at: int) -> int:
        """Continue within a string, past its closing quote or to the end of the data."""
        size = len(data)
        while at < size:
            if self._escaped:
                self._escaped = False
                if data[at] == _LINE_FEED:
                    out[at] = _VERTICAL_TAB
                at += 1
                continue
            found = _STRING_STOP.search(data, at)
            if found is None:
                break
            at = found.end()
            mark = data[at - 1]
            if mark == _QUOTE:
                self._in_string = False
                return at
            if mark == _BACKSLASH:
                self._escaped = True
            else:
                out[at - 1] = _VERTICAL_TAB
        return size

    def _read_scalar(self, data: bytes, at: int) -> int:
        found = _SCALAR_STOP.search(data, at)
        if found is None:
            return len(data)
        self._state = _AFTER
        return found.start()

    def _scan(self) -> ContainerScanner:
        """Return the scanner of the text around the values, which has read that before them."""
        if self._scanner is None:
            before = self._container()
            self._scanner, begin = scan_start(before, self._table)
            if begin is None:
                # An empty array, as if it had a number.
                self._scanner = scan_start(before[: self._start] + b"0", self._table)[0]
                self._scanner.kind, self._scanner.has_rows = PAGES, True
            # Text between the first array and the one at which reading began is not read.
            self._scanner.is_known = begin in (None, self._start)
        return self._scanner

    def _read_tail(self, data: bytes, out: bytearray, at: int) -> int:
        """Blank out the bytes after the values. The first of them closes the array."""
        size = len(data)
        out[at:] = b" " * (size - at)
        if self._layout == OBJECT:
            scanner = self._scan()
            rows = scanner.feed(data[at:], self._byte + at)
            self._unread = data[size - scanner.unread :]
            self._tail_bytes += size - at - scanner.unread
            if rows is not None:
                self._state, self._has_gap, self._tail_bytes = _AGAIN, True, 0
                out[at + rows :] = data[at + rows :].replace(b"\n", b" ")
                return at + rows
            if self._tail_bytes > MAX_CONTAINER_BYTES:
                raise invalid(
                    f"more than {MAX_CONTAINER_BYTES:,} bytes follow the array of objects before"
                    f" byte {self._byte + size}"
                )
            return size
        if not self._tail_bytes:
            self._tail_bytes = 1
            at += 1
        other = _skip_white_space(data, at)
        if other < size:
            raise invalid(f"byte {self._byte + other}: the array has ended, and more follows")
        return size


def frame_sample(data: bytes, layout: str) -> bytes:
    """Return the rows in a file's beginning as lines; the last may be cut. Raises `InvalidJson`."""
    begin = rows_begin(data, layout)
    return b"" if begin is None else JsonFramer(layout, begin, lambda: data).feed(data[begin:])


def _skip_white_space(data: bytes, at: int) -> int:
    found = _WHITE_SPACE.match(data, at)
    return at if found is None else found.end()


@cache
def _unit_pattern(*, spaced: bool) -> re.Pattern[bytes]:
    """Return the pattern of an object with the separator before it.

    The object's braces are balanced, and its strings contain no control characters: a line feed in
    a string must not become a space, so such objects are read otherwise.
    """
    pattern = STRING
    for _ in range(_REGULAR_LEVELS):
        inside = repeated(rb'(?:%b)[^"{}]*+' % pattern)
        nested = rb'\{[^"{}]*+' + inside + rb"\}"
        pattern = STRING + rb"|" + nested
    space = rb"[ \t\r\n]"
    separator = space + rb"++" if spaced else space + rb"*+," + space + rb"*+"
    return re.compile(separator + rb"(%b)" % nested)
