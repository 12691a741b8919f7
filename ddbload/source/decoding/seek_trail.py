"""Seek points that are passed while compressed objects are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

from ddbload.contracts.chunks import SeekPoint

POINT_BYTES = 1024 * 1024
"""Decompressed bytes between two points. One takes 32 KiB of memory, and a millisecond or so to
decompress half of what lies between two."""


class SeekTrail:
    """Seek points of the objects that are read one after the other, by their byte in the run.

    Points are kept until `discard_before`.
    """

    def __init__(self, every: int = POINT_BYTES) -> None:
        """`every`: decompressed bytes between two points, at least."""
        self.consumed = 0
        """Bytes of the current object that were decompressed so far, as they are stored."""
        self.every = every
        self._bytes: list[int] = []
        # None where an object begins.
        self._points: list[SeekPoint | None] = []
        self._base = self._shift = self._next = 0
        self._until: int | None = None

    def begin(self, base: int, skip: int, start: SeekPoint | None = None) -> None:
        """Begin an object, whose byte `skip` is byte `base` of the run, with a known point."""
        self.consumed = 0
        self._base, self._shift = base, base - skip
        self._next = self.every
        self._until = None
        self._bytes.append(base)
        self._points.append(None)
        if start is not None:
            self.add(start)
            self._until = start.until

    def wants(self, text: int) -> bool:
        """Tell whether a point is due after this many decompressed bytes of the object."""
        return text >= self._next

    def add(self, point: SeekPoint) -> None:
        """Record a point of the current object, behind all earlier ones."""
        self._next = point.text + self.every
        byte = point.text + self._shift
        # Rows do not begin within a header.
        if byte >= self._base:
            self._bytes.append(byte)
            self._points.append(point if self._until is None else replace(point, until=self._until))

    def first_from(self, byte: int) -> int | None:
        """Return the byte of the first point at or after a byte; None before it was passed."""
        found = bisect_left(self._bytes, byte)
        return self._bytes[found] if found < len(self._bytes) else None

    def last_before(self, byte: int) -> SeekPoint | None:
        """Return the last point at or before a byte; None if its object is read from its start."""
        found = bisect_right(self._bytes, byte)
        return self._points[found - 1] if found else None

    def discard_before(self, byte: int) -> None:
        """Forget the points that `last_before` returns for no later byte."""
        found = bisect_right(self._bytes, byte) - 1
        if found > 0:
            del self._bytes[:found], self._points[:found]
