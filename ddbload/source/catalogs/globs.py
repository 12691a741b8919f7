"""Patterns of names: `in/*.csv`, `in/**/part-?.json`, `logs/2026-0[1-6]/*`.

`*` and `?` stand for characters within one folder, `[..]` for one of several (`[!..]` for
one of all others), and `**` for anything, folders too; `a/**/b` matches `a/b` as well. Keys
of S3 and paths are matched alike, and by case.
"""

from __future__ import annotations

import re

from ddbload.errors import InvalidPayload

_WILDCARD = re.compile(r"[*?\[]")


def has_wildcards(text: str) -> bool:
    """Whether there is anything in it that could stand for something else."""
    return _WILDCARD.search(text) is not None


class Glob:
    """One pattern. Raises `InvalidPayload` for a range that goes backwards."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        found = _WILDCARD.search(pattern)
        self.prefix = pattern if found is None else pattern[: found.start()]
        """What every name that matches begins with."""
        self._parts = pattern.split("/")
        self._expression = re.compile(_expression(self._parts), re.DOTALL)
        self._levels = [
            None if "**" in part else re.compile(component(part), re.DOTALL) for part in self._parts
        ]

    def matches(self, name: str) -> bool:
        """Whether the whole name is one of these."""
        return self._expression.fullmatch(name) is not None

    def may_be_in(self, folder: str) -> bool:
        """Whether a name in this folder, or below it, could match. `folder` ends with `/`."""
        names = folder.split("/")[:-1]
        for name, level in zip(names, self._levels, strict=False):
            if level is None:
                return True
            if level.fullmatch(name) is None:
                return False
        return len(names) < len(self._levels)

    def asks_for_hidden(self, name: str) -> bool:
        """Whether the pattern itself begins the last part of this name with a dot."""
        place = name.rstrip("/").count("/")
        part = self._parts[place] if name.endswith("/") and place < len(self._parts) else ""
        return (part or self._parts[-1]).startswith(".")


def component(text: str) -> str:
    """The regular expression of what stands between two `/`."""
    fixed, stars = _tokens(text)
    made = fixed[0]
    for place, (star, after) in enumerate(zip(stars, fixed[1:], strict=True)):
        if star > 1:
            made += ".*" + after
        elif place < len(stars) - 1 and stars[place + 1] == 1:
            # The first place that fits is as good as any: the rest is left to the next star.
            made += f"(?>[^/]*?{after})"
        else:
            made += "[^/]*" + after
    return made


def _expression(parts: list[str]) -> str:
    made = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            made += ".*" if last else "(?:.*/)?"
        else:
            made += component(part) + ("" if last else "/")
    return made


def _tokens(text: str) -> tuple[list[str], list[int]]:
    """The expressions of what stands before, between and after stars; and how many stars."""
    fixed, stars = [""], []
    place = 0
    while place < len(text):
        character = text[place]
        # A bracket right after the first one, or after its `!`, is one of those meant.
        first = place + 1 + text.startswith("!", place + 1)
        close = text.find("]", first + 1) if character == "[" else -1
        if character == "*":
            count = len(text) - place - len(text[place:].lstrip("*"))
            place += count - 1
            stars.append(count)
            fixed.append("")
        elif character == "?":
            fixed[-1] += "[^/]"
        elif close >= 0:
            fixed[-1] += _one_of(text[first:close], wanted=first == place + 1)
            place = close
        else:
            fixed[-1] += re.escape(character)
        place += 1
    return fixed, stars


def _one_of(characters: str, *, wanted: bool) -> str:
    ranges = re.findall(r"(.)-(.)|(.)", characters, re.DOTALL)
    made = ""
    for low, high, single in ranges:
        if high < low:
            raise InvalidPayload(f"the pattern [{characters}] has a range that goes backwards")
        made += re.escape(single) if single else f"{re.escape(low)}-{re.escape(high)}"
    return f"(?!/)[{'' if wanted else '^'}{made}]"
