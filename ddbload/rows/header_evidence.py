"""Judge whether a row of a text file is its header, and find rows that may be no data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from ddbload.records import Record

COMPARED_ROWS = 50
"""Number of rows that a header is compared with."""
_TITLE_ROWS = 10
"""Rows below a title in which the header is searched."""
_HEADER_ROWS = 5
"""Maximum consecutive rows of names, of which the last and fullest one is the header."""

_NUMBER = re.compile(r"\s*[-+]?[$€£]?\s*(?:\d[\d.,' ]*|[.,]\d+)(?:[eE][-+]?\d+)?\s*%?\s*")
_TIME = re.compile(r"\s*\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:[ T]\d{1,2}:\d\d[\d:.Z+-]*)?\s*")
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"[^\W\d]+\d+")
"""Codes that are common as names, too: `zone1`."""
COMMENTS = ("#", "//", "--", "%", ";")
"""Common comment marks."""
_LEAST_ROWS, _FOOTER_ROWS = 4, 5
_FOOTER = "if it is a footer and not a row, remove it"
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "\\n"}


class HeaderEvidence(Record):
    """Evidence for and against a header in the first row."""

    looks_like_data: bool
    why: str
    """Reason in words. Quotes nothing of the file."""
    contrasts: bool = False
    """True if some column has text in this row, and numbers or dates below it."""
    decides: bool = True
    """False if the evidence is in a few columns, or also in names."""


def header_evidence(first: Sequence[str], rows: Sequence[Sequence[str]]) -> HeaderEvidence:
    """Compare a first row with the rows below it that have the same number of fields."""
    if "\\N" in first:
        return HeaderEvidence(True, r"a field of it is \N, which stands for no value")
    rows = [row for row in rows[:COMPARED_ROWS] if len(row) == len(first)]
    named = [place for place, name in enumerate(first) if name.strip()]
    plain = [place for place in named if _is_value(first[place])]
    if len(plain) > 1 and _are_scale(first, [first[place] for place in plain]):
        # Years over the columns of a table. Data repeat them, or have other numbers.
        plain = [place for place in plain if any(row[place] == first[place] for row in rows)]
    if named and len(plain) == len(named):
        return HeaderEvidence(True, "each of its fields is a number or a date")
    typed = [place for place in named if _is_typed([row[place] for row in rows])]
    differ = [place for place in typed if place not in plain]
    if differ:
        columns = "1 column has" if len(differ) == 1 else f"{len(differ)} columns have"
        return HeaderEvidence(False, f"{columns} numbers or dates below it, and text in it", True)
    if typed:
        return HeaderEvidence(True, "its fields have the types of the rows below")
    again = [place for place in named if sum(row[place] == first[place] for row in rows) > 1]
    if again and 2 * len(again) >= len(named):
        return HeaderEvidence(True, "its fields stand in the rows below, too")
    same = [place for place in named if _is_code(first[place], [row[place] for row in rows])]
    if same:
        why = "its fields are written as those of the rows below"
        is_name = all(_NUMBERED.fullmatch(first[place]) for place in same)
        return HeaderEvidence(True, why, decides=2 * len(same) > len(named) and not is_name)
    why = "nothing speaks against it" if rows else "there is no row to compare it with"
    return HeaderEvidence(False, why)


def header_below(first: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """Find the header row below a first row that looks like a title; None if there is none.

    Titles are padded with delimiters, and of two rows of names the first one has gaps. A header
    must name more columns than the first row.
    """
    named, found, most = filled(first), None, 0
    # The column of row indexes often has no name.
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


def is_units_row(row: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a row below the header has text in each of several columns of numbers."""
    rows = [each for each in rows[:COMPARED_ROWS] if len(each) == len(row)]
    typed = [p for p in range(len(row)) if len(rows) > 1 and _is_typed([r[p] for r in rows])]
    return len(typed) > 1 and not any(_is_no_name(row[p]) or not row[p].strip() for p in typed)


def _are_scale(first: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether numbers of a first row are years, or count its columns from 0 or 1."""
    if not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    is_rising = all(1 <= b - a <= 10 for a, b in pairwise(numbers))
    is_counted = not first[0].strip() and numbers[0] in (0, 1) and len(numbers) == len(first) - 1
    return is_rising and (1800 < numbers[0] < 2200 or is_counted)


def _is_code(first: str, cells: Sequence[str]) -> bool:
    """Return whether a cell with digits is written as all those below: `A-17` as `B-4`."""
    shapes = {_shape(cell) for cell in cells if cell.strip()}
    return len(cells) > 1 and any(map(str.isdigit, first)) and shapes == {_shape(first)}


def _shape(cell: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("9", cell))


def filled(row: Sequence[str]) -> int:
    """Count the non-empty cells."""
    return sum(bool(cell.strip()) for cell in row)


def _is_no_name(cell: str) -> bool:
    text = cell.strip()
    return bool(text) and (text.lower() in _MISSING or _is_value(text))


def _is_value(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _TIME.fullmatch(text) is not None


def _is_typed(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers or dates, except missing values."""
    present = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    return bool(present) and all(map(_is_value, present))


Rows = Sequence[Sequence[str] | None]


def odd_rows(
    rows: Rows, line: Callable[[int], int], *, apart: Sequence[int], whole: bool
) -> Iterator[str]:
    """Yield warnings of rows that fit the columns and may be none.

    Args:
        rows: Rows from the header on; None for a malformed one.
        line: Function that returns the line in the file of a row, by its number.
        apart: Numbers of the rows below an empty line.
        whole: True if these are all rows of the file.
    """
    if len(rows) < _LEAST_ROWS or not rows[0]:
        return
    if len(rows[0]) == 1:
        yield from _odd_cells(rows, line, apart, whole)
        return
    head = f"line {line(0)}"
    if any(name != name.strip() for name in rows[0]):
        yield f"{head} has names that begin or end with blanks, which are kept (see --rename)"
    if _may_have_row_names(rows):
        names = f"{head} names all columns but the last one, which is empty: if each row begins"
        yield f"{names} with its name, say --skip-lines {line(0)} --columns row,NAMES"
    footer = _footer(rows, len(rows[0])) if whole else 0
    if footer:
        yield f"line {line(footer)} has few values, and every row above more: {_FOOTER}"


def _odd_cells(
    rows: Rows, line: Callable[[int], int], apart: Sequence[int], whole: bool
) -> Iterator[str]:
    """Yield the warnings of a single column."""
    for place, what in (
        (1, f"if it names the column, say --skip-lines {line(1) - 1}"),
        (len(rows) - 1, _FOOTER),
    ):
        if apart == [place] and (whole or place == 1):
            yield f"line {line(place)} is below an empty line: {what}"
    for mark in COMMENTS:
        marked = [n for n, row in enumerate(rows) if n and row and row[0].startswith(f"{mark} ")]
        if 0 < len(marked) <= len(rows) / _LEAST_ROWS:
            what = f"line {line(marked[0])} begins as a comment does"
            yield f"{what}: if it is one, say --comment '{mark}'"


def _may_have_row_names(rows: Rows) -> bool:
    """Return whether each row has a field more than the header, and other names at its start."""
    width = len(rows[0] or ()) + 1
    cells = [row[0] for row in rows[1:] if row and len(row) == width and not row[-1]]
    numbers = [f"{n}" for n in range(1, len(rows))]
    is_text = len(set(cells)) == len(rows) - 1 and not any(map(_is_value, cells))
    return is_text or cells == numbers


def _footer(rows: Rows, width: int) -> int:
    """Return the first of the last rows whose columns are mostly empty, as in no other; or 0."""
    sparse = [row is not None and len(row) == width and 2 * filled(row) < width for row in rows]
    start = sparse.index(True, 1) if any(sparse[1:]) else len(rows)
    if not all(sparse[start:]) or not _LEAST_ROWS <= start >= len(rows) - _FOOTER_ROWS:
        return 0
    return next((n for n in range(start, len(rows)) if filled(rows[n] or ())), 0)
