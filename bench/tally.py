"""How many items there are, and a checksum of them that does not depend on their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
class Tally:
    """Of items in DynamoDB's JSON."""

    items: int = 0
    total: int = 0

    def add(self, item: Mapping[str, Mapping[str, Any]]) -> None:
        """Count one. Numbers are compared by value: 1, 1.0 and 1E0 are one."""
        parts = []
        for name in sorted(item):
            ((kind, value),) = item[name].items()
            if kind == "N":
                value = str(_DIGITS.normalize(Decimal(value)))
            parts.append((name, kind, value))
        digest = blake2b(json.dumps(parts).encode(), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest)) % _MODULUS
        self.items += 1

    @property
    def checksum(self) -> str:
        """The sum of the items' hashes modulo 2^128: equal for equal items in any order."""
        return f"{self.total:032x}"


def expected(path: Path, shape: Shape) -> Tally:
    """What has to arrive of a file, by a reader that shares no code with any client."""
    tally = Tally()
    types = list(shape.columns.items())
    rows = _rows(path.read_text(encoding="utf-8"), shape)
    if shape.header:
        next(rows)
    for row in rows:
        if len(row) != len(types):
            raise ValueError(f"{path.name}: a row of {len(row)} fields")
        item = {
            name: {kind: text == "true" if kind == "BOOL" else text}
            for (name, kind), text in zip(types, row, strict=True)
            if text
        }
        tally.add(item)
    return tally


def _rows(text: str, shape: Shape) -> Iterator[list[str]]:
    if shape.delimiter == "\t":
        for line in text.split("\n")[:-1]:
            yield line.split("\t")
        return
    row: list[str] = []
    at = 0
    while at < len(text):
        found = _FIELD.match(text, at)
        if found is None:
            raise ValueError(f"no field at character {at}")
        quoted, plain, end = found.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"'))
        if end == "\n":
            yield row
            row = []
        at = found.end()
