"""Sinks for converted items: a stream, and a file that appears once it is complete."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol

from ddbload.contracts.source import GZIP, UNCOMPRESSED, ZSTD
from ddbload.errors import ExtraMissing, OutputUnwritable

SUFFIXES = {GZIP: ".gz", ZSTD: ".zst", UNCOMPRESSED: ""}
INCOMPLETE = b'{"incomplete": '
"""Last line of a stream whose conversion failed. It is not JSON, so readers detect it."""

_SLICE_BYTES = 1024 * 1024
"""Bytes compressed independently, so that threads can compress in parallel."""
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3
_WRITE_BACK_BYTES = 16 * 1024 * 1024


@contextlib.contextmanager
def disk_errors(place: Path | str) -> Iterator[None]:
    """Turn an `OSError` in the block into `OutputUnwritable` that names `place`."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(f"{place}: {error.strerror}") from None


class Sink(Protocol):
    """Sink for converted items."""

    parts: int
    """Number of files or objects written; 0 for a stream."""

    def write(self, data: bytes) -> None:
        """Write lines, each with one item's JSON. Raises `OutputUnwritable` and AWS's errors."""

    def finish(self) -> None:
        """Publish the complete output. Raises as `write`."""

    def abandon(self) -> None:
        """Discard the partial output, or mark it as incomplete."""

    @property
    def bytes(self) -> int:
        """Bytes written, after compression."""


def compression_of_name(name: str) -> str:
    """Return the compression that a file name's suffix stands for."""
    lower = name.lower()
    if lower.endswith((".gz", ".gzip")):
        return GZIP
    return ZSTD if lower.endswith((".zst", ".zstd")) else UNCOMPRESSED


def open_compressor(file: IO[bytes], compression: str, threads: int = 1) -> Any:
    """Open a file object that compresses into `file`. Close it before `file`.

    The output depends only on the input, not on the number of threads or the time. Raises
    `ExtraMissing`.
    """
    if compression == GZIP:
        return _GzipThreads(file, threads)
    if compression == ZSTD:
        try:
            import zstandard
        except ImportError:
            subject = "--out-compression zstd writes Zstandard (gzip needs nothing)"
            raise ExtraMissing.of(subject, "zstandard", "zstd") from None
        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return compressor.stream_writer(file, closefd=False)
    return _Uncompressed(file)


class _GzipThreads:
    """Gzip file whose slices are compressed by several threads."""

    def __init__(self, file: IO[bytes], threads: int) -> None:
        self._file, self._threads = file, threads
        self._pool = ThreadPoolExecutor(threads)
        self._slices: deque[Future[bytes]] = deque()
        self._held: list[bytes] = []
        self._held_bytes = self._crc = self._length = 0
        file.write(_GZIP_HEADER)

    def write(self, data: bytes) -> None:
        self._crc = zlib.crc32(data, self._crc)
        self._length += len(data)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= _SLICE_BYTES:
            whole = b"".join(self._held)
            while len(whole) >= _SLICE_BYTES:
                self._deflate(whole[:_SLICE_BYTES])
                whole = whole[_SLICE_BYTES:]
            self._held, self._held_bytes = [whole], len(whole)

    def _deflate(self, data: bytes) -> None:
        self._slices.append(self._pool.submit(_deflate_slice, data))
        while len(self._slices) > 2 * self._threads:
            self._file.write(self._slices.popleft().result())

    def close(self) -> None:
        with self._pool:
            if self._held_bytes:
                self._deflate(b"".join(self._held))
            for each in self._slices:
                self._file.write(each.result())
        # An empty last block, then CRC-32 and length of the whole content.
        self._file.write(b"\x03\x00" + self._crc.to_bytes(4, "little"))
        self._file.write((self._length & 0xFFFFFFFF).to_bytes(4, "little"))


def _deflate_slice(data: bytes) -> bytes:
    """Compress bytes so that other slices can follow: byte-aligned, without a final block."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


class _Uncompressed:
    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


class StreamSink:
    """Sink for an open stream, such as standard output. Its output cannot be undone."""

    parts = 0

    def __init__(self, stream: IO[bytes], name: str, *, close: bool = False) -> None:
        """Write to `stream`; `close` closes it at the end; errors quote `name`."""
        self._stream, self._name, self._close = stream, name, close
        self.bytes = 0

    def write(self, data: bytes) -> None:
        """Write and flush lines.

        Raises `OutputUnwritable`, or `BrokenPipeError` if the reader of standard output has closed
        it.
        """
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            if not self._close:
                if isinstance(error, BrokenPipeError):
                    raise
                # Otherwise the flush at exit would fail as well.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OutputUnwritable(f"{self._name}: {error.strerror}") from None
        self.bytes += len(data)

    def finish(self) -> None:
        """Flush the stream, and close it if the sink owns it."""
        self.write(b"")
        if self._close:
            self._stream.close()

    def abandon(self) -> None:
        """Write a last line that is not JSON, so that readers detect the failure."""
        with contextlib.suppress(OutputUnwritable, BrokenPipeError):
            self.write(INCOMPLETE)
        if self._close:
            with contextlib.suppress(OSError):
                self._stream.close()


class FileSink:
    """Sink for a file that appears, or replaces the old one, only once it is complete."""

    parts = 1

    def __init__(self, path: str, compression: str | None = None, threads: int = 1) -> None:
        """Create a temporary file next to `path`. `threads`: number that compress.

        Raises `OutputUnwritable` and `ExtraMissing`.
        """
        # Keep a symbolic link, and replace the file that it points to.
        self._path = Path(os.path.realpath(path))
        self.bytes = self._flushed = 0
        with disk_errors(self._path):
            # A temporary file is readable only by its owner, because rows may be confidential.
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed by finish and abandon
                dir=self._path.parent, prefix=f".{self._path.name[:80]}.", delete=False
            )
        try:
            self._out = open_compressor(
                self._file.file, compression or compression_of_name(path), threads
            )
        except ExtraMissing:
            self.abandon()
            raise

    def write(self, data: bytes) -> None:
        """Write lines to the temporary file."""
        with disk_errors(self._path):
            self._out.write(data)
            self._start_write_back()

    def _start_write_back(self) -> None:
        """Start writing completed data to disk, so that little is left to wait for at the end."""
        if not hasattr(os, "posix_fadvise"):
            return
        while self._file.tell() - self._flushed >= 2 * _WRITE_BACK_BYTES:
            # POSIX_FADV_DONTNEED makes Linux start write-back. This is a hint only.
            with contextlib.suppress(OSError):
                os.posix_fadvise(
                    self._file.fileno(),
                    self._flushed,
                    _WRITE_BACK_BYTES,
                    os.POSIX_FADV_DONTNEED,
                )
            self._flushed += _WRITE_BACK_BYTES

    def finish(self) -> None:
        """Rename the temporary file, with the old file's permissions or private to its owner."""
        temporary = Path(self._file.name)
        with disk_errors(self._path):
            self._out.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self.bytes = os.fstat(self._file.fileno()).st_size
            self._file.close()
            temporary.chmod(self._mode())
            temporary.replace(self._path)

    def abandon(self) -> None:
        """Remove the temporary file; an old file stays."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            Path(self._file.name).unlink()

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(self._path.stat().st_mode)
        except OSError:
            # Items may be confidential: only the file's owner may grant access to others.
            return 0o600
