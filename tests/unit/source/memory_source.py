"""A byte source in memory that counts the bytes read."""

from __future__ import annotations

from collections.abc import Iterator


class MemorySource:
    """A `ByteSource` in memory, with pieces of at most `most` bytes."""

    def __init__(self, data: bytes, most: int = 10**9) -> None:
        self.name = "some file"
        self.size = len(data)
        self.pinned = {"size": len(data)}
        self.closed = False
        self.read = 0
        self._data = data
        self._most = most

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        assert 0 <= start <= end <= self.size
        step = min(piece_bytes, self._most)
        for offset in range(start, end, step):
            piece = self._data[offset : min(end, offset + step)]
            self.read += len(piece)
            yield piece

    def close(self) -> None:
        self.closed = True
