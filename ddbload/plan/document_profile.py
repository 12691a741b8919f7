"""What is known of the attributes of documents, each of which has names of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from ddbload.dynamodb.attribute_values import Attributes, AttributeValue
from ddbload.items.type_inference import EXAMPLES
from ddbload.plan.column_profile import cut

MOST_NAMES = 1000
"""Attributes that are told apart; names may be data."""


class AttributeProfile:
    """An attribute of documents: the types it comes with, and what its values look like."""

    def __init__(self) -> None:
        self.filled = 0
        self.types: Counter[str] = Counter()
        self.examples: list[str] = []
        self._low, self._high = float("inf"), float("-inf")

    def add(self, values: Sequence[AttributeValue], *, ranged: bool = False) -> None:
        """Look at values. `ranged`: at the least and the greatest number, too."""
        self.filled += len(values)
        # A value's only name is its type.
        self.types.update(chain.from_iterable(values))
        if len(self.examples) < EXAMPLES:
            self._example(values)
        if ranged:
            numbers = [float(value["N"]) for value in values if "N" in value]
            self._low = min(self._low, *numbers, float("inf"))
            self._high = max(self._high, *numbers, float("-inf"))

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
        """The type that it comes with most often."""
        return min(self.types, key=lambda kind: (-self.types[kind], kind))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest number, where that was asked for."""
        return self._low, self._high

    def to_json(self, rows: int) -> dict[str, Any]:
        """The part of an attribute's report that is known from its values, of so many items."""
        types = ", ".join(f"{kind} {count:,}" for kind, count in self.types.most_common())
        one = len(self.types) == 1
        why = "in every row that has it" if one else f"mixed: {types}"
        notes = [] if one else [f"not of one type: {types}"]
        return {
            "inferred": {"type": self.type, "why": why},
            "filled": self.filled,
            "empty": rows - self.filled,
            "longest_bytes": None,
            "examples": [cut(each) for each in self.examples],
            "notes": notes,
        }


class DocumentProfile:
    """All attributes of documents, by name, in the order in which they first came."""

    def __init__(self, ranged: str | None = None) -> None:
        """`ranged`: the attribute whose least and greatest number are wanted."""
        self.known: dict[str, AttributeProfile] = {}
        self.more = False
        """Whether there are others, too."""
        self._ranged = ranged

    def add(self, items: Iterable[Attributes]) -> None:
        """Look at items."""
        known = self.known
        found: dict[str, list[AttributeValue]] = {}
        for item in items:
            for name, value in item.items():
                if name in found:
                    found[name].append(value)
                else:
                    found[name] = [value]
        for name, values in found.items():
            member = known.get(name)
            if member is None:
                if len(known) == MOST_NAMES:
                    self.more = True
                    continue
                member = known[name] = AttributeProfile()
            member.add(values, ranged=name == self._ranged)
