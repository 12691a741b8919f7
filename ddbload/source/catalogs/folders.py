"""Local files that a path, a folder or a pattern names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddbload.errors import SourceNotFound, SourceUnreadable
from ddbload.source.catalogs.globs import Glob, has_wildcards
from ddbload.source.missing_source import missing_file


@dataclass(slots=True)
class FolderFiles:
    """Paths sorted by bytes, as S3 sorts keys, and the files that were left out."""

    files: list[str] = field(default_factory=list)
    hidden: int = 0
    """Count of files and folders left out because their names begin with a dot."""
    empty: list[str] = field(default_factory=list)
    """Paths of empty files."""


def find_files(path: str) -> FolderFiles:
    """Find one file, all files below a folder, or those that match a pattern.

    A single file is returned without a check. Symbolic links are followed. Raises
    `SourceNotFound` if no file is left, `SourceUnreadable` and `InvalidPayload`.
    """
    if os.path.isdir(path):  # noqa: PTH112
        found = _collect(path.rstrip("/") + "/" if path.strip("/") else "/", None)
    elif os.path.lexists(path) or not has_wildcards(path):
        # Opening it reports what is wrong with it.
        return FolderFiles([path])
    else:
        glob = Glob(path)
        found = _collect(glob.prefix[: glob.prefix.rfind("/") + 1], glob)
    if found.files:
        return found
    left_out = [
        f"{count} {what}"
        for count, what in ((len(found.empty), "empty"), (found.hidden, "hidden"))
        if count
    ]
    if left_out:
        raise SourceNotFound(f"{path}: no file to import (left out: {', '.join(left_out)})")
    if os.path.isdir(path):  # noqa: PTH112
        raise SourceNotFound(f"{path}: no file to import; the folder is empty")
    raise missing_file(path, "no file to import")


def _collect(base: str, glob: Glob | None) -> FolderFiles:
    found = FolderFiles()
    for path, size in _files(base, glob, found, frozenset()):
        if size:
            found.files.append(path)
        else:
            found.empty.append(path)
    found.files.sort(key=os.fsencode)
    found.empty.sort(key=os.fsencode)
    return found


def _files(
    folder: str, glob: Glob | None, found: FolderFiles, above: frozenset[tuple[int, int]]
) -> Iterator[tuple[str, int]]:
    try:
        status = os.stat(folder or ".")  # noqa: PTH116
        names = os.listdir(folder or ".")  # noqa: PTH208
    except FileNotFoundError:
        # Only the fixed beginning of a pattern can be missing.
        return
    except OSError as error:
        raise SourceUnreadable(f"{folder}: {error.strerror}") from None
    here = (status.st_dev, status.st_ino)
    if here in above:
        raise SourceUnreadable(f"{folder}: a symbolic link leads back to a folder that it is in")
    for name in names:
        kind, size = _status(folder + name)
        is_folder = stat.S_ISDIR(kind)
        path = f"{folder}{name}/" if is_folder else folder + name
        if glob is not None and not (glob.may_match_in(path) if is_folder else glob.matches(path)):
            continue
        if name.startswith(".") and not (glob is not None and glob.includes_hidden(path)):
            found.hidden += 1
        elif is_folder:
            yield from _files(path, glob, found, above | {here})
        elif stat.S_ISREG(kind):
            yield path, size
        else:
            raise SourceUnreadable(f"{path} is not a regular file; move it elsewhere")


def _status(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        raise SourceUnreadable(f"{path}: {error.strerror}") from None
    return status.st_mode, status.st_size
