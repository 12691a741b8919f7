"""From a row's fields to a DynamoDB item, or to the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ddbload.contracts import Table
from ddbload.rows.columns import octets
from ddbload.rows.parse import Defect
from ddbload.rows.types import BadValue, boolean, number

MAX_ITEM_BYTES = 400 * 1024
"""DynamoDB's limit: UTF-8 bytes of attribute names and values."""

AttributeValue = dict[str, str | bool]
Attributes = dict[str, AttributeValue]

_SURELY_SMALL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Item:
    """An item that DynamoDB takes."""

    attributes: Attributes
    key: tuple[Hashable, ...]
    """Equal for items that DynamoDB keeps under one key: numbers by value, texts as octets."""
    size: int
    """Bytes that DynamoDB counts: of names and values."""
    wire_bytes: int
    """Bytes of the item in a request's JSON, at most."""


Value = tuple[AttributeValue, Hashable, int]
"""An attribute's value; its identity within its type; its size in bytes."""


def _string(text: str) -> Value:
    if text.isascii():
        return {"S": text}, text, len(text)
    utf8 = octets(text)
    return {"S": text}, utf8, len(utf8)


def _number(text: str) -> Value:
    read = number(text)
    return {"N": read.text}, read.value, read.size


def _boolean(text: str) -> Value:
    return {"BOOL": boolean(text)}, "", 1


_READERS: dict[str, Callable[[str], Value]] = {"S": _string, "N": _number, "BOOL": _boolean}


class ItemBuilder:
    """Makes items for one table out of rows with the same columns."""

    def __init__(self, columns: Sequence[str], types: Sequence[str], table: Table) -> None:
        self._columns = [
            (name, len(name.encode()), _READERS[kind])
            for name, kind in zip(columns, types, strict=True)
        ]
        self._count = len(columns)
        self._keys = [columns.index(key.name) for key in table.keys]
        self._limits = key_limits(columns, table)

    def build(self, fields: Sequence[str]) -> Item | Defect:
        """The item of a row: an empty cell is no attribute. A `Defect` names its column."""
        if len(fields) != self._count:
            return field_count(len(fields), self._count)
        defect = self._check_keys(fields)
        if defect is not None:
            return defect
        attributes: Attributes = {}
        identities: dict[int, Hashable] = {}
        size = 0
        for column, (text, (name, name_bytes, read)) in enumerate(
            zip(fields, self._columns, strict=True)
        ):
            if not text:
                continue
            try:
                attributes[name], identity, value_bytes = read(text)
            except BadValue as bad:
                return Defect(bad.cause, bad.detail, column)
            size += name_bytes + value_bytes
            if column in self._keys:
                identities[column] = identity
        if size > MAX_ITEM_BYTES:
            return Defect("item_too_large", f"{size} bytes; DynamoDB's limit is {MAX_ITEM_BYTES}")
        key = tuple(identities[column] for column in self._keys)
        return Item(attributes, key, size, _wire_bytes(attributes, fields, size))

    def _check_keys(self, fields: Sequence[str]) -> Defect | None:
        for column in self._keys:
            if not fields[column]:
                return Defect("empty_key", "the key attribute is empty", column)
        for column, most in self._limits:
            text = fields[column]
            # A character is at most four bytes: most keys need no encoding to be measured.
            if len(text) * 4 > most and len(text.encode()) > most:
                detail = f"{len(text.encode())} bytes; a key here takes {most}"
                return Defect("key_too_long", detail, column)
        return None


def field_count(found: int, columns: int) -> Defect:
    """Why a row is none that has another number of fields than the file has columns."""
    return Defect("field_count", f"{found} fields; the file has {columns} columns")


def key_limits(columns: Sequence[str], table: Table) -> list[tuple[int, int]]:
    """The columns whose texts are keys, of the table or of an index, and bytes they may have."""
    limits: dict[str, int] = {}
    for key in (*table.keys, *table.index_keys):
        if key.type == "S" and key.name in columns:
            limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    return [(columns.index(name), most) for name, most in limits.items()]


def _wire_bytes(attributes: Attributes, fields: Sequence[str], size: int) -> int:
    # An escape makes at most six bytes of one; names and values have some punctuation
    # around them. Numbers may be written longer than they count, so fields come on top.
    bound = 6 * size + sum(map(len, fields)) + 20 * len(attributes) + 40
    return bound if bound <= _SURELY_SMALL else len(json.dumps(attributes)) + 40
