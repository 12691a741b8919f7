"""What a column's texts look like, over all rows: types they would have, and what is odd."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

EXAMPLES = 3
EXAMPLE_LENGTH = 40
LONGEST_ID = 18
"""Digits of a whole number that is surely one to count with; a longer one may be an id."""

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_POINT_ZERO = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_NUMERIC = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_YES_NO = re.compile(r"yes|no|y|n|t|f|0|1", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,}(?:Z|[+-][0-9:]{4,6})?)?")
_JSON = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_MARKERS = frozenset({"null", "none", "na", "n/a", "nan", "nil", "-", "\\n", "#n/a", "undefined"})


class Evidence:
    """Looks at a column's cells, block by block. A question that is answered is not asked again."""

    def __init__(self, nulls: frozenset[str] = frozenset()) -> None:
        """`nulls`: texts that stand for nothing, in octets."""
        self._nulls = nulls
        self.filled = 0
        self.empty = 0
        self.longest = 0
        """Bytes of the longest cell."""
        self.examples: list[str] = []
        self.markers: dict[str, int] = {}
        """Texts that often stand for nothing, and how many there are of each."""
        self._all = {
            "whole": _WHOLE,
            "point_zero": _POINT_ZERO,
            "plain": _PLAIN,
            "numeric": _NUMERIC,
            "boolean": _BOOLEAN,
            "yes_no": _YES_NO,
            "date": _DATE,
            "json": _JSON,
        }
        self.leading_zeros = False
        self.exponents = False
        self._low, self._high = float("inf"), float("-inf")
        self._looked = self._years = 0

    def add(self, cells: Sequence[str]) -> None:
        """Look at cells in octets, in the file's order."""
        if self._nulls and not self._nulls.isdisjoint(cells):
            cells = ["" if cell in self._nulls else cell for cell in cells]
        if not all(cells):
            self.empty += cells.count("")
            cells = [cell for cell in cells if cell]
        if not cells:
            return
        self.filled += len(cells)
        self.longest = max(self.longest, *map(len, cells), 0)
        if len(self.examples) < EXAMPLES:
            self._example(cells)
        # Few texts, many times over, are looked at once.
        seen = set(cells)
        marked = {cell for cell in seen if len(cell) <= 9 and cell.lower() in _MARKERS}
        for cell in marked:
            self.markers[cell] = self.markers.get(cell, 0) + cells.count(cell)
        texts = seen - marked if marked else seen
        for kind, pattern in [*self._all.items()]:
            if not all(map(pattern.fullmatch, texts)):
                del self._all[kind]
        if "numeric" in self._all:
            self._look_at_numbers(texts)

    def _example(self, cells: Sequence[str]) -> None:
        for cell in cells[:200]:
            if cell not in self.examples:
                self.examples.append(cell)
                if len(self.examples) == EXAMPLES:
                    return

    def _look_at_numbers(self, texts: set[str]) -> None:
        for text in texts:
            digits = text.lstrip("+-")
            if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
                self.leading_zeros = True
            if "e" in digits or "E" in digits:
                self.exponents = True
        if "point_zero" in self._all or "whole" in self._all:
            numbers = [float(text) for text in texts]
            self._low = min(self._low, *numbers)
            self._high = max(self._high, *numbers)
            self._looked += len(numbers)
            self._years += sum(1000 <= number <= 2100 for number in numbers)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest number, where all cells are whole ones."""
        return self._low, self._high

    def inferred(self) -> tuple[str, str]:
        """The type that this column's texts would all fit, and why."""
        if not self.filled:
            return "S", "no cell has anything"
        if self.markers:
            return "S", "texts that may stand for nothing are among the cells"
        known = self._all
        if "numeric" in known:
            return self._number()
        if "boolean" in known:
            return "BOOL", "true and false only"
        if "date" in known:
            return "S", "dates (ISO 8601)"
        if "yes_no" in known:
            return "S", "yes and no only; declare BOOL if they are meant so"
        if "json" in known:
            return "S", "JSON; declare M or L if it is meant so"
        return "S", "text"

    def _number(self) -> tuple[str, str]:
        known = self._all
        if self.leading_zeros:
            return "S", "digits with leading zeros: kept as text"
        if "whole" in known:
            if self.longest > LONGEST_ID:
                return "S", f"whole numbers of more than {LONGEST_ID} digits: kept as text"
            return "N", "whole numbers"
        if "point_zero" in known:
            return "N", "numbers that all end in .0"
        if "plain" in known and self.longest <= 38:
            return "N", "numbers"
        if self.exponents:
            return "S", "numbers, some with an exponent: kept as text"
        return "S", "numbers in several spellings: kept as text"

    def notes(self) -> list[str]:
        """What a person should look at."""
        notes: list[str] = []
        known = self._all
        if self.filled and "point_zero" in known and not self.leading_zeros:
            what = "years" if self._all_years() else "whole numbers"
            notes.append(
                f"numbers that all end in .0: {what} that passed through a float? As N they are"
                " stored without it, as S with it"
            )
        if self.filled and "numeric" in known and self.exponents:
            notes.append(
                "numbers with an exponent, as a spreadsheet writes long ones: digits may be lost"
            )
        total = sum(self.markers.values())
        if total:
            words = ", ".join(repr(word) for word in sorted(self.markers)[:3])
            notes.append(f"{words} in {total:,} rows: if that means nothing there, say so (--null)")
        return notes

    def _all_years(self) -> bool:
        # Of those that were looked at, nearly all; a book may be of 750 BC.
        nearly = self._years >= 0.9 * self._looked > 0
        return nearly and self._high <= 2100 and self._low >= -5000

    def to_json(self) -> dict[str, Any]:
        """The part of a column's report that is known from its cells."""
        kind, why = self.inferred()
        return {
            "inferred": {"type": kind, "why": why},
            "filled": self.filled,
            "empty": self.empty,
            "longest_bytes": self.longest,
            "examples": [_shown(each) for each in self.examples],
            "notes": self.notes(),
        }


def _shown(octets: str) -> str:
    text = octets.encode("latin-1").decode(errors="replace")
    return text if len(text) <= EXAMPLE_LENGTH else text[: EXAMPLE_LENGTH - 1] + "…"
