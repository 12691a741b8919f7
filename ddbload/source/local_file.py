"""Standard input, put on disk: only a file can be read in ranges."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ddbload.errors import SourceChanged, SourceNotFound, SourceUnreadable

STREAM, MENDED = "ddbload-stdin-", "ddbload-retry-"
"""What the names of temporary files begin with that are read as sources: copies of standard input
or of a pipe, and rows of mended rejects."""


def is_closed_stream(path: str) -> bool:
    """Whether this was such a file, and is removed."""
    return Path(path).name.startswith((STREAM, MENDED)) and not Path(path).exists()


def spool_to_disk(stream: BinaryIO) -> str:
    """Copy a stream to a temporary file; its path. The caller removes it.

    Raises `SourceUnreadable`, for a full disk too.
    """
    try:
        with tempfile.NamedTemporaryFile(prefix=STREAM, delete=False) as file:
            try:
                shutil.copyfileobj(stream, file, 1024 * 1024)
                file.flush()
            except BaseException:
                Path(file.name).unlink()
                raise
            return file.name
    except OSError as error:
        raise SourceUnreadable(f"standard input: {error.strerror}") from None


class LocalFile:
    """A regular file, pinned by size, times of change and inode."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._status = os.fstat(descriptor)
        self._ctime_ns, self._links = self._status.st_ctime_ns, self._status.st_nlink

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return self._path

    @property
    def size(self) -> int:
        """Bytes."""
        return self._status.st_size

    @property
    def pinned(self) -> Mapping[str, Any]:
        """Path, size, times of change and inode.

        `ctime_ns` says of an edit in place that set the other time back.
        """
        status = self._status
        return {
            "path": str(Path(self._path).absolute()),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "ctime_ns": status.st_ctime_ns,
            "inode": status.st_ino,
        }

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """The bytes of a range. Raises `SourceChanged`, also after the last piece."""
        position = start
        while position < end:
            try:
                piece = os.pread(self._descriptor, min(piece_bytes, end - position), position)
            except OSError as error:
                raise SourceUnreadable(f"{self._path}: {error.strerror}") from None
            if not piece:
                raise self._changed()
            # Before the bytes are used: after it, what was read is of the pinned version.
            self._check()
            position += len(piece)
            yield piece

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _check(self) -> None:
        now, then = os.fstat(self._descriptor), self._status
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            raise self._changed()
        if now.st_ctime_ns != self._ctime_ns:
            # A name that is given to the file, or taken from it, changes this time, and no content.
            if now.st_nlink == self._links:
                raise self._changed()
            self._ctime_ns, self._links = now.st_ctime_ns, now.st_nlink

    def _changed(self) -> SourceChanged:
        return SourceChanged(
            f"{self._path} was changed while it was being imported; start again with a file that"
            " stays as it is"
        )


def open_local(path: str, pinned: Mapping[str, Any] | None = None) -> LocalFile:
    """Open a regular file, the `pinned` version of it where one is given.

    Raises `SourceNotFound`, `SourceUnreadable` and `SourceChanged`.
    """
    # Not blocking: to open a pipe would wait for its writer, before it can be refused.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        if is_closed_stream(path):
            raise SourceNotFound(
                "the run's input was a temporary copy, of standard input, a pipe or mended rejects,"
                " and is gone: import it anew, under another run id"
            ) from None
        raise SourceNotFound(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise SourceUnreadable(f"{path}: {_why_not(error)}") from None
    try:
        _require_regular(path, descriptor)
        source = LocalFile(path, descriptor)
        if pinned is not None and not _is_version(source.pinned, pinned):
            raise SourceChanged(
                f"{path} is not the file that this run began with (another size, time of change"
                " or inode); start a new run for it"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return source


def _is_version(found: Mapping[str, Any], pinned: Mapping[str, Any]) -> bool:
    """Compare a file with what was pinned. Earlier versions did not pin `ctime_ns`."""
    return dict(found) == {"ctime_ns": found["ctime_ns"], **pinned}


def _why_not(error: OSError | ValueError) -> str | None:
    """Say why a path cannot be opened. Python's own words for a ValueError change by version."""
    if isinstance(error, OSError):
        return error.strerror
    if isinstance(error, UnicodeEncodeError):
        encoding = sys.getfilesystemencoding()
        return f"the path has a character that names of files here cannot have ({encoding})"
    return "the path has a NUL character in it, which no file's name can have"


def _require_regular(path: str, descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise SourceUnreadable(f"{path} is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise SourceUnreadable(f"{path} is no regular file; pipe it in, and name '-'")
