"""Where converted items go: a stream, or a file that appears when it is whole."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from ddbload.errors import ExtraMissing, OutputUnwritable

COMPRESSIONS = ("gzip", "zstd", "none")
SUFFIXES = {"gzip": ".gz", "zstd": ".zst", "none": ""}
INCOMPLETE = b'{"incomplete": '
"""What a stream ends with that could not be written to its end: no item, and no JSON either."""

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3


class Sink(Protocol):
    """Takes lines: each an item's JSON in octets, without a line end."""

    @property
    def bytes(self) -> int:
        """How many were written, compressed where that is asked for."""

    @property
    def parts(self) -> int:
        """How many files or objects there are. 0 for a stream."""

    def write(self, lines: Sequence[str]) -> None:
        """Take the next lines. Raises `OutputUnwritable`, and AWS's errors."""

    def finish(self) -> None:
        """Show what was written to others: it is whole. Raises as `write`."""

    def abandon(self) -> None:
        """Take away what was written, or see to it that nobody takes it for the whole."""


def encoded(lines: Sequence[str]) -> bytes:
    """Lines as they are written."""
    return "\n".join([*lines, ""]).encode("latin-1")


def compression_named(name: str) -> str:
    """What a file's name says that it is compressed with."""
    lower = name.lower()
    if lower.endswith((".gz", ".gzip")):
        return "gzip"
    return "zstd" if lower.endswith((".zst", ".zstd")) else "none"


def compressing(file: IO[bytes], compression: str) -> Any:
    """A file to write to, whose compressed bytes go to `file`; to be closed before that is.

    The same bytes give the same bytes: nothing tells of a moment. Raises `ExtraMissing`.
    """
    if compression == "gzip":
        return gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)
    if compression == "zstd":
        try:
            import zstandard
        except ImportError:
            raise ExtraMissing(
                "the package that writes Zstandard is not installed: pip install 'ddbload[zstd]',"
                " or have gzip"
            ) from None
        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return compressor.stream_writer(file, closefd=False)
    return _Uncompressed(file)


class _Uncompressed:
    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write

    def close(self) -> None:
        """Whose the file is closes it."""


class StreamSink:
    """A stream that is open, such as standard output. What it has cannot be taken back."""

    parts = 0

    def __init__(self, stream: IO[bytes], name: str, *, own: bool = False) -> None:
        """`own`: whether to close it at the end."""
        self._stream, self._name, self._own = stream, name, own
        self.bytes = 0

    def write(self, lines: Sequence[str]) -> None:
        """Write them at once. Raises `OutputUnwritable`, and `BrokenPipeError` as it is."""
        self._write(encoded(lines))

    def finish(self) -> None:
        """Nothing is held back."""
        self._write(b"")
        if self._own:
            self._stream.close()

    def abandon(self) -> None:
        """Let whoever reads it notice that it is not all."""
        with contextlib.suppress(OutputUnwritable, BrokenPipeError):
            self._write(INCOMPLETE)
        if self._own:
            with contextlib.suppress(OSError):
                self._stream.close()

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._own:
                # What is in its buffer may not fail once more when the process ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OutputUnwritable(f"{self._name}: {error.strerror}") from None
        self.bytes += len(data)


class FileSink:
    """A file, compressed as its name says. It appears, or is replaced, when it is whole."""

    parts = 1

    def __init__(self, path: str, compression: str | None = None) -> None:
        """Raises `OutputUnwritable` and `ExtraMissing`."""
        # What a link leads to is replaced, not the link.
        self._path = Path(os.path.realpath(path))
        self.bytes = 0
        compression = compression or compression_named(path)
        try:
            # Rows are nobody else's business until they are where they were asked for.
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed when it is over
                dir=self._path.parent, prefix=f".{self._path.name[:80]}.", delete=False
            )
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._out = compressing(self._file.file, compression)
        except ExtraMissing:
            self.abandon()
            raise

    def write(self, lines: Sequence[str]) -> None:
        """Write them to a file beside it."""
        try:
            self._out.write(encoded(lines))
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        """Put it in its place, with the permissions of the one it replaces, or of a new one."""
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
        """Remove what was written; what was there before stays."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            Path(self._file.name).unlink()

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(self._path.stat().st_mode)
        except OSError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o666 & ~mask

    def _unwritable(self, error: OSError) -> OutputUnwritable:
        return OutputUnwritable(f"{self._path}: {error.strerror}")
