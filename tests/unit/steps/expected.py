"""Items and rejects of an import, by the oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import RowCounts
from ddbload.ledger.counted_chunks import iter_chains
from tests.oracle.csv_machine import Row, read_rows
from tests.unit.items.expected_items import BOOLEANS, causes
from tests.unit.steps.world import RUN, World, by_value

MOST_BYTES = {0: 2048, 1: 1024}
"""DynamoDB's limits for a partition key and a sort key."""

Key = tuple[Any, ...]
Values = dict[str, tuple[str, Any]]


def status_for(rows: RowCounts) -> str:
    """The status of a run that came to its end, by what became of its rows."""
    if rows.read and rows.rejected == rows.read:
        return "FAILED"
    return "SUCCEEDED_WITH_REJECTS" if rows.rejected else "SUCCEEDED"


@dataclass(frozen=True)
class Expected:
    """A row: an item, or every cause for which it may be rejected."""

    line: int
    byte: int
    raw: str
    key: Key | None
    item: Values | None
    causes: frozenset[tuple[str, str | None]] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """Every row of a file, in order."""

    rows: list[Expected]

    @property
    def rejects(self) -> list[Expected]:
        return [row for row in self.rows if row.item is None]

    @property
    def items(self) -> list[Expected]:
        return [row for row in self.rows if row.item is not None]

    @property
    def last_of_each_key(self) -> dict[Key | None, Values | None]:
        """The table, when rows are written in their order."""
        return {row.key: row.item for row in self.items}

    @property
    def all_of_each_key(self) -> dict[Key | None, list[Values | None]]:
        """Items that each key may hold if keys repeat."""
        found: dict[Key | None, list[Values | None]] = {}
        for row in self.items:
            found.setdefault(row.key, []).append(row.item)
        return found

    def within(self, start: int, end: int) -> list[Expected]:
        """The rows that begin in a range of bytes."""
        return [row for row in self.rows if start <= row.byte < end]


def outcome(
    data: bytes,
    *,
    columns: Sequence[str] | None = None,
    header: bool = True,
    keys: Sequence[str] = ("id",),
    types: Mapping[str, str] | None = None,
    marks: Sequence[str | None] = (",", '"', None, None, "utf-8"),
) -> Outcome:
    """Return the outcome of a file's rows. `columns` None: those of the header.

    `marks`: its dialect, as the oracle takes it.
    """
    rows = read_rows(data, *marks)
    if header and rows:
        columns = columns or rows[0].fields
        rows = rows[1:]
    kinds = {name: (types or {}).get(name, "S") for name in columns or ()}
    return Outcome([_expected(row, _raw(data, row, marks), kinds, keys) for row in rows])


def ends_within_quotes(data: bytes, *marks: str | None) -> bool:
    """Tell whether a file ends within a quoted field."""
    # Outside of quotes a line end that is not escaped, and whatever follows it, begins a row.
    escaped = b"z" * (marks[2] is not None)
    return read_rows(data + escaped + b"\nx", *marks)[-1].byte <= len(data)


def _raw(data: bytes, row: Row, marks: Sequence[str | None]) -> str:
    """A row as it stands, without its line end."""
    _, _, escape, _, encoding = marks
    text = data[row.byte : row.end_byte].decode(encoding or "", "surrogateescape")
    found = re.search(r"(?:\r\n|\r|\n)\Z", text)
    if found is None:
        return text
    without = text[: found.start()]
    if escape is not None and found.group() != "\r\n":
        escapes = len(without) - len(without.rstrip(escape))
        # A line end that is escaped is the field's, and the last row's at most.
        return text if escapes % 2 else without
    return without


def _expected(row: Row, raw: str, kinds: Mapping[str, str], keys: Sequence[str]) -> Expected:
    why = frozenset(_causes(row, kinds, keys))
    if why:
        return Expected(row.line, row.byte, raw, None, None, why)
    item = {
        name: (kind, _value(kind, text))
        for (name, kind), text in zip(kinds.items(), row.fields, strict=True)
        if text
    }
    return Expected(row.line, row.byte, raw, tuple(item[name][1] for name in keys), item)


def _causes(row: Row, kinds: Mapping[str, str], keys: Sequence[str]) -> set[tuple[str, str | None]]:
    names = list(kinds)

    def name(column: int | None) -> str | None:
        return names[column] if column is not None and column < len(names) else None

    # A row has one cause, and where several would do the product may name another.
    broken = [any("\udc80" <= char <= "\udcff" for char in text) for text in row.fields]
    found: set[tuple[str, str | None]] = set()
    if True in broken:
        found.add(("bad_encoding", name(broken.index(True))))
    if row.defect in ("unterminated_quote", "bad_escape"):
        found.add((row.defect, name(len(row.fields) - 1)))
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


# What a world came to.


def table_of(world: World) -> dict[Key, Values]:
    """The table's items by key."""
    items = [by_value(item) for item in world.items]
    return {tuple(item[name][1] for name, _ in world.keys): item for item in items}


def counted(world: World) -> list[Segment]:
    """The segments that count, in the source's order."""
    chains = [chain for _, chain in iter_chains(world.ledger, world.manifest)]
    return [segment for chain in chains for segment in chain]


def assert_segments_tell_the_truth(world: World, expected: Outcome) -> None:
    """Each segment's counts and rejects are exactly those of the rows in its range."""
    for segment in counted(world):
        rows = expected.within(segment.start.byte, segment.end.byte)
        assert segment.rows.read == len(rows)
        assert segment.rows.conserved
        assert segment.rows.rejected == sum(row.item is None for row in rows)
        assert segment.rows.skipped == 0
        lines = rejects_of(world, segment)
        assert_rejects_are([row for row in rows if row.item is None], lines)
        if segment.rows.read and segment.end.byte < world.ledger.record().size:
            after = [row for row in expected.rows if row.byte >= segment.end.byte]
            if after and after[0].byte == segment.end.byte:
                assert after[0].line == segment.end.line


def rejects_of(world: World, segment: Segment) -> list[dict[str, Any]]:
    if segment.rejects is None:
        return []
    data = world.store.objects[f"runs/{RUN}/{segment.rejects}"]
    return [json.loads(line) for line in data.splitlines()]


def assert_rejects_are(expected: Sequence[Expected], lines: Sequence[Mapping[str, Any]]) -> None:
    """Line, byte and text are the oracle's, and the cause is one of those that would do."""
    assert [(line["line"], line["byte"], line["raw"]) for line in lines] == [
        (row.line, row.byte, row.raw) for row in expected
    ]
    for line, row in zip(lines, expected, strict=True):
        assert (line["cause"], line["column"]) in row.causes
        assert line["detail"]
        assert line.keys() == {"line", "byte", "column", "cause", "detail", "raw"}


def counts(expected: Outcome, superseded: int = 0) -> RowCounts:
    """Return the counts that a report of a whole file must have."""
    rejected = len(expected.rejects)
    written = len(expected.rows) - rejected - superseded
    return RowCounts(len(expected.rows), written, rejected, superseded)
