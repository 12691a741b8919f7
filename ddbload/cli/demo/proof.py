"""Proof that a table holds what a file says: a scan, cell by cell, against the csv module.

None of ddbload's own reading takes part: the file is read anew by the standard library.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Cells = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the scan found."""

    items: int
    keys: int
    """Distinct keys among the file's rows that were not rejected."""
    wrong: int
    """Items that are no row of the file, and keys without an item."""

    @property
    def holds(self) -> bool:
        """Whether the table is exactly the file."""
        return self.wrong == 0 and self.items == self.keys


def prove(
    client: DynamoDBClient,
    table: str,
    keys: Sequence[tuple[str, str]],
    path: Path,
    delimiter: str,
    rejects: Iterable[bytes],
) -> Proof:
    """Compare a table, all of it, with a file that has a header. Holds one cell tuple a row."""
    raws = {json.loads(line)["raw"] for line in rejects}
    types = dict(keys)
    wanted: dict[Cells, set[Cells]] = {}
    for cells in _rows(path, delimiter, types, raws):
        key = tuple((name, dict(cells)[name]) for name, _ in keys)
        wanted.setdefault(key, set()).add(cells)
    total = len(wanted)
    items = wrong = 0
    for item in _scan(client, table):
        items += 1
        found = tuple(sorted((name, _value(value)) for name, value in item.items()))
        key = tuple((name, dict(found)[name]) for name, _ in keys)
        wrong += found not in wanted.pop(key, ())
    return Proof(items, total, wrong + len(wanted))


def _rows(
    path: Path, delimiter: str, types: Mapping[str, str], rejected: set[str]
) -> Iterator[Cells]:
    csv.field_size_limit(sys.maxsize)
    rejected_rows = {
        tuple(row)
        for raw in rejected
        for row in csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter)
    }
    with path.open(encoding="utf-8-sig", newline="", errors="surrogateescape") as file:
        reader = csv.reader(file, delimiter=delimiter)
        header = next((row for row in reader if row), [])
        for row in reader:
            if not row or tuple(row) in rejected_rows:
                continue
            yield tuple(
                sorted(
                    (name, Decimal(cell) if types.get(name) == "N" else cell)
                    for name, cell in zip(header, row, strict=True)
                    if cell
                )
            )


def _value(value: Mapping[str, Any]) -> object:
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content


def _scan(client: DynamoDBClient, table: str) -> Iterator[Mapping[str, Any]]:
    for page in client.get_paginator("scan").paginate(TableName=table):
        yield from page["Items"]
