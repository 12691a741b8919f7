"""A source whose first bytes are read once, however often they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ddbload.source.base import ByteSource

FIRST_BYTES = 256 * 1024
"""As much as a header and a guess need, most often; a small object as a whole."""


class Remembered:
    """The same bytes as those of the source that it holds, which it closes."""

    def __init__(self, inner: ByteSource) -> None:
        self._inner = inner
        self._first: bytes | None = None

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
        most = min(self.size, FIRST_BYTES)
        position = start
        if position < min(end, most):
            if self._first is None:
                self._first = b"".join(self._inner.stream(0, most, FIRST_BYTES))
            for position in range(start, min(end, most), piece_bytes):
                yield self._first[position : min(position + piece_bytes, end, most)]
            position = min(end, most)
        if position < end:
            yield from self._inner.stream(position, end, piece_bytes)

    def close(self) -> None:
        """Let go of the source."""
        self._inner.close()
