"""Standard input, put on disk: only a file can be read in ranges."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from ddbload.errors import SourceUnreadable

_PREFIX = "ddbload-stdin-"


def is_gone(path: str) -> bool:
    """Whether this was the copy of standard input or of a pipe, and is removed."""
    return Path(path).name.startswith(_PREFIX) and not Path(path).exists()


def spool(stream: BinaryIO) -> str:
    """Copy a stream to a temporary file; its path. The caller removes it.

    Raises `SourceUnreadable`, for a full disk too.
    """
    try:
        with tempfile.NamedTemporaryFile(prefix=_PREFIX, delete=False) as file:
            try:
                shutil.copyfileobj(stream, file, 1024 * 1024)
                file.flush()
            except BaseException:
                Path(file.name).unlink()
                raise
            return file.name
    except OSError as error:
        raise SourceUnreadable(f"standard input: {error.strerror}") from None
