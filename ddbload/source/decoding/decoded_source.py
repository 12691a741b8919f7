"""A source's content: its bytes as they are stored, and decompressed and converted to UTF-8."""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

from ddbload.contracts.chunks import SeekPoint
from ddbload.contracts.source import (
    ARRAY,
    AUTO,
    DEFAULT_MAX_EXPANSION,
    GZIP,
    OBJECT,
    UNCOMPRESSED,
    VALUES,
)
from ddbload.errors import SourceChanged, UnsupportedFormat
from ddbload.rows.file_signatures import LONGEST_BYTE_ORDER_MARK
from ddbload.rows.json_containers import LARGEST_CONTAINER_START
from ddbload.rows.json_framing import JsonFramer
from ddbload.source.decoding import inflate
from ddbload.source.decoding.compression import (
    EXPANSION_ALLOWANCE_BYTES,
    MAKES_PARTS,
    ONE_PART,
    decompress,
)


class ByteSource(Protocol):
    """One version of a file or object. A read returns bytes of that version or fails."""

    name: str
    """Path or s3:// URI of the source."""
    size: int
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

    The cache holds the first 256 KiB, or `head` if these bytes were read before, from offset `at`
    on. Closing it closes the inner source.
    """

    def __init__(self, inner: ByteSource, head: bytes | None = None, at: int = 0) -> None:
        self.name, self.size, self.pinned = inner.name, inner.size, inner.pinned
        self.read = 0
        """Offset up to which the source was read."""
        self._inner = inner
        self._head, self._at = head, at

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range; see `ByteSource.stream`."""
        at, position = self._at, start
        head_end = min(self.size, FIRST_BYTES) if self._head is None else at + len(self._head)
        stop = min(end, head_end)
        if at <= position < stop:
            if self._head is None:
                self._head = b"".join(self._inner.stream(0, head_end, FIRST_BYTES))
            for position in range(start, stop, piece_bytes):
                yield self._head[position - at : min(position + piece_bytes, stop) - at]
            position = stop
        if position < end:
            for piece in self._inner.stream(position, end, piece_bytes):
                position += len(piece)
                self.read = max(self.read, position)
                yield piece

    def close(self) -> None:
        """Close the source."""
        self._inner.close()


POINT_BYTES = 1024 * 1024
"""Decompressed bytes between two seek points.

A point takes 32 KiB of memory. Decompressing half the distance takes about a millisecond.
"""


class SeekTrail:
    """Seek points of consecutive objects, by their byte in the run.

    Points are kept until `discard_before`.
    """

    def __init__(self, every: int = POINT_BYTES) -> None:
        """`every`: minimum decompressed bytes between two points."""
        self.consumed = 0
        """Compressed bytes of the current object that were decompressed so far."""
        self.every = every
        self._bytes: list[int] = []
        # None at the beginning of an object.
        self._points: list[SeekPoint | None] = []
        self._base = self._shift = self._next = 0
        self._until: int | None = None

    def begin(self, base: int, skip: int, start: SeekPoint | None = None) -> None:
        """Begin an object whose byte `skip` is byte `base` of the run.

        `start`: known point in the object; None for its beginning.
        """
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
        """Return whether a point is due after this many decompressed bytes of the object."""
        return text >= self._next

    def add(self, point: SeekPoint) -> None:
        """Add a point of the current object. It must lie after all earlier ones."""
        self._next = point.text + self.every
        byte = point.text + self._shift
        # No row begins within the header.
        if byte >= self._base:
            self._bytes.append(byte)
            self._points.append(point if self._until is None else replace(point, until=self._until))

    def first_from(self, byte: int) -> int | None:
        """Return the byte of the first point at or after a byte; None if none was passed yet."""
        found = bisect_left(self._bytes, byte)
        return self._bytes[found] if found < len(self._bytes) else None

    def last_before(self, byte: int) -> SeekPoint | None:
        """Return the last point at or before a byte; None to read the object from its start."""
        found = bisect_right(self._bytes, byte)
        return self._points[found - 1] if found else None

    def discard_before(self, byte: int) -> None:
        """Drop points that `last_before` will not return for this byte or later ones."""
        found = bisect_right(self._bytes, byte) - 1
        if found > 0:
            del self._bytes[:found], self._points[:found]


READ_BYTES = 64 * 1024
"""Compressed or encoded bytes read at a time."""
_MOST_UTF8_BYTES = 4
"""Maximum bytes of UTF-8 per byte of any other encoding."""


class DecodedSource:
    """Decompressed bytes of a source in UTF-8. Offsets count these bytes, not the file's.

    Text in `encoding` is converted to UTF-8 without a byte order mark; None and UTF-8 leave the
    bytes unchanged. `max_expansion` limits the output to that many times the compressed size; None
    sets no limit.
    """

    def __init__(
        self,
        inner: ByteSource,
        *,
        compression: str = UNCOMPRESSED,
        encoding: str | None = None,
        max_expansion: int | None = DEFAULT_MAX_EXPANSION,
        layout: str = AUTO,
        table: str | None = None,
    ) -> None:
        """`layout`: arrangement of JSON objects, see `LAYOUTS`; all others are lines.

        `table`: table whose rows are read, of objects that name tables.
        """
        self.inner = inner
        self.name = inner.name
        """Path or s3:// URI of the source."""
        self.members: frozenset[str] = frozenset()
        """Non-empty members of the object around a JSON array, once read to the end."""
        self.others: Counter[str] = Counter()
        """Number of rows of other tables in such objects, once read to the end."""
        self._layout, self._table = layout, table
        self.compression = compression
        """Name of the compression."""
        # UTF-8, by any of its names, needs no conversion.
        is_utf8 = encoding is None or codecs.lookup(encoding).name == "utf-8"
        self._encoding = None if is_utf8 else encoding
        self._max_expansion = max_expansion
        self._start: SeekPoint | None = None
        self._trail: SeekTrail | None = None

    @property
    def plain(self) -> bool:
        """True if the bytes equal the file's, so that any range can be read directly."""
        return self.compression == UNCOMPRESSED and self._encoding is None

    @property
    def has_seek_points(self) -> bool:
        """True if decompression can restart at points that are found while reading."""
        return self.compression != UNCOMPRESSED and self._encoding is None

    @property
    def why_uncut(self) -> str:
        """Reason why a compressed source that should be cut is not, and what helps."""
        if self.compression != GZIP:
            return (
                f"it is {ONE_PART[self.compression]}, which can only be decompressed from its"
                f" beginning; compress it with gzip, or with {MAKES_PARTS[self.compression]}"
            )
        return (
            "the places where gzip can be cut are found by zlib's own functions, which this Python"
            " does not reach; install the system's zlib (libz.so.1), or split the file"
        )

    def seek(self, start: SeekPoint | None, trail: SeekTrail | None) -> None:
        """Start later reads at a seek point if they lie after it; record others in `trail`."""
        self._start, self._trail = start, trail

    @property
    def most_bytes(self) -> int | None:
        """Maximum number of bytes that `stream` can yield; None if there is no limit."""
        most = self.inner.size
        if self.compression != UNCOMPRESSED:
            if self._max_expansion is None:
                return None
            most = max(EXPANSION_ALLOWANCE_BYTES, self._max_expansion * most)
        return most if self._encoding is None else _MOST_UTF8_BYTES * most

    @property
    def rows_before(self) -> int:
        """Rows of the file before offset 0: not zero if only some row groups are read."""
        return 0

    def stream(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """Yield the bytes in [`start`, `end`) in pieces of at most `piece_bytes`.

        With `end` None it reads to the end and checks that compressed data is complete. Unless the
        source is `plain`, bytes from the seek point (or the beginning) to `start` are decoded and
        dropped. Memory is limited to one piece and a small window.

        Raises the errors of `ByteSource.stream`, `DamagedCompression`, `ExpansionTooLarge`,
        `UnsupportedFormat` and `ExtraMissing`.
        """
        inner = self.inner
        if self.plain:
            position = min(start, inner.size)
            stop = inner.size if end is None else min(end, inner.size)
            pieces = inner.stream(position, stop, piece_bytes)
        else:
            point = self._start if self._start and _is_usable(self._start, start) else None
            position = 0 if point is None else point.text
            pieces = self._decode(point)
        yield from slice_pieces(pieces, position, start, end, piece_bytes, self.name)

    @property
    def framed(self) -> bool:
        """True if rows are JSON objects that are not written one per line."""
        return self._layout in (ARRAY, OBJECT, VALUES)

    @property
    def has_cuts(self) -> bool:
        """True if row ends can be found in a window of the bytes."""
        return self.plain and not self.framed

    def stream_rows(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range like `stream`, with one JSON object per line. A row begins at `start`.

        Offsets stay those of `stream`. Raises `InvalidJson`, at the latest at the source's end.
        """
        pieces = self.stream(start, end, piece_bytes)
        if not self.framed:
            yield from pieces
            return
        framer = JsonFramer(self._layout, start, self._read_start, self._table)
        to_end = end is None or (self.plain and end >= self.inner.size)
        for framed in framer.frame(pieces, to_end=to_end):
            for offset in range(0, len(framed), piece_bytes):
                yield framed[offset : offset + piece_bytes]
        self.members, self.others = framer.members, framer.others

    def _read_start(self) -> bytes:
        """Read the members before the array within an object."""
        held = bytearray()
        for piece in self.stream(0, None, READ_BYTES):
            held += piece
            if len(held) >= LARGEST_CONTAINER_START:
                break
        return bytes(held)

    def close(self) -> None:
        """Close the source."""
        self.inner.close()

    def _decode(self, start: SeekPoint | None) -> Iterator[bytes]:
        until = None if start is None else start.until

        def read(offset: int) -> Iterator[bytes]:
            size = self.inner.size
            # Request no more than a chunk needs: unread bytes would force closing the connection.
            stop = size if until is None else max(offset, min(until, size))
            yield from self.inner.stream(offset, stop, READ_BYTES)
            yield from self.inner.stream(stop, size, READ_BYTES)

        if self.compression == UNCOMPRESSED:
            pieces = read(0)
        else:
            pieces = decompress(
                read,
                self.compression,
                self.name,
                self._max_expansion,
                start=start,
                trail=self._trail,
            )
        if self._encoding is not None:
            pieces = transcode(pieces, self._encoding, self.name)
        return pieces


def _is_usable(point: SeekPoint, start: int) -> bool:
    """Return whether decompression from this point can reach `start`."""
    return point.text <= start and (point.window is None or inflate.zlib_library() is not None)


def slice_pieces(
    pieces: Iterator[bytes],
    position: int,
    start: int,
    end: int | None,
    piece_bytes: int,
    name: str,
) -> Iterator[bytes]:
    """Cut the range [`start`, `end`) out of pieces, of which the first is at offset `position`.

    Raises `SourceChanged` if the pieces end before the range, which preflight has read to its end.
    """
    if end is not None and end <= start:
        return
    for piece in pieces:
        begin = max(0, start - position)
        stop = len(piece) if end is None else min(len(piece), end - position)
        if 0 < len(piece) == stop - begin <= piece_bytes:
            # Whole pieces may be `RowBytes`.
            yield piece
            begin = stop
        for offset in range(begin, stop, piece_bytes):
            yield piece[offset : min(stop, offset + piece_bytes)]
        position += len(piece)
        if end is not None and position >= end:
            return
    if position < (start if end is None else end):
        raise SourceChanged(
            f"{name} ends at byte {position} of its content, and did not when this run"
            " began with it; start a new run"
        )


# Text in other encodings.

_MARK = "\ufeff"
_BLOCK_BYTES = 64 * 1024
_KEEP_ERRORS = "ddbload.kept"


def transcode(pieces: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Convert text to UTF-8 without a byte order mark.

    Bytes that are invalid in `encoding` become the same number of invalid UTF-8 bytes in the same
    place, so that only their row is rejected. `name`: name of the source, for errors. Raises
    `UnsupportedFormat` if the encoding cannot continue after invalid bytes.
    """
    start, pieces = _start(pieces, LONGEST_BYTE_ORDER_MARK)
    decoder = codecs.getincrementaldecoder(_codec_name(encoding, start))(errors=_KEEP_ERRORS)
    begun = False
    ended = False
    blocks = _blocks(pieces)
    while not ended:
        block = next(blocks, None)
        ended = block is None
        try:
            text = decoder.decode(block or b"", final=ended)
        except UnicodeError:
            raise UnsupportedFormat(
                f"{name} is not wholly text in {encoding}, and this encoding does not show where"
                " sound text begins again; check --encoding"
            ) from None
        if text and not begun:
            begun = True
            text = text.removeprefix(_MARK)
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _start(pieces: Iterator[bytes], count: int) -> tuple[bytes, Iterator[bytes]]:
    """Read the first `count` bytes; return them, and an iterator over all pieces including them."""
    held: list[bytes] = []
    while sum(map(len, held)) < count and (piece := next(pieces, None)) is not None:
        held.append(piece)
    start = b"".join(held)
    return start[:count], chain([start] if start else [], pieces)


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Regroup pieces into blocks of a fixed size.

    For invalid bytes, a stateful decoder's output depends on where its input is cut. Fixed cuts
    make the offsets reproducible.
    """
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _BLOCK_BYTES:
            yield bytes(held[:_BLOCK_BYTES])
            del held[:_BLOCK_BYTES]
    if held:
        yield bytes(held)


def _codec_name(encoding: str, start: bytes) -> str:
    """Choose the byte order of UTF-16 and UTF-32: from the mark, or else by the first byte.

    Python's codecs need a mark to detect it. Text does not begin with a NUL character, so a first
    byte of zero means big-endian.
    """
    name = codecs.lookup(encoding).name
    if name not in ("utf-16", "utf-32"):
        return encoding
    largest_first = (codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
    return f"{name}-be" if start.startswith((*largest_first, b"\0")) else f"{name}-le"


def _keep_invalid_bytes(error: UnicodeError) -> tuple[str, int]:
    """Decode each invalid byte to a lone surrogate, which UTF-8 encodes as invalid bytes."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    kept = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in kept), error.end


codecs.register_error(_KEEP_ERRORS, _keep_invalid_bytes)
