"""A source that says how much of it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ddbload.source.base import ByteSource


class Metered:
    """The same bytes as those of the source that it holds, and does not close."""

    def __init__(self, inner: ByteSource) -> None:
        self._inner = inner
        self.read = 0
        """How far it was read, in bytes."""

    @property
    def name(self) -> str:
        """A path or an s3:// URI."""
        return self._inner.name

    @property
    def size(self) -> int:
        """Bytes."""
        return self._inner.size

    @property
    def pinned(self) -> Mapping[str, Any]:
        """What tells this version from another."""
        return self._inner.pinned

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """The bytes of a range; see `ByteSource.stream`."""
        position = start
        for piece in self._inner.stream(start, end, piece_bytes):
            position += len(piece)
            self.read = max(self.read, position)
            yield piece

    def close(self) -> None:
        """Whoever opened the source closes it."""
