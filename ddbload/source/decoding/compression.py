"""Decompression of gzip, Zstandard, bzip2 and xz, piece by piece, from the start or a seek point.

Pieces of output are bounded, because a few compressed bytes can expand to gigabytes. Damaged data
(a wrong checksum or length, or an early end) raises an error before the last piece is yielded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from ddbload.contracts.chunks import SeekPoint
from ddbload.contracts.source import BZIP2, GZIP, XZ, ZSTD
from ddbload.errors import DamagedCompression, ExpansionTooLarge, ExtraMissing, UnsupportedFormat
from ddbload.rows.file_signatures import ZSTD_SIGNATURE, ZSTD_SKIPPABLE_SIGNATURES
from ddbload.source.decoding.inflate import OUTPUT_BYTES, make_inflater

EXPANSION_ALLOWANCE_BYTES = 1024 * 1024
"""Output size up to which any ratio to the input is allowed."""

_GZIP_SIGNATURE, _DEFLATE = b"\x1f\x8b", 8
# Flags in the header of a gzip member (RFC 1952, 2.3.1).
_HEADER_CHECKSUM, _EXTRA_FIELD, _NAME, _COMMENT, _RESERVED = 0x02, 0x04, 0x08, 0x10, 0xE0
ONE_PART = {ZSTD: "one Zstandard frame", BZIP2: "one bzip2 stream", XZ: "one xz stream"}
MAKES_PARTS = {
    ZSTD: "pzstd, which makes many frames",
    BZIP2: "pbzip2, which makes many streams",
    XZ: "gzip in several files",
}
"""Compressions that are read from the beginning, and programs that write them in parts."""
# The largest window that the zstd command uses by default. The window is held in memory. Of xz, the
# memory of all, which is 65 MiB for its highest level.
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
# A Zstandard block holds at most this much, compressed or not (RFC 8878).
_ZSTD_BLOCK_BYTES = 128 * 1024

_REPEATED, _COMPRESSED = 1, 2


class _Damage(Exception):
    """Damage to compressed data, described by the text. An early end raises EOFError instead."""


def decompress(
    read: Callable[[int], Iterator[bytes]],
    compression: str,
    name: str,
    max_expansion: int | None,
    *,
    start: SeekPoint | None = None,
    trail: Any = None,
) -> Iterator[bytes]:
    """Decompress data into pieces of at most 128 KiB. Empty input gives empty output.

    `read` yields the compressed bytes from an offset on. `name` is the source's name, for error
    messages. `max_expansion` limits the output to that many times the input, once 1 MiB has come
    out; None sets no limit. `start` is a point to begin at; `trail`, a `SeekTrail`, records those
    that are passed.

    Raises:
        DamagedCompression: If the data is damaged or ends too early.
        ExpansionTooLarge: If the output exceeds `max_expansion`.
        ExtraMissing: If the zstandard package is missing.
    """
    start = start or SeekPoint(0, 0)
    reader = _Reader(read(start.offset), start, name, max_expansion)
    if compression == GZIP:
        return _gunzip(reader, start, trail)
    return _unzstd(reader, trail) if compression == ZSTD else _unpack(reader, compression, trail)


class _Reader:
    """Reader of compressed bytes from pieces that also limits their decompressed size."""

    def __init__(
        self, pieces: Iterator[bytes], start: SeekPoint, name: str, max_expansion: int | None
    ) -> None:
        """`start`: seek point at which the first piece begins."""
        self.name = name
        self.output = start.text
        """Number of decompressed bytes counted."""
        self.piece = b""
        self.offset = 0
        """Offset of the next byte in the current piece."""
        self._pieces = pieces
        self._begin = start.offset
        self._max = max_expansion

    def count(self, data: bytes) -> bytes:
        """Count decompressed bytes and return them. Raises `ExpansionTooLarge`."""
        self.output += len(data)
        most = self._max
        if most is not None and self.output > max(EXPANSION_ALLOWANCE_BYTES, most * self.taken):
            raise ExpansionTooLarge(
                f"{self.name}: the first {self.taken} bytes decompress to more than {most} times"
                " as many, which is what bombs do; if the data are sound, allow more"
                " (--max-expansion; in a payload, max_expansion)"
            )
        return data

    def damaged(self, reason: str) -> DamagedCompression:
        return DamagedCompression(
            f"{self.name}, about byte {self.taken} of the compressed data: {reason}; copy or"
            " compress the file again"
        )

    @property
    def taken(self) -> int:
        """Offset of the next byte in the source."""
        return self._begin + self.offset

    def at_end(self) -> bool:
        """Return whether all bytes were taken. Otherwise the current piece is not empty."""
        while self.offset == len(self.piece):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._begin += self.offset
            self.piece, self.offset = piece, 0
        return False

    def take(self, count: int) -> bytes:
        """Take the next `count` bytes. Raises EOFError if there are fewer."""
        found: list[bytes] = []
        left = count
        while left:
            if self.at_end():
                raise EOFError
            some = self.piece[self.offset : self.offset + left]
            self.offset += len(some)
            left -= len(some)
            found.append(some)
        return found[0] if len(found) == 1 else b"".join(found)

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        while count:
            count -= len(self.take(min(count, _ZSTD_BLOCK_BYTES)))

    def take_to_zero(self) -> bytes:
        """Take bytes up to and including a zero, or the rest of the piece. Raises EOFError."""
        if self.at_end():
            raise EOFError
        end = self.piece.find(b"\0", self.offset) + 1
        return self.take((end or len(self.piece)) - self.offset)

    def skip_zeros(self) -> None:
        """Skip bytes that are zero."""
        while not self.at_end() and not self.piece[self.offset]:
            self.offset = len(self.piece) - len(self.piece[self.offset :].lstrip(b"\0"))


def _gunzip(reader: _Reader, start: SeekPoint, trail: Any) -> Iterator[bytes]:
    inflater = make_inflater()
    checksum, length, byte = start.checksum, start.length, start.byte
    is_first = start.text == length
    in_member = start.window is not None
    if start.window is not None:
        inflater.reset(start.window, start.bits, byte)
    is_full = False
    try:
        while True:
            if not in_member:
                if reader.taken:
                    is_first = False
                    # Tapes and block devices pad with zeros, which the gzip command also ignores.
                    reader.skip_zeros()
                if reader.at_end():
                    return
                if trail is not None and trail.wants(reader.output):
                    trail.add(SeekPoint(reader.taken, reader.output))
                _skip_header(reader)
                inflater.reset()
                in_member, is_full, checksum, length = True, False, 0, 0
            # After a full buffer zlib may have more output without any more input.
            if reader.at_end() and not is_full:
                raise EOFError
            offset = reader.offset
            near = trail is not None and trail.wants(reader.output + OUTPUT_BYTES)
            output, reader.offset = inflater.inflate(reader.piece, offset, to_block=near)
            if reader.offset > offset:
                byte = reader.piece[reader.offset - 1]
            is_full = len(output) == OUTPUT_BYTES
            checksum = zlib.crc32(output, checksum)
            length += len(output)
            reader.count(output)
            bits = inflater.bits
            if trail is not None and bits is not None and trail.wants(reader.output):
                at = reader.taken, reader.output, bits, byte, checksum, length
                trail.add(SeekPoint(*at, inflater.window()))
            if inflater.ended:
                _check_trailer(reader, checksum, length)
                in_member = False
            if trail is not None:
                trail.consumed = reader.taken
            if output:
                yield output
    except zlib.error as error:
        why = str(error).rpartition(": ")[2]
        raise reader.damaged(f"the data are damaged ({why})") from None
    except (_Damage, EOFError) as error:
        raise reader.damaged(_gzip_damage(error, is_first=is_first)) from None


def _skip_header(reader: _Reader) -> None:
    """Skip the header of a gzip member (RFC 1952, 2.3). Raises `_Damage`."""
    start = reader.take(len(_GZIP_SIGNATURE))
    if start != _GZIP_SIGNATURE:
        raise _Damage
    fixed = reader.take(8)
    method, flags = fixed[0], fixed[1]
    if method != _DEFLATE:
        raise _Damage("unknown compression method")
    if flags & _RESERVED:
        raise _Damage("unknown header flags set")
    checksum = zlib.crc32(start + fixed)
    if flags & _EXTRA_FIELD:
        size = reader.take(2)
        extra = reader.take(int.from_bytes(size, "little"))
        checksum = zlib.crc32(size + extra, checksum)
    for flag in (_NAME, _COMMENT):
        while flags & flag:
            some = reader.take_to_zero()
            checksum = zlib.crc32(some, checksum)
            if some.endswith(b"\0"):
                break
    if flags & _HEADER_CHECKSUM and int.from_bytes(reader.take(2), "little") != checksum & 0xFFFF:
        raise _Damage("header crc mismatch")


def _check_trailer(reader: _Reader, checksum: int, length: int) -> None:
    """Verify checksum and length of a gzip member (RFC 1952, 2.3.1). Raises `_Damage`."""
    trailer = reader.take(8)
    if int.from_bytes(trailer[:4], "little") != checksum:
        raise _Damage("incorrect data check")
    if int.from_bytes(trailer[4:], "little") != length & 0xFFFFFFFF:
        raise _Damage("incorrect length check")


def _gzip_damage(error: _Damage | EOFError, *, is_first: bool) -> str:
    trailing = "after the end of the data there is something else"
    if isinstance(error, EOFError):
        further = f"{trailing}, or a further part that ends too early"
        return "the data end too early" if is_first else further
    if not error.args:
        return "these are not gzip data" if is_first else trailing
    return f"the data are damaged ({error})"


def _unzstd(reader: _Reader, trail: Any) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        subject = f"{reader.name} is compressed with Zstandard"
        raise ExtraMissing.of(subject, "zstandard", "zstd") from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        for offset, parts in _zstd_frames(reader):
            if trail is not None and trail.wants(reader.output):
                trail.add(SeekPoint(offset, reader.output))
            frame = decompressor.decompressobj()
            for part in parts:
                output = frame.decompress(part)
                if trail is not None:
                    trail.consumed = reader.taken
                if output:
                    yield reader.count(output)
            if not frame.eof:
                raise _Damage("the Zstandard data are damaged (a frame's end)")
    except (_Damage, EOFError) as error:
        early = isinstance(error, EOFError)
        reason = "the Zstandard data end too early" if early else str(error)
        raise reader.damaged(reason) from None
    except zstandard.ZstdError as error:
        words = str(error).removeprefix("zstd decompressor error: ")
        if "too much memory" in words:
            raise UnsupportedFormat(
                f"{reader.name} was compressed with a window of more than"
                f" {_MAX_WINDOW_BYTES >> 20} MiB; compress it again without --long and --ultra"
            ) from None
        raise reader.damaged(f"the Zstandard data are damaged ({words})") from None


def _unpack(reader: _Reader, compression: str, trail: Any) -> Iterator[bytes]:
    """Decompress streams of bzip2 or xz."""
    # A Python may be built without either.
    import bz2
    import lzma

    is_first = not reader.taken
    try:
        while True:
            if compression == XZ and not is_first:
                # Streams are padded with zeros, to four bytes.
                reader.skip_zeros()
            if reader.at_end():
                return
            if trail is not None and trail.wants(reader.output):
                trail.add(SeekPoint(reader.taken, reader.output))
            stream: Any = (
                lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_WINDOW_BYTES)
                if compression == XZ
                else bz2.BZ2Decompressor()
            )
            while not stream.eof:
                data = b""
                if stream.needs_input:
                    if reader.at_end():
                        raise EOFError
                    data, reader.offset = reader.piece[reader.offset :], len(reader.piece)
                output = stream.decompress(data, OUTPUT_BYTES)
                if trail is not None:
                    trail.consumed = reader.taken
                if output:
                    yield reader.count(output)
            reader.offset -= len(stream.unused_data)
            is_first = False
    except EOFError:
        raise reader.damaged(f"the {compression} data end too early") from None
    except (OSError, ValueError, lzma.LZMAError) as error:
        if "Memory usage limit" in str(error):
            raise UnsupportedFormat(
                f"{reader.name} needs more than {_MAX_WINDOW_BYTES >> 20} MiB to decompress;"
                " compress it again with a smaller dictionary (xz -6)"
            ) from None
        if is_first:
            raise reader.damaged(f"the {compression} data are damaged ({error})") from None
        raise reader.damaged(
            f"after the end of {compression} data there is something else, or it is damaged"
        ) from None


def _zstd_frames(reader: _Reader) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Split Zstandard data (RFC 8878) into frames, and each frame into header, blocks, checksum.

    Yields each frame's offset in the source with an iterator over its parts, which must be read
    before the next frame. A block expands to at most 128 KiB, so decompressing block by block
    bounds the memory. Skippable frames are left out. Raises `_Damage`.
    """
    is_first = not reader.taken
    while not reader.at_end():
        offset = reader.taken
        try:
            start = reader.take(4)
        except EOFError:
            if is_first:
                raise
            start = b""
        if start in ZSTD_SKIPPABLE_SIGNATURES:
            reader.skip(int.from_bytes(reader.take(4), "little"))
        elif start == ZSTD_SIGNATURE:
            yield offset, _frame_parts(start, reader)
        elif not is_first:
            raise _Damage("after the end of the Zstandard data there is something else")
        else:
            raise _Damage("these are not Zstandard data")
        is_first = False


def _frame_parts(signature: bytes, reader: _Reader) -> Iterator[bytes]:
    described = reader.take(1)
    description = described[0]
    one_segment = bool(description & 0x20)
    size_bytes = (1 if one_segment else 0, 2, 4, 8)[description >> 6]
    dictionary_bytes = (0, 1, 2, 4)[description & 0x03]
    yield signature + described + reader.take((not one_segment) + dictionary_bytes + size_bytes)
    last = False
    while not last:
        header = reader.take(3)
        block = int.from_bytes(header, "little")
        last = bool(block & 1)
        kind, size = block >> 1 & 3, block >> 3
        if size > _ZSTD_BLOCK_BYTES or kind > _COMPRESSED:
            raise _Damage("the Zstandard data are damaged (a block's header)")
        yield header + reader.take(1 if kind == _REPEATED else size)
    if description & 0x04:
        yield reader.take(4)
