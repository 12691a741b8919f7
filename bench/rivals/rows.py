"""Read a file's items with csv.reader."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAKERS: dict[str, Callable[[str], Any]] = {
    "S": lambda text: {"S": text},
    "N": lambda text: {"N": text},
    "BOOL": lambda text: {"BOOL": text == "true"},
}


@dataclass(frozen=True, slots=True)
class Task:
    """File to load, table, and settings."""

    path: str
    table: str
    columns: dict[str, str]
    delimiter: str
    header: bool
    concurrency: int
    checks: bool
    """True if botocore validates parameters."""

    @classmethod
    def from_command_line(cls) -> Task:
        """Read the task from this process's arguments."""
        path, table, settings = sys.argv[1:]
        return cls(path, table, **json.loads(settings))

    def items(self, makers: dict[str, Callable[[str], Any]]) -> Iterator[dict[str, Any]]:
        """Yield each row's item without empty attributes.

        `makers`: functions that convert a text, by attribute type.
        """
        columns = [(name, makers[kind]) for name, kind in self.columns.items()]
        with open(self.path, encoding="utf-8", newline="") as file:  # noqa: PTH123
            rows = csv.reader(file, delimiter=self.delimiter)
            if self.header:
                next(rows)
            for row in rows:
                yield {
                    name: make(text)
                    for (name, make), text in zip(columns, row, strict=True)
                    if text
                }

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of 25 puts in DynamoDB JSON."""
        batch = []
        for item in self.items(MAKERS):
            batch.append({"PutRequest": {"Item": item}})
            if len(batch) == 25:
                yield batch
                batch = []
        if batch:
            yield batch
