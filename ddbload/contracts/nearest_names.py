"""Find the name that was likely meant by one that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

_COMPARED = 2000
"""Names that are compared at most: an error may take a moment, and not a minute."""
_LONGEST = 200
_ALIKE = 0.6
_WORDS = re.compile(r"[^\W_]+")


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of the names; None if none is similar.

    Similar are names that differ in case or outer spaces, that have the name as a word (`id` and
    `book_id`), or of which most characters are the same.
    """
    # Imported here, because only errors need it.
    from difflib import get_close_matches

    known = {_folded(each): each for each in islice(names, _COMPARED) if 0 < len(each) <= _LONGEST}
    asked = _folded(name)
    if asked in known:
        return known[asked]
    close = get_close_matches(asked[:_LONGEST], known, 1, _ALIKE)
    if close:
        return known[close[0]]
    with_word = [each for folded, each in known.items() if asked in _WORDS.findall(_spaced(folded))]
    return with_word[0] if len(with_word) == 1 else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'NAME'?` for an error message, or nothing."""
    near = nearest_name(name, names)
    return "" if near is None else f"; did you mean {near!r}?"


def _folded(name: str) -> str:
    return name.strip().casefold()


def _spaced(name: str) -> str:
    return name.replace("_", " ")
