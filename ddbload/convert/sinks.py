"""Sinks for converted items: a stream, and a file that appears once it is complete."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from ddbload.contracts.payload import GZIP, UNCOMPRESSED, ZSTD
from ddbload.errors import ExtraMissing, OutputUnwritable

SUFFIXES = {GZIP: ".gz", ZSTD: ".zst", UNCOMPRESSED: ""}
INCOMPLETE = b'{"incomplete": '
"""Last line of a stream whose conversion failed. It is not JSON, so that readers notice."""

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3


class Sink(Protocol):
    """Sink for lines: the JSON of an item each, as latin-1 octets without a line end."""

    @property
    def bytes(self) -> int:
        """Bytes written, after compression."""

    @property
    def parts(self) -> int:
        """Number of files or objects; 0 for a stream."""

    def write(self, lines: Sequence[str]) -> None:
        """Write lines. Raises `OutputUnwritable` and AWS's errors."""

    def finish(self) -> None:
        """Publish the complete output. Raises as `write`."""

    def abandon(self) -> None:
        """Discard the partial output, or mark it as incomplete."""


def encode_lines(lines: Sequence[str]) -> bytes:
    """Join lines, with a line end after each, and encode them."""
    return "\n".join([*lines, ""]).encode("latin-1")


def compression_of_name(name: str) -> str:
    """Return the compression that a file name ends with."""
    lower = name.lower()
    if lower.endswith((".gz", ".gzip")):
        return GZIP
    return ZSTD if lower.endswith((".zst", ".zstd")) else UNCOMPRESSED


def open_compressor(file: IO[bytes], compression: str) -> Any:
    """Open a file object that compresses into `file`; close it before `file`.

    The same input gives the same output: no time stamp is written. Raises `ExtraMissing`.
    """
    if compression == GZIP:
        return gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)
    if compression == ZSTD:
        try:
            import zstandard
        except ImportError:
            raise ExtraMissing(
                "the package that writes Zstandard is not installed: pip install 'ddbload[zstd]',"
                " or use gzip"
            ) from None
        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return compressor.stream_writer(file, closefd=False)
    return _Uncompressed(file)


class _Uncompressed:
    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


class StreamSink:
    """Sink for an open stream, such as standard output, whose output cannot be undone."""

    parts = 0

    def __init__(self, stream: IO[bytes], name: str, *, close: bool = False) -> None:
        """Write to `stream`, and close it at the end if `close`; `name` is for errors."""
        self._stream, self._name, self._close = stream, name, close
        self.bytes = 0

    def write(self, lines: Sequence[str]) -> None:
        """Write and flush lines. Raises `OutputUnwritable` and `BrokenPipeError`."""
        self._write(encode_lines(lines))

    def finish(self) -> None:
        """Flush the stream, and close it if it is the sink's."""
        self._write(b"")
        if self._close:
            self._stream.close()

    def abandon(self) -> None:
        """Write a last line that is not JSON, so that readers notice the failure."""
        with contextlib.suppress(OutputUnwritable, BrokenPipeError):
            self._write(INCOMPLETE)
        if self._close:
            with contextlib.suppress(OSError):
                self._stream.close()

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._close:
                # Otherwise the flush at exit would fail as well.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OutputUnwritable(f"{self._name}: {error.strerror}") from None
        self.bytes += len(data)


class FileSink:
    """Sink for a file, which appears, or replaces the old one, once it is complete."""

    parts = 1

    def __init__(self, path: str, compression: str | None = None) -> None:
        """Open a temporary file beside `path`. Raises `OutputUnwritable` and `ExtraMissing`."""
        # A link is kept, and the file that it leads to is replaced.
        self._path = Path(os.path.realpath(path))
        self.bytes = 0
        compression = compression or compression_of_name(path)
        try:
            # A temporary file is readable by its owner alone; rows may be confidential.
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed by finish and abandon
                dir=self._path.parent, prefix=f".{self._path.name[:80]}.", delete=False
            )
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._out = open_compressor(self._file.file, compression)
        except ExtraMissing:
            self.abandon()
            raise

    def write(self, lines: Sequence[str]) -> None:
        """Write lines to the temporary file."""
        try:
            self._out.write(encode_lines(lines))
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        """Rename the temporary file, with the permissions of the old file, or for its owner."""
        temporary = Path(self._file.name)
        try:
            self._out.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self.bytes = os.fstat(self._file.fileno()).st_size
            self._file.close()
            temporary.chmod(self._mode())
            temporary.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from None

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
            # Items may be confidential: others are let in by who owns the file.
            return 0o600

    def _unwritable(self, error: OSError) -> OutputUnwritable:
        return OutputUnwritable(f"{self._path}: {error.strerror}")
