"""Builds the item of one row of cells, with every rule and the reason for each reject."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ddbload.contracts.payload import OMIT, REJECT
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.row_writes import RowWrites
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.typed_values import REFUSED, TEXT_READERS, null_of
from ddbload.rows.blocks import Defect, field_count

SIMPLE_TYPES = frozenset({"S", "N", "BOOL"})
"""Types whose values take about as many bytes in a request as their text does."""
_SURELY_SMALL = 64 * 1024
"""Bytes of JSON up to which a rough upper bound is good enough."""


@dataclass(frozen=True, slots=True)
class RowNeeds:
    """Attributes that the requests of a run treat in a way of their own."""

    values: frozenset[str] = frozenset()
    """Attributes without which a row is rejected: its condition needs their values."""
    sets: frozenset[str] = frozenset()
    """Attributes to which sets are added: for an empty one nothing is added."""
    unwritten: frozenset[str] = frozenset()
    """Attributes that only the condition uses: the item is written without them."""

    def policy(self, name: str, nulls: str) -> str:
        """Return the policy for missing values of an attribute."""
        is_own = name in self.sets or name in self.values
        return OMIT if is_own and nulls != REJECT else nulls


NO_NEEDS = RowNeeds()


def row_needs(writes: RowWrites | None) -> RowNeeds:
    """Return the needs of a run whose rows go one by one, or in batches."""
    if writes is None:
        return NO_NEEDS
    return RowNeeds(writes.condition_columns, writes.adds, writes.unwritten)


def item_too_large(size: int) -> Defect:
    """Return the defect of an item that is larger than DynamoDB's limit."""
    return Defect("item_too_large", f"{size} bytes; DynamoDB's limit is {MAX_ITEM_BYTES}")


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


class ItemBuilder:
    """Builder of items for one table from rows with the same attributes."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        nulls: str = OMIT,
        needs: RowNeeds = NO_NEEDS,
    ) -> None:
        """Take one type for each column, and the policy for missing values."""
        indexed = {key.name for key in table.index_keys}
        self._columns = [
            (
                name,
                len(name.encode()),
                TEXT_READERS[kind],
                null_of(kind, needs.policy(name, nulls), name in indexed),
            )
            for name, kind in zip(columns, types, strict=True)
        ]
        self._needed, self._unwritten = needs.values, needs.unwritten
        self._count = len(columns)
        self._keys = [columns.index(key.name) for key in table.keys]
        self._limits = key_limits(columns, table)
        self._binary_limits = dict(key_limits(columns, table, "B"))
        self._has_documents = not SIMPLE_TYPES.issuperset(types)

    def build(self, fields: Sequence[str]) -> Item | Defect:
        """Build the item of a row: an empty cell is a missing value. A defect names its column."""
        if len(fields) != self._count:
            return field_count(len(fields), self._count)
        defect = self._check_keys(fields)
        if defect is not None:
            return defect
        attributes: Attributes = {}
        identities: dict[int, Hashable] = {}
        size = unwritten = 0
        for column, (text, (name, name_bytes, read, null)) in enumerate(
            zip(fields, self._columns, strict=True)
        ):
            if not text:
                if name in self._needed:
                    return no_condition_value(column)
                if null is None:
                    continue
                if null is REFUSED:
                    return Defect("null_value", "no value, and nulls are to be rejected", column)
                value = null
            else:
                try:
                    value = read(text)
                except BadValue as bad:
                    return Defect(bad.cause, bad.detail, column)
            attributes[name], identity, value_bytes = value
            size += name_bytes + value_bytes
            if name in self._unwritten:
                unwritten += name_bytes + value_bytes
            if column in self._keys:
                identities[column] = identity
            most = self._binary_limits.get(column)
            if most is not None and value_bytes > most:
                return _key_too_long(value_bytes, most, column)
        written = size - unwritten
        if written > MAX_ITEM_BYTES:
            return item_too_large(written)
        key = tuple(identities[column] for column in self._keys)
        return Item(attributes, key, written, self._wire_bytes(attributes, fields, size))

    def _check_keys(self, fields: Sequence[str]) -> Defect | None:
        for column in self._keys:
            if not fields[column]:
                return Defect("empty_key", "the key attribute is empty", column)
        for column, most in self._limits:
            text = fields[column]
            # A character has at most four bytes, so most keys need not be encoded to be measured.
            if len(text) * 4 > most and len(text.encode()) > most:
                return _key_too_long(len(text.encode()), most, column)
        return None

    def _wire_bytes(self, attributes: Attributes, fields: Sequence[str], size: int) -> int:
        # An escape makes at most six bytes of one, and names and values have punctuation around
        # them. Numbers may be spelled longer than DynamoDB counts them, so fields come on top.
        bound = 6 * size + sum(map(len, fields)) + 20 * len(attributes) + 40
        if bound <= _SURELY_SMALL and not self._has_documents:
            return bound
        return len(json.dumps(attributes)) + 40


def _key_too_long(size: int, most: int, column: int) -> Defect:
    return Defect("key_too_long", f"{size} bytes; a key here takes {most}", column)


def key_limits(columns: Sequence[str], table: Table, kind: str = "S") -> list[tuple[int, int]]:
    """Return the key columns of a type, of the table and its indexes, with their size limits."""
    limits: dict[str, int] = {}
    for key in (*table.keys, *table.index_keys):
        if key.type == kind and key.name in columns:
            limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    return [(columns.index(name), most) for name, most in limits.items()]
