"""gzip and Zstandard decompression, piece by piece.

Output pieces are bounded, because a few compressed bytes can expand to gigabytes. Damaged data
raise an error before the last piece: a wrong checksum or length, or data that end too early.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ddbload.contracts.payload import GZIP
from ddbload.errors import (
    DamagedCompression,
    ExpansionTooLarge,
    ExtraMissing,
    UnsupportedFormat,
)
from ddbload.rows.file_signatures import ZSTD_SIGNATURE, ZSTD_SKIPPABLE_SIGNATURES

EXPANSION_ALLOWANCE_BYTES = 1024 * 1024
"""Output up to this size is allowed whatever its ratio to the input."""

_TRAILING_GZIP = "after the end of the gzip data there is something else"
# Input given to zlib at once. It copies the unused rest once for each gzip member.
_INPUT_BYTES = 8 * 1024
# Longest output piece.
_OUTPUT_BYTES = 256 * 1024
# The largest window that the zstd command makes by default. It is held in memory as a whole.
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
# A Zstandard block holds at most this much, compressed or not (RFC 8878).
_ZSTD_BLOCK_BYTES = 128 * 1024

_REPEATED, _COMPRESSED = 1, 2


class _FrameDamage(Exception):
    """Damage to Zstandard data; its text says which."""


def decompress(
    pieces: Iterator[bytes], compression: str, name: str, max_expansion: int | None
) -> Iterator[bytes]:
    """Decompress gzip or zstd into pieces of at most 256 KiB. Empty input gives empty output.

    `name` is the source's name, for error messages. `max_expansion` limits the output to that
    many times the input, once 1 MiB has come out; None sets no limit.

    Raises `DamagedCompression`, `ExpansionTooLarge`, and `ExtraMissing` without zstandard.
    """
    meter = _ExpansionMeter(name, max_expansion)
    return _gunzip(pieces, meter) if compression == GZIP else _unzstd(pieces, meter)


class _ExpansionMeter:
    """Counter of compressed and decompressed bytes, which enforces `max_expansion`."""

    def __init__(self, name: str, max_expansion: int | None) -> None:
        self.name = name
        self.taken = 0
        self._output = 0
        self._max = max_expansion

    def count(self, data: bytes) -> bytes:
        """Count decompressed bytes and return them. Raises `ExpansionTooLarge`."""
        self._output += len(data)
        most = self._max
        if most is not None and self._output > max(EXPANSION_ALLOWANCE_BYTES, most * self.taken):
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


def _gunzip(pieces: Iterator[bytes], meter: _ExpansionMeter) -> Iterator[bytes]:
    member = None
    members = 0
    for data in _slices(pieces):
        fed = meter.taken + len(data)
        more = False
        while data or more:
            if member is None:
                if members:
                    # Tapes and block devices pad with zeros, which the gzip command ignores, too.
                    data = data.lstrip(b"\0")
                    meter.taken = fed - len(data)
                    if not data:
                        break
                member = zlib.decompressobj(wbits=31)
            try:
                output = member.decompress(data, _OUTPUT_BYTES)
            except zlib.error as error:
                raise meter.damaged(_gzip_damage(error, members)) from None
            ended = member.eof
            data = member.unused_data if ended else member.unconsumed_tail
            meter.taken = fed - len(data)
            # A full output buffer: zlib may hold more output, without any more input.
            more = not ended and len(output) == _OUTPUT_BYTES
            if ended:
                member = None
                members += 1
            if output:
                yield meter.count(output)
    if member is not None and members:
        raise meter.damaged(f"{_TRAILING_GZIP}, or a further part that ends too early")
    if member is not None:
        raise meter.damaged("the gzip data end too early")


def _slices(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for begin in range(0, len(piece), _INPUT_BYTES):
            yield piece[begin : begin + _INPUT_BYTES]


def _gzip_damage(error: zlib.error, members: int) -> str:
    words = str(error).rpartition(": ")[2]
    if "header check" not in words:
        return f"the gzip data are damaged ({words})"
    if members:
        return _TRAILING_GZIP
    return "these are not gzip data"


def _unzstd(pieces: Iterator[bytes], meter: _ExpansionMeter) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ExtraMissing(
            f"{meter.name} is compressed with Zstandard, and the package that reads it is not"
            " installed: pip install 'ddbload[zstd]' (on the deployed stack: a layer that has"
            " zstandard)"
        ) from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    reader = _ByteReader(pieces)
    try:
        for parts in _zstd_frames(reader):
            frame = decompressor.decompressobj()
            for part in parts:
                output = frame.decompress(part)
                meter.taken = reader.taken
                if output:
                    yield meter.count(output)
            if not frame.eof:
                raise _FrameDamage("the Zstandard data are damaged (a frame's end)")
    except _FrameDamage as error:
        meter.taken = reader.taken
        raise meter.damaged(str(error)) from None
    except zstandard.ZstdError as error:
        words = str(error).removeprefix("zstd decompressor error: ")
        if "too much memory" in words:
            raise UnsupportedFormat(
                f"{meter.name} was compressed with a window of more than"
                f" {_MAX_WINDOW_BYTES >> 20} MiB; compress it again without --long and --ultra"
            ) from None
        raise meter.damaged(f"the Zstandard data are damaged ({words})") from None


class _ByteReader:
    """Reader of a given number of bytes from an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.taken = 0
        self._pieces = pieces
        self._piece = b""
        self._offset = 0

    def at_end(self) -> bool:
        """Tell whether all bytes were taken."""
        while self._offset == len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._piece, self._offset = piece, 0
        return False

    def take(self, count: int) -> bytes:
        """Take the next `count` bytes. Raises `_FrameDamage` if there are fewer."""
        found: list[bytes] = []
        left = count
        while left:
            if self.at_end():
                raise _FrameDamage("the Zstandard data end too early")
            some = self._piece[self._offset : self._offset + left]
            self._offset += len(some)
            self.taken += len(some)
            left -= len(some)
            found.append(some)
        return found[0] if len(found) == 1 else b"".join(found)

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        while count:
            count -= len(self.take(min(count, _ZSTD_BLOCK_BYTES)))


def _zstd_frames(reader: _ByteReader) -> Iterator[Iterator[bytes]]:
    """Split Zstandard data (RFC 8878) into frames, and each frame into header, blocks, checksum.

    A block expands to at most 128 KiB, so decompressing block by block bounds the memory. Read a
    frame's parts before the next frame. Skippable frames are left out. Raises `_FrameDamage`.
    """
    is_first = True
    while not reader.at_end():
        start = reader.take(4) if is_first else _next_signature(reader)
        if start in ZSTD_SKIPPABLE_SIGNATURES:
            reader.skip(int.from_bytes(reader.take(4), "little"))
        elif start == ZSTD_SIGNATURE:
            yield _frame_parts(start, reader)
        elif not is_first:
            raise _FrameDamage("after the end of the Zstandard data there is something else")
        else:
            raise _FrameDamage("these are not Zstandard data")
        is_first = False


def _next_signature(reader: _ByteReader) -> bytes:
    try:
        return reader.take(4)
    except _FrameDamage:
        raise _FrameDamage("after the end of the Zstandard data there is something else") from None


def _frame_parts(signature: bytes, reader: _ByteReader) -> Iterator[bytes]:
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
            raise _FrameDamage("the Zstandard data are damaged (a block's header)")
        yield header + reader.take(1 if kind == _REPEATED else size)
    if description & 0x04:
        yield reader.take(4)
