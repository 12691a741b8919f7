"""Expected result of an import, computed by the oracle without code of ddbload."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.csv_machine import Row

Reject = tuple[int, int, str, str]
"""Line, byte, cause, and raw row."""


@dataclass(frozen=True)
class Expected:
    """Expected items by key, with the last row of each key, and rejects in order."""

    items: dict[str, dict[str, Any]]
    rejects: list[Reject]
    rows: int


def expected(data: bytes, rows: Sequence[Row], columns: Sequence[str]) -> Expected:
    """Compute the result for ``rows``; the first column is the key, all columns are strings."""
    items: dict[str, dict[str, Any]] = {}
    rejects: list[Reject] = []
    for row in rows:
        cause = row.defect
        if cause is None and len(row.fields) != len(columns):
            cause = "field_count"
        if cause is None and not row.fields[0]:
            cause = "empty_key"
        if cause is None:
            named = zip(columns, row.fields, strict=True)
            items[row.fields[0]] = {name: {"S": text} for name, text in named if text}
        else:
            raw = data[row.byte : row.end_byte].decode("utf-8", "surrogateescape")
            rejects.append((row.line, row.byte, cause, raw.rstrip("\r\n")))
    return Expected(items, rejects, len(rows))


def by_key(items: Iterable[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """Scan a table; return its items by key, a string."""
    return {item[key]["S"]: item for item in items}


def read_rejects(lines: Iterable[str]) -> list[Reject]:
    """Parse rejects into the fields that the oracle knows."""
    found = [json.loads(line) for line in lines]
    return [(each["line"], each["byte"], each["cause"], each["raw"]) for each in found]
