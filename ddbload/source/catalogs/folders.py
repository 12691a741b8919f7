"""Local files that a path, a folder or a pattern names."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddbload.errors import SourceNotFound, SourceUnreadable
from ddbload.source.catalogs.globs import Glob, has_wildcards
from ddbload.source.missing_source import missing_file

MAX_PATHS = 16
"""Paths by which symbolic links may lead to one folder; its files are found by each of them. Links
to folders of links would make millions."""


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

    A single file is returned without a check. Symbolic links are followed, as
    `find -L` does, up to `MAX_PATHS` times to one folder. Raises
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
    for path, size in _files(base, glob, found):
        if size:
            found.files.append(path)
        else:
            found.empty.append(path)
    found.files.sort(key=os.fsencode)
    found.empty.sort(key=os.fsencode)
    return found


_Folder = tuple[int, int]
"""Device and inode of a folder."""


def _files(base: str, glob: Glob | None, found: FolderFiles) -> Iterator[tuple[str, int]]:
    paths: Counter[_Folder] = Counter()
    # Not by recursion: folders may be nested more deeply than Python's functions.
    left: list[tuple[str, frozenset[_Folder]]] = [(base, frozenset())]
    while left:
        folder, above = left.pop()
        try:
            status = os.stat(folder or ".")  # noqa: PTH116
            names = os.listdir(folder or ".")  # noqa: PTH208
        except FileNotFoundError:
            # Only the fixed beginning of a pattern can be missing.
            continue
        except OSError as error:
            raise SourceUnreadable(f"{folder}: {error.strerror}") from None
        here = (status.st_dev, status.st_ino)
        if here in above:
            raise SourceUnreadable(
                f"{folder}: a symbolic link leads back to a folder that it is in; remove the link"
            )
        paths[here] += 1
        if paths[here] > MAX_PATHS:
            raise SourceUnreadable(
                f"{folder}: symbolic links lead to this folder by more than {MAX_PATHS} paths;"
                " remove links, or list the files in a manifest"
            )
        inner = above | {here}
        for name in names:
            kind, size = _status(folder + name)
            is_folder = stat.S_ISDIR(kind)
            path = f"{folder}{name}/" if is_folder else folder + name
            is_wanted = glob is None or (
                glob.may_match_in(path) if is_folder else glob.matches(path)
            )
            if not is_wanted:
                continue
            if name.startswith(".") and not (glob is not None and glob.includes_hidden(path)):
                found.hidden += 1
            elif is_folder:
                left.append((path, inner))
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
