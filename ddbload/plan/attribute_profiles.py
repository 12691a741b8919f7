"""Profiles of attributes, from delimited columns and from documents: types, examples, notes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Self

from ddbload.dynamodb.attribute_values import Attributes, AttributeValue
from ddbload.items.type_inference import EXAMPLES, TypeGuess

EXAMPLE_LENGTH = 40
MAX_NAMES = 1000
"""Maximum attributes of documents to profile; names may be data, such as dates."""


class ColumnProfile(TypeGuess):
    """Profile of a column: its inferred type, examples and notes on odd values."""

    def __init__(self, nulls: Collection[str] = ()) -> None:
        super().__init__(nulls)
        self._low, self._high = float("inf"), float("-inf")
        self._numbers = self._years = 0

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest number, if all values are whole numbers."""
        return self._low, self._high

    def merge(self, other: Self) -> None:
        """Add what was found in the cells that follow."""
        super().merge(other)
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        self._numbers += other._numbers
        self._years += other._years

    def _look_at_numbers(self, texts: Collection[str]) -> None:
        super()._look_at_numbers(texts)
        if self.looks("point_zero") or self.looks("whole"):
            numbers = [float(text) for text in texts]
            self._low = min(self._low, *numbers)
            self._high = max(self._high, *numbers)
            self._numbers += len(numbers)
            self._years += sum(1000 <= number <= 2100 for number in numbers)

    def notes(self) -> list[str]:
        """List notes on values that a person should look at."""
        notes: list[str] = []
        if self.filled and self.looks("point_zero") and not self.leading_zeros:
            what = "years" if self._all_years() else "whole numbers"
            notes.append(
                f"all numbers end in .0, as if {what} had been converted to floats: stored without"
                " .0 as N, with .0 as S"
            )
        if self.filled and self.looks("numeric") and self.exponents:
            notes.append(
                "some numbers have an exponent, as spreadsheets write long ones: digits may be lost"
            )
        total = sum(self.markers.values())
        if total:
            words = ", ".join(repr(word) for word in sorted(self.markers)[:3])
            notes.append(f"{words} in {total:,} rows: if that means no value, use --null")
        return notes

    def _all_years(self) -> bool:
        # A few may be older, such as a book of 750 BC.
        nearly = self._years >= 0.9 * self._numbers > 0
        return nearly and self._high <= 2100 and self._low >= -5000

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a plan's column that depend on its values."""
        kind, why = self.inferred()
        return {
            "inferred": {"type": kind, "why": why},
            "filled": self.filled,
            "empty": self.empty,
            "longest_bytes": self.longest,
            "examples": [_shown(each) for each in self.examples],
            "notes": self.notes(),
        }


def _shorten(text: str) -> str:
    """Cut a text to the length of an example."""
    return text if len(text) <= EXAMPLE_LENGTH else text[: EXAMPLE_LENGTH - 1] + "…"


def _shown(octets: str) -> str:
    return _shorten(octets.encode("latin-1").decode(errors="replace"))


class AttributeProfile:
    """Profile of an attribute of documents: types and examples of its values."""

    def __init__(self) -> None:
        self.filled = 0
        self.types: Counter[str] = Counter()
        self.examples: list[str] = []
        self._low, self._high = float("inf"), float("-inf")

    def add(self, values: Sequence[AttributeValue], *, ranged: bool = False) -> None:
        """Add values; with `ranged`, track the smallest and largest number as well."""
        self.filled += len(values)
        # An attribute value is a dict with its type as the only key.
        self.types.update(chain.from_iterable(values))
        if len(self.examples) < EXAMPLES:
            self._example(values)
        if ranged:
            numbers = [float(value["N"]) for value in values if "N" in value]
            self._low = min(self._low, *numbers, float("inf"))
            self._high = max(self._high, *numbers, float("-inf"))

    def merge(self, other: AttributeProfile) -> None:
        """Add what was found in the values that follow."""
        self.filled += other.filled
        self.types.update(other.types)
        new = [each for each in other.examples if each not in self.examples]
        self.examples += new[: EXAMPLES - len(self.examples)]
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)

    def _example(self, values: Sequence[AttributeValue]) -> None:
        for value in values[:200]:
            (content,) = value.values()
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            if text not in self.examples:
                self.examples.append(text)
                if len(self.examples) == EXAMPLES:
                    return

    @property
    def type(self) -> str:
        """Most frequent type."""
        return min(self.types, key=lambda kind: (-self.types[kind], kind))

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest number, if `add` tracked them."""
        return self._low, self._high

    def to_json(self, rows: int) -> dict[str, Any]:
        """Return the fields of a plan's column that depend on its values in `rows` items."""
        types = ", ".join(f"{kind} {count:,}" for kind, count in self.types.most_common())
        one = len(self.types) == 1
        why = "in every row that has it" if one else f"mixed: {types}"
        notes = [] if one else [f"mixed types: {types}"]
        return {
            "inferred": {"type": self.type, "why": why},
            "filled": self.filled,
            "empty": rows - self.filled,
            "longest_bytes": None,
            "examples": [_shorten(each) for each in self.examples],
            "notes": notes,
        }


class DocumentProfile:
    """Profiles of all attributes of documents, by name, in order of appearance."""

    def __init__(self, ranged: str | None = None) -> None:
        """Track the range of numbers of the attribute `ranged`."""
        self.attributes: dict[str, AttributeProfile] = {}
        self.truncated = False
        """True if there are more attributes than `MAX_NAMES`."""
        self._ranged = ranged

    def add(self, items: Iterable[Attributes]) -> None:
        """Add items."""
        known = self.attributes
        found: dict[str, list[AttributeValue]] = {}
        for item in items:
            for name, value in item.items():
                if name in found:
                    found[name].append(value)
                else:
                    found[name] = [value]
        for name, values in found.items():
            profile = known.get(name)
            if profile is None:
                if len(known) == MAX_NAMES:
                    self.truncated = True
                    continue
                profile = known[name] = AttributeProfile()
            profile.add(values, ranged=name == self._ranged)

    def merge(self, other: DocumentProfile) -> None:
        """Add what was found in the items that follow."""
        self.truncated = self.truncated or other.truncated
        for name, profile in other.attributes.items():
            known = self.attributes.get(name)
            if known is not None:
                known.merge(profile)
            elif len(self.attributes) == MAX_NAMES:
                self.truncated = True
            else:
                self.attributes[name] = profile
