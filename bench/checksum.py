"""Count items and compute their checksum, independently of their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bench.shapes import Shape

_MODULUS = 1 << 128
_DIGITS = Context(prec=38)
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n)')


@dataclass(slots=True)
class ItemChecksum:
    """Number and checksum of items in DynamoDB JSON."""

    items: int = 0
    total: int = 0

    def add(self, item: Mapping[str, Mapping[str, Any]]) -> None:
        """Add one item. Numbers are compared by value: 1, 1.0 and 1E0 are equal."""
        parts = []
        for name in sorted(item):
            ((kind, value),) = item[name].items()
            if kind == "N":
                value = str(_DIGITS.normalize(Decimal(value)))
            parts.append((name, kind, value))
        digest = blake2b(json.dumps(parts).encode(), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest)) % _MODULUS
        self.items += 1

    def add_all(self, other: ItemChecksum) -> None:
        """Add the items of another checksum."""
        self.total = (self.total + other.total) % _MODULUS
        self.items += other.items

    @property
    def checksum(self) -> str:
        """Sum of the items' hashes modulo 2^128, as hexadecimal digits."""
        return f"{self.total:032x}"


def expected_checksum(path: Path, shape: Shape) -> ItemChecksum:
    """Return the checksum of a file's items, read with code that no client uses."""
    checksum = ItemChecksum()
    for item in items_of(path, shape):
        checksum.add(item)
    return checksum


def items_of(path: Path, shape: Shape) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield a file's items, read with code that no client uses."""
    types = list(shape.columns.items())
    with path.open(encoding="utf-8", newline="\n") as file:
        rows = _rows(file, shape)
        if shape.header:
            next(rows)
        for row in rows:
            if len(row) != len(types):
                raise ValueError(
                    f"{path.name}: a row has {len(row)} fields instead of {len(types)}"
                )
            yield {
                name: {kind: text == "true" if kind == "BOOL" else text}
                for (name, kind), text in zip(types, row, strict=True)
                if text
            }


def _rows(lines: Iterable[str], shape: Shape) -> Iterator[list[str]]:
    if shape.delimiter == "\t":
        for line in lines:
            yield line.removesuffix("\n").split("\t")
        return
    record = ""
    for line in lines:
        record += line
        # A line end outside quotes ends the row.
        if record.count('"') % 2 == 0:
            yield _fields(record)
            record = ""
    if record:
        raise ValueError("the last row has an unclosed quote")


def _fields(record: str) -> list[str]:
    fields: list[str] = []
    at = 0
    while at < len(record):
        found = _FIELD.match(record, at)
        if found is None:
            raise ValueError(f"no field at character {at} of a row")
        quoted, plain, _ = found.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        at = found.end()
    return fields
