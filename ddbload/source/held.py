"""An object that was read as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Held:
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
