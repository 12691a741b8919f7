"""Files that a command opens: a copy of its standard input, and that of its rejects."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ddbload.cli.output import print_stderr
from ddbload.cli.payload import is_pipe
from ddbload.errors import (
    Cancelled,
    InvalidUsage,
    SourceUnreadable,
)
from ddbload.runs.run_status import HeartbeatWriter
from ddbload.source.local_file import PIPE_PREFIX, spool_to_disk


def require_not_stopped(heart: HeartbeatWriter) -> None:
    """Raise `Cancelled` if the run was cancelled, and `RunUnderWay` if another works on it."""
    heart.raise_overtaken()
    if heart.cancelled:
        raise Cancelled("the run was cancelled while its input was copied; nothing was imported")


@contextmanager
def spooled(payload: dict[str, Any], heart: HeartbeatWriter | None = None) -> Iterator[None]:
    """Copy standard input or a pipe to a temporary file, and read the source from there.

    `heart` writes heartbeats while it is copied. Raises `SourceUnreadable`, `Cancelled` if the run
    was cancelled meanwhile, and `RunUnderWay` if another process works on it.
    """

    def check() -> None:
        if heart is not None:
            require_not_stopped(heart)

    source = payload["source"].get("path")
    if source == "-":
        # A closed standard input is an error, not an empty file.
        if sys.stdin is None:
            raise SourceUnreadable("standard input is closed")
        if sys.stdin.isatty():
            print_stderr(
                "ddbload: reading rows from the terminal until Ctrl-D; name a file to read that"
            )
        with _beating(heart):
            path = spool_to_disk(sys.stdin.buffer, check)
    elif source is not None and is_pipe(source):
        try:
            pipe = open(source, "rb")  # noqa: PTH123, SIM115 - closed below
        except OSError as error:
            raise SourceUnreadable(f"{source}: {error.strerror}") from None
        with pipe, _beating(heart):
            path = spool_to_disk(pipe, check, prefix=PIPE_PREFIX)
    else:
        yield
        return
    try:
        payload["source"]["path"] = path
        yield
    finally:
        Path(path).unlink(missing_ok=True)


@contextmanager
def _beating(heart: HeartbeatWriter | None) -> Iterator[None]:
    """Write heartbeats from now on: copying may last for hours, and the run is known already."""
    with heart or nullcontext():
        if heart is not None:
            heart.beat()
        yield


@contextmanager
def rejects_file(path: str | None, sources: Sequence[str]) -> Iterator[BinaryIO | None]:
    """Open the file for rejects before the import, so that a wrong path is reported at once.

    It is not emptied here: earlier rejects stay until this run has a result.
    """
    if path is None:
        yield None
        return
    if any(same_file(path, source) for source in sources):
        raise InvalidUsage(f"--rejects {path} is the source itself")
    try:
        # Rejects quote rows: a new file is for its owner alone.
        file = open(path, "ab", opener=private_file)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidUsage(f"--rejects {path}: {error.strerror}") from None
    try:
        yield file
    finally:
        # A failed write was reported before.
        with suppress(OSError):
            file.close()


def same_file(path: str, source: str) -> bool:
    """Tell whether a path names the source, if that is a regular file."""
    try:
        return stat.S_ISREG(os.stat(source).st_mode) and Path(path).samefile(source)  # noqa: PTH116 - as in is_pipe
    except (OSError, ValueError):
        return False


def private_file(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
