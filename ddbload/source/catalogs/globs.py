"""Patterns of names: `in/*.csv`, `in/**/part-?.json`, `logs/2026-0[1-6]/*`.

`*` and `?` match characters within one folder, `[..]` one of several characters, `[!..]` any
other, and `**` anything, folders included; `a/**/b` matches `a/b`, too. S3 keys and paths follow
the same rules, and case matters.
"""

from __future__ import annotations

import re

from ddbload.errors import InvalidPayload

_WILDCARD = re.compile(r"[*?\[]")
MAX_PATTERN = 4096
"""Characters of a pattern: as many as a path has on Linux, and four times an S3 key's bytes."""


def has_wildcards(text: str) -> bool:
    """Tell whether a name contains `*`, `?` or `[`."""
    return _WILDCARD.search(text) is not None


class Glob:
    """Compiled pattern. Raises `InvalidPayload` for a range in reverse order, or a long pattern."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise InvalidPayload(
                f"the pattern has {len(pattern):,} characters, and may have {MAX_PATTERN:,}"
            )
        self.pattern = pattern
        found = _WILDCARD.search(pattern)
        self.prefix = pattern if found is None else pattern[: found.start()]
        """Common beginning of all matching names."""
        self._parts = pattern.split("/")
        self._expression = re.compile(_expression(self._parts), re.DOTALL)
        self._levels = [
            None if "**" in part else re.compile(component(part), re.DOTALL) for part in self._parts
        ]

    def matches(self, name: str) -> bool:
        """Tell whether the pattern matches a whole name."""
        return self._expression.fullmatch(name) is not None

    def may_match_in(self, folder: str) -> bool:
        """Tell whether a name below a folder could match. `folder` ends with `/`."""
        names = folder.split("/")[:-1]
        for name, level in zip(names, self._levels, strict=False):
            if level is None:
                return True
            if level.fullmatch(name) is None:
                return False
        return len(names) < len(self._levels)

    def includes_hidden(self, name: str) -> bool:
        """Tell whether the pattern's component for the last one of `name` begins with a dot."""
        position = name.rstrip("/").count("/")
        part = self._parts[position] if name.endswith("/") and position < len(self._parts) else ""
        return (part or self._parts[-1]).startswith(".")


def component(text: str) -> str:
    """Translate one component of a pattern, without `/` and `**`, into a regular expression."""
    return _component_pieces(text)[0]


def _component_pieces(text: str) -> list[str]:
    """Translate what stands around each `**` of a component into regular expressions."""
    fixed, stars = _tokens(text)
    pieces = [fixed[0]]
    for position, (star, after) in enumerate(zip(stars, fixed[1:], strict=True)):
        if star > 1:
            pieces.append(after)
        elif position < len(stars) - 1:
            # The shortest match is as good as any, because the next star matches the rest. The
            # atomic group prevents backtracking in exponential time.
            pieces[-1] += f"(?>[^/]*?{after})"
        else:
            pieces[-1] += "[^/]*" + after
    return pieces


def _expression(parts: list[str]) -> str:
    """Translate a whole pattern into a regular expression that backtracks over one `**` only.

    What stands between two `**` is matched where it ends first, which leaves the second one most
    to choose from. So it is an atomic group, and several `**` take no more time than one.
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


def _tokens(text: str) -> tuple[list[str], list[int]]:
    """Split a component at its stars: expressions around them, and the length of each run."""
    fixed, stars = [""], []
    position = 0
    while position < len(text):
        character = text[position]
        # A `]` right after `[` or `[!` is one of the characters, as in a shell.
        first = position + 1 + text.startswith("!", position + 1)
        close = text.find("]", first + 1) if character == "[" else -1
        if character == "*":
            count = len(text) - position - len(text[position:].lstrip("*"))
            position += count - 1
            stars.append(count)
            fixed.append("")
        elif character == "?":
            fixed[-1] += "[^/]"
        elif close >= 0:
            fixed[-1] += _one_of(text[first:close], wanted=first == position + 1)
            position = close
        else:
            fixed[-1] += re.escape(character)
        position += 1
    return fixed, stars


def _one_of(characters: str, *, wanted: bool) -> str:
    ranges = re.findall(r"(.)-(.)|(.)", characters, re.DOTALL)
    made = ""
    for low, high, single in ranges:
        if high < low:
            raise InvalidPayload(f"the pattern [{characters}] has a range that goes backwards")
        made += re.escape(single) if single else f"{re.escape(low)}-{re.escape(high)}"
    return f"(?!/)[{'' if wanted else '^'}{made}]"
