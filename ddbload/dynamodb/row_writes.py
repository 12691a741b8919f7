"""Requests that write one row each: updates, and writes with the user's own condition.

Attribute names and values are never pasted into an expression: both stand behind placeholders. The
text of a condition is the user's own, with `{column}`, `#name` and `#{a name}` replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

from ddbload.dynamodb.item_equality import same
from ddbload.dynamodb.modes import WriteMode
from ddbload.errors import InvalidPayload

MAX_EXPRESSION_BYTES = 4096
"""Longest expression ("Expression parameters" in DynamoDB's quotas: 4 KB)."""
SETS = frozenset({"SS", "NS", "BS"})
"""Types that can be added to: adding again changes nothing."""
REMOVAL: dict[str, Any] = {"REMOVE": True}
"""Value of an attribute that an update removes. No row can hold it: `REMOVE` is not a type."""

_PIECE = re.compile(
    r"\{\{|\}\}|#\{(?P<quoted>[^{}]+)\}|#(?P<name>[A-Za-z0-9_]+)|\{(?P<column>[^{}]+)\}|[{}#:]"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A user's condition, with placeholders for names and values."""

    expression: str
    names: Mapping[str, str]
    """Attribute names by placeholder, which begins with `#`."""
    columns: Mapping[str, str]
    """Columns of the row by placeholder, which begins with `:`."""

    @classmethod
    def read(cls, text: str, rename: Mapping[str, str] | None = None) -> Self:
        """Read a condition; `rename` gives the attributes of renamed columns.

        Raises `InvalidPayload`, whose message goes on after "the condition ".
        """
        names: dict[str, str] = {}
        columns: dict[str, str] = {}
        pieces: list[str] = []
        position = 0
        for found in _PIECE.finditer(text):
            pieces.append(text[position : found.start()])
            position = found.end()
            name, column = found["quoted"] or found["name"], found["column"]
            if name is not None:
                pieces.append(names.setdefault(name, f"#c{len(names)}"))
            elif column is not None:
                attribute = (rename or {}).get(column, column)
                pieces.append(columns.setdefault(attribute, f":c{len(columns)}"))
            elif len(found[0]) == 2:
                pieces.append(found[0][0])
            else:
                raise InvalidPayload(_LONE[found[0]])
        pieces.append(text[position:])
        expression = "".join(pieces)
        if not expression.strip():
            raise InvalidPayload("is empty; write one such as attribute_not_exists(pk), or none")
        try:
            size = len(expression.encode())
        except UnicodeEncodeError:
            raise InvalidPayload("is not valid UTF-8") from None
        if size > MAX_EXPRESSION_BYTES:
            raise InvalidPayload(
                f"has {size} bytes; DynamoDB's limit is {MAX_EXPRESSION_BYTES}: shorten it"
            )
        return cls(
            expression,
            {placeholder: name for name, placeholder in names.items()},
            {placeholder: column for column, placeholder in columns.items()},
        )


_LONE = {
    "{": "has a single '{': write a column's value as {column}, and a literal brace as {{ or }}",
    "}": "has a single '}': write a column's value as {column}, and a literal brace as {{ or }}",
    "#": "has a '#' without a name: write an attribute's name as #name or #{a name}",
    ":": "has a ':': values come from the row, written as {column}",
}


@dataclass(frozen=True, slots=True)
class RequestForm:
    """Request of all rows with the same attributes, without their values."""

    attributes: tuple[str, ...]
    """Attributes of the item to put, or of the key."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """Expressions by name of the operation's parameter."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Attribute names by placeholder."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Attributes whose values replace the placeholders."""
    returns_old: bool = False
    """True if DynamoDB answers a false condition with the item in the table."""


@dataclass(frozen=True, slots=True)
class RowWrites:
    """Rules by which a run writes one row in a request."""

    mode: WriteMode
    table: str
    keys: tuple[str, ...]
    """Key attributes of the table."""
    adds: frozenset[str] = frozenset()
    """Attributes whose sets an update adds to, instead of replacing them."""
    condition: Condition | None = None
    only_existing: bool = False
    """Write no row whose item is not in the table."""
    unwritten: frozenset[str] = frozenset()
    """Columns that only the condition uses."""

    @property
    def merges(self) -> bool:
        """True if updates of one key may be merged into one: nothing can refuse one of them."""
        return self.mode.updates and self.condition is None and not self.only_existing

    @property
    def condition_columns(self) -> frozenset[str]:
        """Attributes of a row whose values the condition needs."""
        return frozenset(() if self.condition is None else self.condition.columns.values())

    def form(self, names: Sequence[str], removed: Collection[str] = ()) -> RequestForm:
        """Return the request of rows with these attributes; `removed` are those to remove."""
        written = [name for name in names if name not in self.unwritten]
        expressions: dict[str, str] = {}
        placeholders: dict[str, str] = {}
        values: dict[str, str] = {}
        attributes = tuple(written)
        if self.mode.member == "Key":
            attributes = tuple(name for name in written if name in self.keys)
        if self.mode.updates:
            changed = [name for name in written if name not in self.keys]
            expression = update_expression(changed, self.adds, removed)
            if expression:
                expressions["UpdateExpression"] = expression
            for place, name in enumerate(changed):
                placeholders[f"#{place}"] = name
                if name not in removed:
                    values[f":{place}"] = name
        condition = self.condition
        texts = [] if condition is None else [condition.expression]
        if self.only_existing:
            texts = ["attribute_exists(#k)", *(f"({text})" for text in texts)]
            placeholders["#k"] = self.keys[0]
        if texts:
            expressions["ConditionExpression"] = " AND ".join(texts)
        if condition is not None:
            placeholders |= condition.names
            values |= condition.columns
        return RequestForm(attributes, expressions, placeholders, values, condition is not None)

    def merged(self, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the row whose update does what those of two rows would do one after the other.

        None if there is none: a condition may be true for one of them only, a set may not be
        removed and added to in one request, an item is not made by a request that only removes
        attributes, and expressions have a greatest length.
        """
        if not self.merges:
            return None
        row = {**earlier, **later}
        for name in self.adds & earlier.keys() & later.keys():
            if earlier[name] == later[name]:
                continue
            value = _union(earlier[name], later[name])
            if value is None:
                return None
            row[name] = value
        makes_none = self._only_removes(earlier) and self._only_removes(later)
        if self._only_removes(row) != makes_none:
            return None
        changed = [name for name in row if name not in self.keys]
        removed = {name for name in changed if row[name] == REMOVAL}
        if len(update_expression(changed, self.adds, removed)) > MAX_EXPRESSION_BYTES:
            return None
        return row

    def _only_removes(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row's update makes no item where there is none.

        DynamoDB makes one for a key without other attributes, but none to remove attributes only.
        """
        values = [value for name, value in row.items() if name not in self.keys]
        return bool(values) and all(value == REMOVAL for value in values)

    def has_effect(self, row: Mapping[str, Any], existing: Mapping[str, Any] | None) -> bool:
        """Return whether the item in the table is as the row would leave it.

        `existing` is None if there is no item.
        """
        if self.mode.deletes or existing is None:
            return self.mode.deletes and existing is None
        written = {name: value for name, value in row.items() if name not in self.unwritten}
        if not self.mode.updates and written.keys() != existing.keys():
            return False
        return all(self._holds(name, value, existing) for name, value in written.items())

    def _holds(self, name: str, value: Mapping[str, Any], existing: Mapping[str, Any]) -> bool:
        if value == REMOVAL:
            return name not in existing
        there = existing.get(name)
        if there is None:
            return False
        if name in self.adds:
            ((kind, members),) = value.items()
            found = there.get(kind)
            if not isinstance(found, list):
                return False
            return same({kind: [*found, *members]}, {kind: found})
        return same(value, there)


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the union of two sets; None if they are not sets of one type."""
    ((kind, members),), ((other_kind, more),) = one.items(), other.items()
    if kind != other_kind or kind not in SETS:
        return None
    of_value = Decimal if kind == "NS" else str
    return {kind: list({of_value(member): member for member in (*members, *more)}.values())}


def update_expression(
    names: Sequence[str], adds: Collection[str] = (), removed: Collection[str] = ()
) -> str:
    """Return the UpdateExpression that changes attributes, by their places; empty for none."""
    removals: list[str] = []
    additions: list[str] = []
    settings: list[str] = []
    for place, name in enumerate(names):
        if name in removed:
            removals.append(f"#{place}")
        elif name in adds:
            additions.append(f"#{place} :{place}")
        else:
            settings.append(f"#{place}=:{place}")
    clauses = (("SET", settings), ("REMOVE", removals), ("ADD", additions))
    return " ".join(f"{verb} {','.join(parts)}" for verb, parts in clauses if parts)


def without_removals(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a row that hold values."""
    return {name: value for name, value in item.items() if value != REMOVAL}


def longest_update(names: Iterable[str], keys: Collection[str]) -> int:
    """Return the bytes of the longest UpdateExpression of rows with these attributes."""
    return len(update_expression([name for name in names if name not in keys]))
