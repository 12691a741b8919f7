"""What a column's texts look like, over all rows: types they would have, and what is odd."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ddbload.items.type_inference import TypeGuess

EXAMPLE_LENGTH = 40


class ColumnProfile(TypeGuess):
    """A guess at a column's type, with what a person should look at."""

    def __init__(self, nulls: Collection[str] = ()) -> None:
        super().__init__(nulls)
        self._low, self._high = float("inf"), float("-inf")
        self._looked = self._years = 0

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest number, where all cells are whole ones."""
        return self._low, self._high

    def _look_at_numbers(self, texts: Collection[str]) -> None:
        super()._look_at_numbers(texts)
        if self.looks("point_zero") or self.looks("whole"):
            numbers = [float(text) for text in texts]
            self._low = min(self._low, *numbers)
            self._high = max(self._high, *numbers)
            self._looked += len(numbers)
            self._years += sum(1000 <= number <= 2100 for number in numbers)

    def notes(self) -> list[str]:
        """What a person should look at."""
        notes: list[str] = []
        if self.filled and self.looks("point_zero") and not self.leading_zeros:
            what = "years" if self._all_years() else "whole numbers"
            notes.append(
                f"numbers that all end in .0: {what} that passed through a float? As N they are"
                " stored without it, as S with it"
            )
        if self.filled and self.looks("numeric") and self.exponents:
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


def cut(text: str) -> str:
    """A text that is short enough to be shown."""
    return text if len(text) <= EXAMPLE_LENGTH else text[: EXAMPLE_LENGTH - 1] + "…"


def _shown(octets: str) -> str:
    return cut(octets.encode("latin-1").decode(errors="replace"))
