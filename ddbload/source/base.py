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
