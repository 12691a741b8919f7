"""Byte sources: one version of a file or object, read in ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class ByteSource(Protocol):
    """One version of a file or object. A read returns bytes of that version or fails."""

    @property
    def name(self) -> str:
        """Path or s3:// URI of the source."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def pinned(self) -> Mapping[str, Any]:
        """Version as JSON data, from which the same version can be opened again."""

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield the bytes in [`start`, `end`) in pieces of at most `piece_bytes`.

        Yields exactly `end - start` bytes, or raises `SourceChanged`, `SourceNotFound`,
        `SourceUnreadable` or `ServiceUnavailable`.
        """

    def close(self) -> None:
        """Close the file."""


FIRST_BYTES = 256 * 1024
"""Bytes that usually suffice to detect the header and the format.

A smaller object is read as a whole.
"""


class HeadCachingSource:
    """Source whose first bytes are cached in memory.

    The cache holds the first 256 KiB, or `head` if these bytes were read before. Closing it closes
    the inner source.
    """

    def __init__(self, inner: ByteSource, head: bytes | None = None) -> None:
        self.name, self.size, self.pinned = inner.name, inner.size, inner.pinned
        self.read = 0
        """Offset up to which the source was read."""
        self._inner = inner
        self._head = head

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range; see `ByteSource.stream`."""
        head_bytes = min(self.size, FIRST_BYTES) if self._head is None else len(self._head)
        position = start
        if position < min(end, head_bytes):
            if self._head is None:
                self._head = b"".join(self._inner.stream(0, head_bytes, FIRST_BYTES))
            for position in range(start, min(end, head_bytes), piece_bytes):
                yield self._head[position : min(position + piece_bytes, end, head_bytes)]
            position = min(end, head_bytes)
        if position < end:
            for piece in self._inner.stream(position, end, piece_bytes):
                position += len(piece)
                self.read = max(self.read, position)
                yield piece

    def close(self) -> None:
        """Close the source."""
        self._inner.close()
