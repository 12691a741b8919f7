"""What is in a file: decompressed, and as UTF-8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ddbload.errors import SourceChanged
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.compression import decompress
from ddbload.source.decoding.transcode import is_utf8, transcode

READ_BYTES = 64 * 1024
"""What is read of the file at once."""


class DecodedSource:
    """A source's bytes as rows are read from them. Offsets count these, not the file's.

    `encoding`: what to make UTF-8 of, and whose byte order mark is then left out; None, and
    UTF-8 itself, leave the bytes as they are. `max_expansion`: bytes that may come out of
    compressed data for each byte of them; None: any number.
    """

    def __init__(
        self,
        inner: ByteSource,
        *,
        compression: str = "none",
        encoding: str | None = None,
        max_expansion: int | None = 200,
    ) -> None:
        self.inner = inner
        self._compression = compression
        self._encoding = None if encoding is None or is_utf8(encoding) else encoding
        self._max_expansion = max_expansion

    @property
    def name(self) -> str:
        """As people write it: a path or an s3:// URI."""
        return self.inner.name

    @property
    def pinned(self) -> Mapping[str, Any]:
        """What tells the file's version from another."""
        return self.inner.pinned

    @property
    def plain(self) -> bool:
        """Whether the bytes are the file's own, so that any range can be read by itself."""
        return self._compression == "none" and self._encoding is None

    @property
    def rows_before(self) -> int:
        """Rows of the file before its first byte that is read: where only some are."""
        return 0

    def stream(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """The bytes from `start` up to, not with, `end`, in pieces of at most `piece_bytes`.

        `end` None: to the end, which is checked to be one. What comes before `start` is
        decoded, too, and left out. Never holds more than a piece and a small window.

        Raises what `ByteSource.stream` raises, `DamagedCompression`, `ExpansionTooLarge`,
        `UnsupportedFormat`, and `ExtraMissing`.
        """
        inner = self.inner
        if self.plain:
            position = min(start, inner.size)
            stop = inner.size if end is None else min(end, inner.size)
            pieces = inner.stream(position, stop, piece_bytes)
        else:
            position = 0
            pieces = self._decode(inner.stream(0, inner.size, READ_BYTES))
        yield from part_of(pieces, position, start, end, piece_bytes, self.name)

    def close(self) -> None:
        """Let go of the file."""
        self.inner.close()

    def _decode(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        if self._compression != "none":
            pieces = decompress(pieces, self._compression, self.name, self._max_expansion)
        if self._encoding is not None:
            pieces = transcode(pieces, self._encoding, self.name)
        return pieces


def part_of(
    pieces: Iterator[bytes],
    position: int,
    start: int,
    end: int | None,
    piece_bytes: int,
    name: str,
) -> Iterator[bytes]:
    """What of these pieces, the first of which stands at `position`, lies in a range.

    Raises `SourceChanged` where they end before it does: preflight has been there.
    """
    if end is not None and end <= start:
        return
    for piece in pieces:
        begin = max(0, start - position)
        stop = len(piece) if end is None else min(len(piece), end - position)
        for place in range(begin, stop, piece_bytes):
            yield piece[place : min(stop, place + piece_bytes)]
        position += len(piece)
        if end is not None and position >= end:
            return
    if position < (start if end is None else end):
        raise SourceChanged(
            f"{name} ends at byte {position} of what is read of it, and did not when this run"
            " began with it; start a new run"
        )
