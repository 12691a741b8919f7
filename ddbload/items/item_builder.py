"""Builds the item of one row of cells, with every rule and the reason for each reject."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ddbload.contracts.payload import OMIT, REJECT
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.attribute_values import Attributes, AttributeValue, item_size, value_size
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.modes import PUT, REMOVAL, SETS, RowWrites, without_removals
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.typed_values import REFUSED, TEXT_READERS, null_of
from ddbload.rows.blocks import Defect, field_count
from ddbload.rows.columns import to_octets

SIMPLE_TYPES = frozenset({"S", "N", "BOOL"})
"""Types whose values take about as many bytes in a request as their text does."""


NO_NEEDS = RowWrites(PUT, "", ())
"""Rules of rows that need nothing but their keys."""


def no_condition_value(column: int | str) -> Defect:
    """Return the defect of a row without a value that the condition names."""
    return Defect("no_condition_value", "no value, and the condition names it", column)


@dataclass(frozen=True, slots=True)
class Item:
    """An item that DynamoDB accepts."""

    attributes: Attributes
    key: tuple[Hashable, ...]
    """Equal for items that DynamoDB keeps under one key: numbers by value, text as octets."""
    size: int
    """Item size as DynamoDB counts it: UTF-8 bytes of names and values."""
    wire_bytes: int
    """Upper bound for the bytes of the item's JSON in a request."""
    deleted: bool = False
    """True if the attributes are the key of an item to delete, as an export may ask for."""


class ItemChecker:
    """Checks that every item has to pass, whatever its row was."""

    def __init__(self, table: Table, needs: RowWrites) -> None:
        self.needs = needs
        self.key_names = [key.name for key in table.keys]
        self.checked_keys = [*table.keys, *table.index_keys]
        """Keys of the table and of its indexes."""
        self._indexed = {key.name for key in table.index_keys}

    def null_of(self, name: str, kind: str, nulls: str) -> AttributeValue | None:
        """Return the value of a missing attribute: None to leave it out, or `REFUSED`."""
        is_needed = name in self.needs.adds or name in self.needs.condition_columns
        policy = OMIT if is_needed and nulls != REJECT else nulls
        return null_of(kind, policy, name in self._indexed)

    def check_key(self, name: str, value: AttributeValue) -> None:
        """Raise `BadValue` if an attribute is a key, and DynamoDB refuses such a value for it."""
        for key in self.checked_keys:
            if key.name == name:
                _check_key(key, value)

    def item(self, attributes: Attributes, *, deleted: bool = False) -> Item | Defect:
        """Return the item with these attributes, of which each is a legal value."""
        for name in self.key_names:
            if name not in attributes:
                return Defect("empty_key", "the key attribute is missing, or null", name)
        for name in sorted(self.needs.condition_columns):
            if attributes.get(name, REMOVAL) == REMOVAL:
                return no_condition_value(name)
        for name in self.needs.adds & attributes.keys():
            if "NULL" in attributes[name]:
                del attributes[name]
            elif SETS.isdisjoint(attributes[name]):
                ((kind, _),) = attributes[name].items()
                return Defect("not_a_set", f"of type {kind}, and only sets can be added to", name)
        for key in self.checked_keys:
            try:
                _check_key(key, attributes.get(key.name, REMOVAL))
            except BadValue as bad:
                return Defect(bad.cause, bad.detail, key.name)
        written = without_removals(attributes)
        for name in self.needs.unwritten:
            written.pop(name, None)
        size = item_size(written)
        if size > MAX_ITEM_BYTES:
            return Defect("item_too_large", f"{size} bytes; DynamoDB's limit is {MAX_ITEM_BYTES}")
        key_values = tuple(identity(attributes[name]) for name in self.key_names)
        return Item(attributes, key_values, size, len(json.dumps(attributes)) + 40, deleted)


class ItemBuilder:
    """Builder of items for one table from rows with the same attributes."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        nulls: str = OMIT,
        needs: RowWrites = NO_NEEDS,
    ) -> None:
        """Take one type for each column, and the policy for missing values."""
        self._checker = checker = ItemChecker(table, needs)
        self._columns = [
            (name, TEXT_READERS[kind], checker.null_of(name, kind, nulls))
            for name, kind in zip(columns, types, strict=True)
        ]
        self._keys = [columns.index(name) for name in checker.key_names]
        self._limits = key_limits(columns, table)
        self._binary_limits = dict(key_limits(columns, table, "B"))

    def build(self, fields: Sequence[str]) -> Item | Defect:
        """Build the item of a row: an empty cell is a missing value. A defect names its column."""
        if len(fields) != len(self._columns):
            return field_count(len(fields), len(self._columns))
        for column in self._keys:
            if not fields[column]:
                return Defect("empty_key", "the key attribute is empty", column)
        for column, most in self._limits:
            size = len(fields[column].encode())
            if size > most:
                return _key_too_long(size, most, column)
        attributes: Attributes = {}
        for column, (text, (name, read, null)) in enumerate(
            zip(fields, self._columns, strict=True)
        ):
            value, limit = null, self._binary_limits.get(column)
            if text:
                try:
                    value = read(text)
                except BadValue as bad:
                    return Defect(bad.cause, bad.detail, column)
                if limit is not None and value_size(value) > limit:
                    return _key_too_long(value_size(value), limit, column)
            elif name in self._checker.needs.condition_columns:
                return no_condition_value(column)
            elif null is REFUSED:
                return Defect("null_value", "no value, and nulls are to be rejected", column)
            if value is not None:
                attributes[name] = value
        return self._checker.item(attributes)


def _key_too_long(size: int, most: int, column: int) -> Defect:
    return Defect("key_too_long", f"{size} bytes; a key here takes {most}", column)


def key_limits(columns: Sequence[str], table: Table, kind: str = "S") -> list[tuple[int, int]]:
    """Return the key columns of a type, of the table and its indexes, with their size limits."""
    limits: dict[str, int] = {}
    for key in (*table.keys, *table.index_keys):
        if key.type == kind and key.name in columns:
            limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    return [(columns.index(name), most) for name, most in limits.items()]


def _check_key(key: KeyAttribute, value: Mapping[str, str]) -> None:
    """Raise `BadValue` if DynamoDB refuses a value as a key of the table or of an index."""
    if value == REMOVAL:
        return
    ((kind, content),) = value.items()
    if kind != key.type:
        raise BadValue("wrong_type", f"of type {kind}; the key attribute is of {key.type}")
    if not content:
        raise BadValue("empty_key", "the key attribute is empty")
    size = value_size(value) if kind != "N" else 0
    if size > key.max_bytes:
        raise BadValue("key_too_long", f"{size} bytes; a key here takes {key.max_bytes}")


def identity(value: AttributeValue) -> Hashable:
    """Return an identity that is equal for equal keys, within a type."""
    ((kind, content),) = value.items()
    text: str = content
    return parse_number(text).value if kind == "N" else to_octets(text)
