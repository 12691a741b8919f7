"""What is known of the attributes of documents, each of which has names of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ddbload.pipeline.plan.evidence import cut
from ddbload.rows.attributes import Attributes, AttributeValue, size_of
from ddbload.rows.infer import EXAMPLES

MOST_NAMES = 1000
"""Attributes that are told apart; names may be data."""


class Member:
    """An attribute of documents: the types it comes with, and what its values look like."""

    def __init__(self) -> None:
        self.filled = 0
        self.longest = 0
        self.types: Counter[str] = Counter()
        self.examples: list[str] = []
        self._low, self._high = float("inf"), float("-inf")

    def add(self, value: AttributeValue) -> None:
        """Look at a value."""
        ((kind, content),) = value.items()
        self.filled += 1
        self.types[kind] += 1
        self.longest = max(self.longest, size_of(value))
        if kind == "N":
            found = float(content)
            self._low, self._high = min(self._low, found), max(self._high, found)
        if len(self.examples) < EXAMPLES:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            if text not in self.examples:
                self.examples.append(text)

    @property
    def type(self) -> str:
        """The type that it comes with most often."""
        return min(self.types, key=lambda kind: (-self.types[kind], kind))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest number."""
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
            "longest_bytes": self.longest,
            "examples": [cut(each) for each in self.examples],
            "notes": notes,
        }


class Members:
    """All attributes of documents, by name, in the order in which they first came."""

    def __init__(self) -> None:
        self.known: dict[str, Member] = {}
        self.more = False
        """Whether there are others, too."""

    def add(self, items: Iterable[Attributes]) -> None:
        """Look at items."""
        known = self.known
        for item in items:
            for name, value in item.items():
                member = known.get(name)
                if member is None:
                    if len(known) == MOST_NAMES:
                        self.more = True
                        continue
                    member = known[name] = Member()
                member.add(value)
