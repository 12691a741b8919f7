"""What the oracle says an import must come to: items, and rejects with their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.oracle.csv_machine import Row, read_rows
from tests.unit.rows.expected_items import BOOLEANS, causes

MOST_BYTES = {0: 2048, 1: 1024}
"""DynamoDB's limits for a partition key and a sort key."""


@dataclass(frozen=True)
class Rejected:
    """A row that must be rejected, and every cause that would do."""

    line: int
    byte: int
    raw: str
    causes: frozenset[tuple[str, str | None]]


@dataclass(frozen=True)
class Outcome:
    """Every row of a file, as an item or as a reject, in order."""

    items: list[dict[str, tuple[str, Any]]]
    keys: list[tuple[Any, ...]]
    rejects: list[Rejected]

    @property
    def rows(self) -> int:
        return len(self.items) + len(self.rejects)

    @property
    def last_of_each(self) -> dict[tuple[Any, ...], dict[str, tuple[str, Any]]]:
        """The table, when rows are written in their order."""
        return dict(zip(self.keys, self.items, strict=True))


def outcome(
    data: bytes,
    *,
    columns: Sequence[str] | None = None,
    header: bool = True,
    keys: Sequence[str] = ("id",),
    types: Mapping[str, str] | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
) -> Outcome:
    """What the rows of a file are. `columns` None: as the header names them."""
    rows = read_rows(data, delimiter, quote)
    if header and rows:
        columns = columns or rows[0].fields
        rows = rows[1:]
    kinds = {name: (types or {}).get(name, "S") for name in columns or ()}
    found = Outcome([], [], [])
    for row in rows:
        why = frozenset(_causes(row, kinds, keys))
        if why:
            raw = data[row.byte : row.end_byte].decode(errors="surrogateescape").rstrip("\r\n")
            found.rejects.append(Rejected(row.line, row.byte, raw, why))
            continue
        item = {
            name: (kind, _value(kind, text))
            for (name, kind), text in zip(kinds.items(), row.fields, strict=True)
            if text
        }
        found.items.append(item)
        found.keys.append(tuple(item[name][1] for name in keys))
    return found


def _causes(row: Row, kinds: Mapping[str, str], keys: Sequence[str]) -> set[tuple[str, str | None]]:
    names = list(kinds)

    def name(column: int | None) -> str | None:
        return names[column] if column is not None and column < len(names) else None

    broken = [any("\udc80" <= char <= "\udcff" for char in text) for text in row.fields]
    found: set[tuple[str, str | None]] = set()
    if True in broken:
        found.add(("bad_encoding", name(broken.index(True))))
    if row.defect == "unterminated_quote":
        found.add(("unterminated_quote", name(len(row.fields) - 1)))
    if row.defect == "bad_quote":
        found |= {("bad_quote", name(column)) for column in range(len(row.fields))}
    if found:
        return found
    limits = {key: MOST_BYTES[place] for place, key in enumerate(keys) if kinds[key] == "S"}
    return {(cause, name(column)) for cause, column in causes(row.fields, kinds, keys, limits)}


def _value(kind: str, text: str) -> Any:
    if kind == "N":
        return Decimal(text)
    return BOOLEANS[text.lower()] if kind == "BOOL" else text
