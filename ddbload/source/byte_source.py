"""What a source is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class ByteSource(Protocol):
    """One version of a file or object. Every read is of that version, or fails."""

    @property
    def name(self) -> str:
        """As people write it: a path or an s3:// URI."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def pinned(self) -> Mapping[str, Any]:
        """What tells this version from another: JSON that `open_*` takes back."""

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """The bytes from `start` up to, not with, `end`, in pieces of at most `piece_bytes`.

        Yields exactly `end - start` bytes, or raises `SourceChanged`, `SourceNotFound`,
        `SourceUnreadable` or `SourceUnavailable`.
        """

    def close(self) -> None:
        """Let go of what is open."""


class BytesSource:
    """The bytes of one version of an object; see `ByteSource`."""

    def __init__(self, name: str, pinned: Mapping[str, Any], data: bytes) -> None:
        self.name = name
        self.pinned = pinned
        self._data = data

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._data)

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """The bytes of a range."""
        for place in range(start, end, piece_bytes):
            yield self._data[place : min(place + piece_bytes, end)]

    def close(self) -> None:
        """Nothing is open."""


FIRST_BYTES = 256 * 1024
"""As much as a header and a guess need, most often; a small object as a whole."""


class HeadCachingSource:
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


class CountingSource:
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
