"""Output made from the rows of a span, kept until it is its turn: in memory, or in a file."""

from __future__ import annotations

import math
import os
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO

MEMORY_BYTES = 8 * 1024 * 1024
"""Bytes that are kept in memory; more go to a temporary file."""
SLICE_BYTES = 1024 * 1024
"""Bytes that are compressed by themselves, so that spans can be compressed side by side."""
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_COPY_BYTES = 1024 * 1024
_LEVEL = 6


class SpanOutput:
    """Bytes of one span, as they are or deflated slice by slice.

    What is deflated ends at a whole byte and with no last block, so that it can be followed by the
    output of other spans; `gzip_trailer` ends a file of them.
    """

    def __init__(
        self, folder: str | None = None, *, deflate: bool = False, drained: bool = False
    ) -> None:
        """Use a temporary file in `folder`, unless the bytes are `drained` as they come."""
        self.size = 0
        """Bytes to write, after compression."""
        self.length = self.crc = 0
        """Bytes before compression, and their CRC-32 if they are compressed."""
        self._folder = folder
        self._deflate = deflate
        self._most_held = math.inf if drained else MEMORY_BYTES
        self._slice: list[bytes] = []
        self._slice_bytes = 0
        self._held: list[bytes] = []
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> None:
        """Add bytes. Raises `OSError` if the temporary file cannot be written."""
        if not data:
            # A pipe would send an empty piece as a message of its own, which nobody expects.
            return
        self.length += len(data)
        if not self._deflate:
            self._keep(data)
            return
        self.crc = zlib.crc32(data, self.crc)
        self._slice.append(data)
        self._slice_bytes += len(data)
        while self._slice_bytes >= SLICE_BYTES:
            whole = b"".join(self._slice)
            self._keep(deflate_slice(whole[:SLICE_BYTES]))
            self._slice = [whole[SLICE_BYTES:]]
            self._slice_bytes = len(self._slice[0])

    def finish(self) -> None:
        """Compress the last slice."""
        if self._slice_bytes:
            self._keep(deflate_slice(b"".join(self._slice)))
        self._slice, self._slice_bytes = [], 0

    def _keep(self, data: bytes) -> None:
        self.size += len(data)
        if self._file is None:
            self._held.append(data)
            if self.size <= self._most_held:
                return
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by close
            self._file.writelines(self._held)
            self._held = []
            return
        self._file.write(data)

    def drain(self) -> Iterator[bytes]:
        """Yield the finished bytes so far, and forget them."""
        held, self._held, self.size = self._held, [], 0
        yield from held

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes."""
        yield from self._held
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(_COPY_BYTES):
                yield piece

    def write_to(self, path: str, offset: int) -> None:
        """Write all bytes into a file that exists, at an offset. Raises `OSError`."""
        target = os.open(path, os.O_WRONLY)
        try:
            for piece in self._held:
                offset += write_at(target, piece, offset)
            if self._file is not None:
                self._file.flush()
                _copy(self._file.fileno(), target, offset, self.size)
        finally:
            os.close(target)

    def close(self) -> None:
        """Free the memory, and remove the temporary file."""
        self._held = []
        if self._file is not None:
            self._file.close()


def write_at(descriptor: int, data: bytes, offset: int) -> int:
    """Write bytes at an offset of a file; return how many. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written
    return len(data)


def _copy(source: int, target: int, offset: int, size: int) -> None:
    """Copy a file's bytes to an offset of another; by the kernel alone where it can."""
    done = 0
    while done < size:
        copied = 0
        if hasattr(os, "copy_file_range"):
            try:
                copied = os.copy_file_range(source, target, size - done, done, offset + done)
            except OSError:
                # The files are on different file systems, or theirs cannot copy so.
                copied = 0
        if not copied:
            piece = os.pread(source, min(_COPY_BYTES, size - done), done)
            copied = write_at(target, piece, offset + done)
        if not copied:
            raise OSError(5, "a temporary file was cut short")
        done += copied


def deflate_slice(data: bytes) -> bytes:
    """Compress bytes so that other slices can follow: no last block, and no bits left over."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def gzip_trailer(crc: int, length: int) -> bytes:
    """Return the end of a gzip file: an empty last block, CRC-32 and length of its content."""
    return b"\x03\x00" + crc.to_bytes(4, "little") + (length & 0xFFFFFFFF).to_bytes(4, "little")


_POLYNOMIAL = 0xEDB88320


def _multiply(one: int, other: int) -> int:
    """Multiply two polynomials over GF(2) modulo that of CRC-32, in its reflected bits."""
    product = 0
    bit = 1 << 31
    while bit:
        if one & bit:
            product ^= other
        other = (other >> 1) ^ (_POLYNOMIAL if other & 1 else 0)
        bit >>= 1
    return product


def crc32_of_both(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two texts together, from that of each and the length of the second."""
    # The first is shifted by the second's bits: multiplied by x to the power of 8 * length.
    power, factor = 1 << 31, 1 << (31 - 8)
    while length:
        if length & 1:
            power = _multiply(factor, power)
        factor = _multiply(factor, factor)
        length >>= 1
    return _multiply(power, first) ^ second
