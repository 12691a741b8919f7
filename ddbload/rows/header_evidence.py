"""Tells whether the first row of a file looks like a header, by the rows below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

COMPARED_ROWS = 50
"""Rows that a header is compared with."""

_NUMBER = re.compile(r"\s*[-+]?[$€£]?\s*(?:\d[\d.,' ]*|[.,]\d+)(?:[eE][-+]?\d+)?\s*%?\s*")
_TIME = re.compile(r"\s*\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:[ T]\d{1,2}:\d\d[\d:.Z+-]*)?\s*")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "\\n"}


@dataclass(frozen=True, slots=True)
class HeaderEvidence:
    """Evidence for and against a first row that is taken for a header."""

    looks_like_data: bool
    why: str
    """Reason in words; holds nothing of the file."""


def header_evidence(first: Sequence[str], rows: Sequence[Sequence[str]]) -> HeaderEvidence:
    """Compare a first row with rows below it, those with as many fields."""
    rows = [row for row in rows[:COMPARED_ROWS] if len(row) == len(first)]
    named = [place for place, name in enumerate(first) if name.strip()]
    plain = [place for place in named if _is_value(first[place])]
    if named and len(plain) == len(named):
        return HeaderEvidence(True, "each of its fields is a number or a date")
    typed = [place for place in named if _is_typed([row[place] for row in rows])]
    differ = [place for place in typed if place not in plain]
    if typed and not differ:
        return HeaderEvidence(True, "its fields have the types of the rows below")
    again = [
        place
        for place in named
        if place not in typed and sum(row[place] == first[place] for row in rows) > 1
    ]
    if again and 2 * len(again) >= len(named) - len(typed) and not differ:
        return HeaderEvidence(True, "its fields stand in the rows below, too")
    if differ:
        columns = "1 column has" if len(differ) == 1 else f"{len(differ)} columns have"
        return HeaderEvidence(False, f"{columns} numbers or dates below it, and text in it")
    if not rows:
        return HeaderEvidence(False, "there is no row to compare it with")
    return HeaderEvidence(False, "nothing speaks against it")


def _is_value(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _TIME.fullmatch(text) is not None


def _is_typed(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers or dates, but for missing ones."""
    present = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    return bool(present) and all(map(_is_value, present))
