"""DynamoDB's rules for tables: keys, indexes and write cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.fakes.dynamodb_values import Item, Value, invalid, item_size, size, stored_item

MAX_ITEM_BYTES = 400 * 1024
MAX_HASH_BYTES = 2048
MAX_RANGE_BYTES = 1024
UNIT_BYTES = 1024

# A key's stored values with their types: equal exactly when DynamoDB takes two keys for one.
Key = tuple[tuple[str, Any], ...]

SCHEMA_MISMATCH = "The provided key element does not match the schema"
_INVALID = "One or more parameter values were invalid: "


def keyed(name: str, /, **keys: str) -> dict[str, Any]:
    """Return the parameters of CreateTable for a table with these keys, given with their types."""
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": key, "KeyType": role}
            for key, role in zip(keys, ("HASH", "RANGE"), strict=False)
        ],
        "AttributeDefinitions": [
            {"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }


@dataclass(frozen=True)
class Index:
    """A secondary index; ``projected`` is ``None`` for whole items."""

    name: str
    keys: tuple[str, ...]
    projected: frozenset[str] | None
    is_global: bool

    def entry(self, item: Item | None) -> Item | None:
        """Project an item for the index; None if a key attribute is missing."""
        if item is None or any(name not in item for name in self.keys):
            return None
        return {k: v for k, v in item.items() if self.projected is None or k in self.projected}


@dataclass
class Table:
    """A table and its items. ``keys``: names of the partition key and the sort key."""

    name: str
    table_id: str
    keys: tuple[str, ...]
    types: dict[str, str]
    indexes: list[Index]
    definition: dict[str, Any]
    items: dict[Key, Item] = field(default_factory=dict)

    def checked(self, item: Item, in_batch: bool) -> Item:
        """Normalise an item as it is stored. Raises Refused for an item the service refuses."""
        item = stored_item(item)
        for name in self.keys:
            if name not in item:
                detail = f"{_INVALID}Missing the key {name} in the item"
                raise invalid(SCHEMA_MISMATCH if in_batch else detail)
            self._check_key_type(name, item[name], in_batch)
        self._check_key(self.keys, item)
        for index in self.indexes:
            self._check_index(index, item)
        if item_size(item) > MAX_ITEM_BYTES:
            raise invalid("Item size has exceeded the maximum allowed size")
        return item

    def checked_key(self, key: Item) -> Key:
        """Check that a key is complete and has no other attribute. Raises Refused."""
        if key.keys() != set(self.keys):
            raise invalid(SCHEMA_MISMATCH)
        key = stored_item(key)
        for name in self.keys:
            self._check_key_type(name, key[name], in_batch=True)
        self._check_key(self.keys, key)
        return self.key_of(key)

    def key_of(self, item: Item) -> Key:
        """Get the key of a stored item."""
        return tuple(next(iter(item[name].items())) for name in self.keys)

    def named(self, key: Key) -> Item:
        """Write a key as attributes."""
        return {name: dict([part]) for name, part in zip(self.keys, key, strict=True)}

    def place(self, key: Key) -> tuple[Any, ...]:
        """Sort key of a scan: partitions by a hash, their items by sort key."""
        kind, value = key[0]
        spread = hashlib.md5(f"{kind}{value}".encode(), usedforsecurity=False).hexdigest()
        return (spread, *(_ordered(kind, value) for kind, value in key[1:]))

    def cost(self, old: Item | None, new: Item | None) -> dict[str | None, float]:
        """Compute the write units: the table's under None, and those of each changed index.

        An overwrite counts the larger of the two items; an index entry that moves counts twice.
        """
        units: dict[str | None, float] = {None: max(_units(old), _units(new))}
        for index in self.indexes:
            before, after = index.entry(old), index.entry(new)
            if before == after:
                continue
            if before and after and all(before[k] == after[k] for k in index.keys):
                units[index.name] = max(_units(before), _units(after))
            else:
                units[index.name] = sum(_units(entry) for entry in (before, after) if entry)
        return units

    def _check_key_type(self, name: str, value: Value, in_batch: bool) -> None:
        if self.types[name] not in value:
            detail = f"{_INVALID}Type mismatch for key {name} expected: {self.types[name]}"
            raise invalid(SCHEMA_MISMATCH if in_batch else f"{detail} actual: {next(iter(value))}")

    def _check_key(self, names: tuple[str, ...], item: Item) -> None:
        for name in names:
            if not next(iter(item[name].values())):
                raise invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key"
                    f" attribute cannot contain an empty string value. Key: {name}"
                )
        if size(item[names[0]]) > MAX_HASH_BYTES:
            raise invalid(
                f"{_INVALID}Size of hashkey has exceeded the maximum size limit of"
                f"{MAX_HASH_BYTES} bytes"
            )
        if len(names) > 1 and size(item[names[1]]) > MAX_RANGE_BYTES:
            raise invalid(
                f"{_INVALID}Aggregated size of all range keys has exceeded the size limit of"
                f" {MAX_RANGE_BYTES} bytes"
            )

    def _check_index(self, index: Index, item: Item) -> None:
        for name in index.keys:
            if name in item and self.types[name] not in item[name]:
                raise invalid(
                    f"{_INVALID}Type mismatch for Index Key {name} Expected: {self.types[name]}"
                    f" Actual: {next(iter(item[name]))} IndexName: {index.name}"
                )
            if name in item and not next(iter(item[name].values())):
                raise invalid(
                    "One or more parameter values are not valid. A value specified for a secondary"
                    " index key is not supported. The AttributeValue for a key attribute cannot"
                    f" contain an empty string value. IndexName: {index.name}, IndexKey: {name}"
                )
        if all(name in item for name in index.keys):
            self._check_key(index.keys, item)


def table_from(params: dict[str, Any], table_id: str) -> Table:
    """Make a table from CreateTable's ``params``. Raises Refused for contradictions."""
    types = {d["AttributeName"]: d["AttributeType"] for d in params["AttributeDefinitions"]}
    keys = _key_names(params["KeySchema"])
    indexes = [
        Index(
            index["IndexName"], _key_names(index["KeySchema"]), _projected(index, keys), is_global
        )
        for field_name, is_global in (
            ("GlobalSecondaryIndexes", True),
            ("LocalSecondaryIndexes", False),
        )
        for index in params.get(field_name, [])
    ]
    used = {*keys, *(name for index in indexes for name in index.keys)}
    if used != types.keys():
        raise invalid(
            f"{_INVALID}Some AttributeDefinitions are not used, or some keys are not defined."
            f" Keys: {sorted(used)}, AttributeDefinitions: {sorted(types)}"
        )
    return Table(params["TableName"], table_id, keys, types, indexes, params)


def _key_names(schema: list[dict[str, str]]) -> tuple[str, ...]:
    if [part["KeyType"] for part in schema] not in (["HASH"], ["HASH", "RANGE"]):
        raise invalid("Invalid KeySchema: a HASH key, then at most one RANGE key")
    return tuple(part["AttributeName"] for part in schema)


def _projected(index: dict[str, Any], table_keys: tuple[str, ...]) -> frozenset[str] | None:
    projection = index["Projection"]
    if projection["ProjectionType"] == "ALL":
        return None
    keys = (*table_keys, *_key_names(index["KeySchema"]))
    return frozenset((*keys, *projection.get("NonKeyAttributes", [])))


def _units(item: Item | None) -> float:
    # A write that finds nothing and leaves nothing still costs one unit.
    return float(max(1, -(-item_size(item) // UNIT_BYTES))) if item else 1.0


def _ordered(kind: str, value: Any) -> Any:
    return Decimal(value) if kind == "N" else value.encode() if kind == "S" else value
