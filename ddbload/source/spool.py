"""Standard input, put on disk: only a file can be read in ranges."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from ddbload.errors import SourceUnreadable

STREAM, MENDED = "ddbload-stdin-", "ddbload-retry-"
"""What the names of temporary files begin with that are read as sources: copies of standard input
or of a pipe, and rows of mended rejects."""


def is_gone(path: str) -> bool:
    """Whether this was such a file, and is removed."""
    return Path(path).name.startswith((STREAM, MENDED)) and not Path(path).exists()


def spool(stream: BinaryIO) -> str:
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
