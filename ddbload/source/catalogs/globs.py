"""File name patterns, and the local files of a path, a folder or a pattern.

Examples of patterns: `in/*.csv`, `in/**/part-?.json`, `logs/2026-0[1-6]/*`.

`*` and `?` match characters other than `/`, `[..]` one of the listed characters, `[!..]` any other
character, and `**` anything including `/`; `a/**/b` also matches `a/b`. S3 keys and local paths
follow the same, case-sensitive rules.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, field

from ddbload.errors import InvalidPayload, SourceNotFound, SourceUnreadable
from ddbload.source.local_file import missing_file

_WILDCARD = re.compile(r"[*?\[]")
MAX_PATTERN = 4096
"""Maximum characters of a pattern: the length of a Linux path, four times that of an S3 key."""


def has_wildcards(text: str) -> bool:
    """Return whether a name contains `*`, `?` or `[`."""
    return _WILDCARD.search(text) is not None


class Glob:
    """Compiled pattern. Raises `InvalidPayload` for a reversed range or a too long pattern."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise InvalidPayload(
                f"the pattern has {len(pattern):,} characters, and may have {MAX_PATTERN:,}"
            )
        self.pattern = pattern
        found = _WILDCARD.search(pattern)
        self.prefix = pattern if found is None else pattern[: found.start()]
        """Prefix shared by all matching names."""
        self._parts = pattern.split("/")
        self._expression = re.compile(_expression(self._parts), re.DOTALL)
        self._levels = [
            None if "**" in part else re.compile(_component_pieces(part)[0], re.DOTALL)
            for part in self._parts
        ]

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a whole name."""
        return self._expression.fullmatch(name) is not None

    def may_match_in(self, folder: str) -> bool:
        """Return whether any name below a folder could match. `folder` ends with `/`."""
        names = folder.split("/")[:-1]
        for name, level in zip(names, self._levels, strict=False):
            if level is None:
                return True
            if level.fullmatch(name) is None:
                return False
        return len(names) < len(self._levels)

    def includes_hidden(self, name: str) -> bool:
        """Return whether the pattern's last component, matched with `name`, begins with a dot."""
        position = name.rstrip("/").count("/")
        part = self._parts[position] if name.endswith("/") and position < len(self._parts) else ""
        return (part or self._parts[-1]).startswith(".")


def _component_pieces(text: str) -> list[str]:
    """Translate the parts of a component around each `**` into regular expressions."""
    fixed, stars = _tokens(text)
    pieces = [fixed[0]]
    for position, (star, after) in enumerate(zip(stars, fixed[1:], strict=True)):
        if star > 1:
            pieces.append(after)
        elif position < len(stars) - 1:
            # The shortest match suffices, because the next star matches the rest. The atomic group
            # prevents exponential backtracking.
            pieces[-1] += f"(?>[^/]*?{after})"
        else:
            pieces[-1] += "[^/]*" + after
    return pieces


def _expression(parts: list[str]) -> str:
    """Translate a whole pattern into a regular expression with linear backtracking.

    The text between two `**` is matched at its first end, which leaves the second `**` the most
    freedom. It can therefore be an atomic group, so that several `**` take no more time than one.
    """
    pieces, gaps = [""], []
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if part == "**":
            # (the shortest first, the longest first)
            gaps.append((".*?", ".*") if last else ("(?:.*?/)??", "(?:.*/)?"))
            pieces.append("")
            continue
        first, *others = _component_pieces(part)
        pieces[-1] += first
        gaps += [(".*?", ".*")] * len(others)
        pieces += others
        pieces[-1] += "" if last else "/"
    if not gaps:
        return pieces[0]
    made = f"(?>{pieces[0]})"
    for (shortest, _), piece in zip(gaps[:-1], pieces[1:-1], strict=True):
        made += f"(?>{shortest}{piece})"
    return made + gaps[-1][1] + pieces[-1]


# As in a shell, a `]` directly after `[` or `[!` is one of the characters.
_TOKEN = re.compile(r"(\*+)|(\?)|\[(!?+)(\][^]]*|[^]]+)\]|(.)", re.DOTALL)


def _tokens(text: str) -> tuple[list[str], list[int]]:
    """Split a component at its stars; return the expressions between, and each run's length."""
    fixed, lengths = [""], []
    for stars, any_one, no, characters, character in _TOKEN.findall(text):
        if stars:
            lengths.append(len(stars))
            fixed.append("")
        elif any_one:
            fixed[-1] += "[^/]"
        elif characters:
            fixed[-1] += _one_of(characters, wanted=not no)
        else:
            fixed[-1] += re.escape(character)
    return fixed, lengths


def _one_of(characters: str, *, wanted: bool) -> str:
    ranges = re.findall(r"(.)-(.)|(.)", characters, re.DOTALL)
    made = ""
    for low, high, single in ranges:
        if high < low:
            raise InvalidPayload(f"the pattern [{characters}] has a range that goes backwards")
        made += re.escape(single) if single else f"{re.escape(low)}-{re.escape(high)}"
    return f"(?!/)[{'' if wanted else '^'}{made}]"


# Folders.

MAX_PATHS = 16
"""Maximum number of paths by which symbolic links may lead to one folder.

Its files are found once by each path; links to folders of links would give millions.
"""


@dataclass(slots=True)
class FolderFiles:
    """Paths sorted by bytes, like S3 keys, and the files that were left out."""

    files: list[str] = field(default_factory=list)
    hidden: int = 0
    """Number of files and folders left out because their names begin with a dot."""
    empty: list[str] = field(default_factory=list)
    """Paths of empty files."""


def find_files(path: str) -> FolderFiles | None:
    """Find all files below a folder, or those that match a pattern; None if `path` is a file.

    A file's name may itself contain wildcards. Symbolic links are followed like in `find -L`, at
    most `MAX_PATHS` times to one folder. Raises `SourceNotFound` if no file is left,
    `SourceUnreadable` and `InvalidPayload`.
    """
    if os.path.isdir(path):  # noqa: PTH112
        found = _collect(path.rstrip("/") + "/" if path.strip("/") else "/", None)
    elif os.path.lexists(path) or not has_wildcards(path):
        return None
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


_Folder = tuple[int, int]
"""Device and inode of a folder."""


def _collect(base: str, glob: Glob | None) -> FolderFiles:
    found = FolderFiles()
    paths: Counter[_Folder] = Counter()
    # Not recursive, because folders may be nested more deeply than Python's recursion limit.
    left: list[tuple[str, frozenset[_Folder]]] = [(base, frozenset())]
    while left:
        folder, above = left.pop()
        try:
            status = os.stat(folder or ".")  # noqa: PTH116
            names = os.listdir(folder or ".")  # noqa: PTH208
        except FileNotFoundError:
            # Only the part of a pattern before its first wildcard can be missing.
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
            try:
                found_there = os.stat(folder + name)  # noqa: PTH116
            except OSError as error:
                raise SourceUnreadable(f"{folder}{name}: {error.strerror}") from None
            kind, size = found_there.st_mode, found_there.st_size
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
                (found.files if size else found.empty).append(path)
            else:
                raise SourceUnreadable(f"{path} is not a regular file; move it elsewhere")
    found.files.sort(key=os.fsencode)
    found.empty.sort(key=os.fsencode)
    return found
