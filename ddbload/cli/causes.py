"""Why rows were rejected, counted and told."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ddbload.cli.output import printable

Causes = Counter[tuple[str, str | None]]
"""Rows by cause and column."""
Ranked = list[tuple[str, str | None, int]]


def ranked(causes: Causes) -> Ranked:
    """The most frequent first, and of equals as the alphabet has them, wherever they stood."""
    by_name = sorted(causes.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    return [
        (cause, column, rows)
        for (cause, column), rows in sorted(by_name, key=lambda each: -each[1])
    ]


def told(cause: str, column: str | None) -> str:
    """A cause and where it is, for people."""
    return f"{cause} in {printable(column or 'the row')}"


def as_json(causes: Ranked) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"cause": cause, "column": column, "rows": rows} for cause, column, rows in causes]
