"""Generate the demo's file, create its table, and compare the table with the file."""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddbload.errors import InvalidUsage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


COLUMNS = ("id", "ngram", "year", "match_count", "volume_count")
SAMPLE_KEYS = (("id", "N"),)
_SYLLABLES = ("an", "be", "co", "da", "él", "fi", "gu", "ha", "in", "ka", "lö", "mi", "no", "ṣu")


def write_sample(path: Path, rows: int, seed: int = 1) -> None:
    """Write a TSV file of words and their yearly counts, as Google's 1-gram files have them.

    Ids are distinct. The same seed gives the same file.
    """
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for number in range(1, rows + 1):
            word = "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 5)))
            if rng.random() < 0.01:
                # Quoted, with a quote, a tab and a line end inside.
                word = f'"{word} ""{word}""\t{word}\n{word}"'
            matches = int(rng.paretovariate(0.6)) % 10**7 + 1
            volumes = rng.randint(1, matches)
            file.write(f"{number}\t{word}\t{rng.randint(1800, 2019)}\t{matches}\t{volumes}\n")


TABLE = "demo"
Keys = tuple[tuple[str, str], ...]
"""Name and type of the partition key, and of the sort key if the table has one."""


def parse_keys(text: str) -> Keys:
    """Parse `isbn:S`, or `word:S,year:N`. Raises `InvalidUsage`."""
    keys = []
    for part in text.split(","):
        name, colon, kind = part.rpartition(":")
        if not colon:
            name, kind = part, "S"
        if not name or kind.upper() not in ("S", "N"):
            raise InvalidUsage(f"--table-key: {part!r} is not of the form column:S or column:N")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage("--table-key: one partition key, and at most one other as sort key")
    return tuple(keys)


def create_table(client: DynamoDBClient, keys: Keys) -> None:
    """Create the table, and wait until it is active."""
    attributes: Any = [{"AttributeName": name, "AttributeType": kind} for name, kind in keys]
    schema: Any = [
        {"AttributeName": name, "KeyType": role}
        for (name, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=attributes,
        KeySchema=schema,
    )
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})


Cells = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Result of comparing a table with a file."""

    items: int
    keys: int
    """Distinct keys among the file's rows that were not rejected."""
    wrong: int
    """Items that match no row of the file, and keys without an item."""

    @property
    def equal(self) -> bool:
        """True if the table has exactly the rows of the file."""
        return self.wrong == 0 and self.items == self.keys


def compare(
    client: DynamoDBClient,
    table: str,
    keys: Sequence[tuple[str, str]],
    path: Path,
    delimiter: str,
    rejects: Iterable[bytes],
) -> TableCheck:
    """Compare all items of a table with a file that has a header.

    Keeps the cells of all rows in memory. Rows in `rejects` are left out.
    """
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
    return TableCheck(items, total, wrong + len(wanted))


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
