"""Tells whether the first row of a file looks like a header, by the rows below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

COMPARED_ROWS = 50
"""Rows that a header is compared with."""
_TITLE_ROWS = 10
"""Rows below the first one among which the header may be, if the first one is a title."""
_HEADER_ROWS = 5
"""Rows of names, one below the other, of which the last and fullest one is taken."""

_NUMBER = re.compile(r"\s*[-+]?[$€£]?\s*(?:\d[\d.,' ]*|[.,]\d+)(?:[eE][-+]?\d+)?\s*%?\s*")
_TIME = re.compile(r"\s*\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:[ T]\d{1,2}:\d\d[\d:.Z+-]*)?\s*")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "\\n"}


@dataclass(frozen=True, slots=True)
class HeaderEvidence:
    """Evidence for and against a first row that is taken for a header."""

    looks_like_data: bool
    why: str
    """Reason in words; holds nothing of the file."""
    contrasts: bool = False
    """True if some column has text in this row, and numbers or dates below it."""


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
        return HeaderEvidence(False, f"{columns} numbers or dates below it, and text in it", True)
    if not rows:
        return HeaderEvidence(False, "there is no row to compare it with")
    return HeaderEvidence(False, "nothing speaks against it")


def header_below(first: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """Find the row that is the header if a first row with few names is a title.

    Titles are padded with delimiters, and of two rows of names the first one has gaps. None if no
    row below names more columns than the first one.
    """
    named, found, most = filled(first), None, 0
    # The index of rows often has no name.
    least = min(2, len(first) - 1)
    if len(first) - named < least:
        return None
    is_apart = False
    for place, row in enumerate(rows[:_TITLE_ROWS]):
        if len(row) != len(first):
            continue
        if found is not None and place - found >= _HEADER_ROWS:
            break
        cells = filled(row)
        is_apart = is_apart or not cells
        gaps = [cell for cell, name in zip(row, first, strict=True) if not name.strip()]
        enough = 1 if named == 1 and is_apart else least
        if filled(gaps) < enough or any(map(_is_no_name, row)):
            continue
        is_title = named == 1 and (len(first) > 2 or is_apart)
        contrasts = header_evidence(row, rows[place + 1 :]).contrasts
        if (contrasts and cells > most) or (is_title and found is None):
            found, most = place, cells
    return found


def filled(row: Sequence[str]) -> int:
    """Count the cells that are not empty."""
    return sum(bool(cell.strip()) for cell in row)


def _is_no_name(cell: str) -> bool:
    text = cell.strip()
    return bool(text) and (text.lower() in _MISSING or _is_value(text))


def _is_value(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _TIME.fullmatch(text) is not None


def _is_typed(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers or dates, but for missing ones."""
    present = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    return bool(present) and all(map(_is_value, present))
