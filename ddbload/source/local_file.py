"""Local files as byte sources; standard input is copied to a temporary file."""

from __future__ import annotations

import io
import os
import re
import select
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ddbload.errors import SourceChanged, SourceNotFound, SourceUnreadable, nearest_name

STDIN_PREFIX, PIPE_PREFIX = "ddbload-stdin-", "ddbload-pipe-"
"""File name prefixes of temporary copies of standard input and of a pipe."""
CHECK_SECONDS = 0.5
"""Seconds between checks whether a copy should continue."""
PIECE_BYTES = 1024 * 1024
OPEN_FILE_PREFIX, ROWS_PREFIX = "ddbload-file-", "ddbload-rows-"
"""File name prefixes of temporary copies of an open file and of rows that Python gave."""
RETRY_PREFIX = "ddbload-retry-"
"""File name prefix of temporary files with rows of corrected rejects."""
_COPIES = {
    STDIN_PREFIX: "standard input",
    PIPE_PREFIX: "the pipe",
    OPEN_FILE_PREFIX: "the open file",
    ROWS_PREFIX: "the rows",
    RETRY_PREFIX: "the file of mended rejects",
}
"""Names of the inputs that temporary files are copies of, by file name prefix."""


def is_removed_copy(path: str) -> bool:
    """Return whether a path is that of a temporary copy that was removed."""
    return path == "-" or (Path(path).name.startswith(tuple(_COPIES)) and not Path(path).exists())


def name_for_user(path: str) -> str:
    """Return a file's path, or for a temporary copy the name of its input."""
    if path == "-":
        # The copy is incomplete.
        path = STDIN_PREFIX
    prefix = next((each for each in _COPIES if Path(path).name.startswith(each)), None)
    return path if prefix is None else _COPIES[prefix]


def is_pipe(path: str) -> bool:
    """Return whether a path is a pipe or a device, which can be read only once."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def spool_to_disk(
    stream: BinaryIO, check: Callable[[], None] = lambda: None, *, prefix: str = STDIN_PREFIX
) -> str:
    """Copy a stream to a temporary file and return its path. The caller removes the file.

    A copy is needed because only a file can be read in ranges. `check` is called twice a second,
    even while no data arrives; an exception that it raises ends the copy. Raises
    `SourceUnreadable`, also for a full disk, and for an endless device such as /dev/zero.
    """
    _refuse_device(stream)
    try:
        with tempfile.NamedTemporaryFile(prefix=prefix, delete=False) as file:
            try:
                for piece in _pieces(stream, check):
                    file.write(piece)
                file.flush()
            except BaseException:
                Path(file.name).unlink()
                raise
            return file.name
    except OSError as error:
        raise SourceUnreadable(f"{_COPIES[prefix]}: {error.strerror}") from None


def _pieces(stream: BinaryIO, check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the bytes of a stream as they arrive, and call `check` meanwhile."""
    read, waited_for = stream.read, list[int]()
    # Others may hold bytes back, for which a wait would have no end.
    if isinstance(stream, io.BufferedReader):
        with suppress(OSError, ValueError):
            waited_for = [stream.fileno()]
            # It returns the bytes available; `read` would wait for the full size.
            read = stream.read1
    check_at = time.monotonic() + CHECK_SECONDS
    while True:
        is_ready = not waited_for or select.select(waited_for, [], [], CHECK_SECONDS)[0]
        if time.monotonic() >= check_at:
            check()
            check_at = time.monotonic() + CHECK_SECONDS
        if not is_ready:
            continue
        piece = read(PIECE_BYTES)
        if not piece:
            return
        yield piece


def _refuse_device(stream: BinaryIO) -> None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        # Not a file of the system's.
        return
    is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    if not is_device or stream.isatty() or status.st_rdev == Path(os.devnull).stat().st_rdev:
        return
    raise SourceUnreadable("the source is a device, which may never end; name a file or pipe it in")


class LocalFile:
    """Regular file, pinned by its size, mtime, ctime and inode."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._status = os.fstat(descriptor)
        self.name = name_for_user(path)
        """Path as given by the user, or the name of the input that the file is a copy of."""
        self.size = self._status.st_size
        """Size in bytes."""
        self._ctime_ns, self._links = self._status.st_ctime_ns, self._status.st_nlink

    @property
    def pinned(self) -> Mapping[str, Any]:
        """Resolved path, size, mtime, ctime and inode.

        The ctime reveals an edit in place after which the mtime was reset.
        """
        status = self._status
        return {
            "path": os.path.realpath(self._path),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "ctime_ns": status.st_ctime_ns,
            "inode": status.st_ino,
        }

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range. Raises `SourceChanged`, and never yields bytes of a changed file."""
        position = start
        while position < end:
            try:
                piece = os.pread(self._descriptor, min(piece_bytes, end - position), position)
            except OSError as error:
                raise SourceUnreadable(f"{self.name}: {error.strerror}") from None
            if not piece:
                raise self._changed()
            # Checked after the read and before the bytes are used, so that no changed byte is used.
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
            # Adding or removing a hard link changes the ctime, but not the content.
            if now.st_nlink == self._links:
                raise self._changed()
            self._ctime_ns, self._links = now.st_ctime_ns, now.st_nlink

    def _changed(self) -> SourceChanged:
        return SourceChanged(
            f"{self.name} was changed while it was being imported; start again with a file that"
            " stays as it is"
        )


def open_local(path: str, pinned: Mapping[str, Any] | None = None) -> LocalFile:
    """Open a regular file, or only its `pinned` version if given.

    Raises `SourceNotFound`, `SourceUnreadable` and `SourceChanged`.
    """
    # Opened without blocking: opening a pipe would wait for a writer before it can be refused.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        if is_removed_copy(path):
            raise SourceNotFound(
                "the run's input was a temporary copy, of standard input, a pipe or mended rejects,"
                " and is gone: import it anew, under another run id"
            ) from None
        raise missing_file(path) from None
    except PermissionError as error:
        raise SourceUnreadable(
            f"{path}: {error.strerror}; its permissions, or its folder's, do not let you read it"
        ) from None
    except (OSError, ValueError) as error:
        raise SourceUnreadable(f"{path}: {_open_error(error)}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise SourceUnreadable(f"{path} is a folder; name a file in it")
        if not stat.S_ISREG(mode):
            raise SourceUnreadable(f"{path} is not a regular file; pipe it in, and name '-'")
        source = LocalFile(path, descriptor)
        if pinned is not None and source.pinned != dict(pinned):
            raise SourceChanged(
                f"{path} is not the file that this run began with (another size, time of change"
                " or inode); start a new run for it"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return source


def _open_error(error: OSError | ValueError) -> str | None:
    """Explain why a path cannot be opened; None for unknown errors.

    Python's own texts of a ValueError vary by version.
    """
    if isinstance(error, OSError):
        return error.strerror
    if isinstance(error, UnicodeEncodeError):
        encoding = sys.getfilesystemencoding()
        return f"the path has a character that file names here cannot have ({encoding})"
    return "the path has a NUL character, which no file name can have"


# Files that do not exist.

MAX_COMPARED = 1000
"""Maximum entries of a folder, or objects of a prefix, compared with a missing name."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"


def missing_file(path: str, what: str = "no such file") -> SourceNotFound:
    """Return the error for a path that does not exist, with a suggestion of a similar one."""
    return SourceNotFound(f"{path}: {what}{_advice(path)}")


def _advice(path: str) -> str:
    if path[:1] in _QUOTES and path[-1:] in _QUOTES:
        return "; the quotes are part of the name: leave them out"
    if path.startswith("~"):
        return "; the shell replaces ~ only outside quotes: leave them out, or write the whole path"
    if path != path.strip() and os.path.exists(path.strip()):  # noqa: PTH110
        return "; there is one without the spaces around it"
    if _DRIVE.match(path) or ("\\" in path and "/" not in path):
        return (
            "; this is a path of Windows: write it as Linux and macOS do, such as"
            " /mnt/c/data/books.csv in WSL"
        )
    folder, name = os.path.split(path)
    try:
        names = [each.name for each in islice(os.scandir(folder or "."), MAX_COMPARED)]
    except OSError:
        return f"; there is no folder {folder} either" if folder else ""
    near = nearest_file(name, names)
    return "" if near is None else f"; did you mean {os.path.join(folder, near)!r}?"  # noqa: PTH118


def nearest_file(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar file name, first compared without suffixes; else None."""
    by_stem: dict[str, list[str]] = {}
    for each in sorted(names):
        by_stem.setdefault(each.partition(".")[0], []).append(each)
    stem = nearest_name(name.partition(".")[0], by_stem)
    if stem is None:
        return None
    return nearest_name(name, by_stem[stem]) or by_stem[stem][0]
