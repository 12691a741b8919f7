"""Laws of `where`: any rows and comparisons, in any chunks, cut and killed at any time.

The oracle reads the text with `csv.DictReader` and compares `Decimal` and `str` by itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.results import SUCCEEDED_WITH_REJECTS, Report
from tests.property.scenes import EVENTS, FEWER
from tests.unit.steps.chaos import Chaos, plan
from tests.unit.steps.expected import counted
from tests.unit.steps.generated import Sizes, sizes
from tests.unit.steps.world import World

NAMES = ("id", "n", "word", "ok")
NUMBERS = (
    *("", "2000", "1999", "2000.0", "9007199254740992", "9007199254740993", "0.3", "-7", "007"),
    *("0.30000000000000004", "1e3", "1000", "+5", "12345678901234567890123456789012345678", "x"),
    "123456789012345678901234567890123456789",
)
WORDS = (
    "",
    "DE",
    "de",
    "é",
    "z",
    "Z",
    "\U0001f600",
    "a,b",
    'say "no"',
    "two\nlines",
    "10",
    "\ue000",
)
FLAGS = ("", "true", "FALSE", "1", "no", "maybe")
TESTS = (
    *((f"n{op}{value}") for op in ("=", "!=", "<", "<=", ">", ">=") for value in NUMBERS[1:13]),
    *((f"word{op}{value}") for op in ("=", "!=", "<", "<=", ">", ">=") for value in WORDS[1:7]),
    *(f"{name}{op}" for name in ("n", "word", "ok") for op in ("=", "!=")),
    *(f"ok{op}{value}" for op in ("=", "!=") for value in ("true", "false", "0")),
)
OPERATORS: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    ("!=", lambda one, other: one != other),
    ("<=", lambda one, other: one <= other),
    (">=", lambda one, other: one >= other),
    ("=", lambda one, other: one == other),
    ("<", lambda one, other: one < other),
    (">", lambda one, other: one > other),
)


class BadCellError(Exception):
    """A cell that is not of its column's type."""


def value_of(name: str, text: str) -> Any:
    """Return a cell as the oracle compares it; None for a null."""
    if text == "":
        return None
    if name == "ok":
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in known:
            raise BadCellError
        return known[text.lower()]
    if name != "n":
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise BadCellError from None
    if len(number.normalize().as_tuple().digits) > 38 or len(text.strip("0")) > 38:
        raise BadCellError
    return number


def matches(row: Mapping[str, str], test: str) -> bool:
    """Return whether a row matches a comparison. Raises `BadCellError`."""
    mark, compare = next((op, each) for op, each in OPERATORS if op in test)
    name, wanted = test.split(mark, 1)
    value = value_of(name, row[name])
    if wanted == "":
        return (value is None) is (mark == "=")
    if value is None:
        return False
    other = value_of(name, wanted)
    if name == "word":
        return compare(value.encode(), other.encode())
    return compare(value, other)


@dataclass(frozen=True)
class Row:
    """A row of the file, where it begins, and what the oracle says becomes of it."""

    cells: tuple[str, ...]
    byte: int
    fate: str


@dataclass(frozen=True)
class Sheet:
    """A file with a header, comparisons, and how it is imported."""

    rows: tuple[tuple[str, ...], ...]
    tests: tuple[str, ...]
    chunk_bytes: int
    mode: str

    @property
    def data(self) -> bytes:
        return "".join(_line(each) for each in [NAMES, *self.rows]).encode()

    @property
    def fates(self) -> list[Row]:
        """What becomes of each row."""
        byte, found = len(_line(NAMES).encode()), []
        # The text is parsed, too: a row that it loses or splits is not one of the oracle's.
        texts = list(csv.DictReader(io.StringIO(self.data.decode(), newline="")))
        assert len(texts) == len(self.rows)
        for cells, row in zip(self.rows, texts, strict=True):
            try:
                found_here = [matches(row, test) for test in self.tests]
                kept = all(found_here)
                fate = "kept" if kept else "filtered"
                if kept:
                    for name in NAMES:
                        # A delete makes the keys alone.
                        if self.mode == "put" or name == "id":
                            value_of(name, row[name])
            except BadCellError:
                fate = "rejected"
            found.append(Row(cells, byte, fate))
            byte += len(_line(cells).encode())
        return found

    @property
    def payload(self) -> dict[str, Any]:
        return {"where": list(self.tests)}

    def world(self) -> World:
        return World(
            self.data,
            types={"n": "N", "ok": "BOOL"},
            options={
                "chunk_bytes": self.chunk_bytes,
                "max_rejects": 10**6,
                "mode": self.mode,
                "concurrency": 2,
            },
            request_seconds=1.0,
            more=self.payload,
        )


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _rows(cells: list[tuple[str, str, str]]) -> tuple[tuple[str, ...], ...]:
    return tuple((f"k{number}", *each) for number, each in enumerate(cells))


def sheets() -> st.SearchStrategy[Sheet]:
    """Rows of three kinds of cells, few of them bad, and up to three comparisons."""
    cells = st.tuples(
        st.sampled_from(NUMBERS[:12] * 3 + NUMBERS),
        st.sampled_from(WORDS),
        st.sampled_from(FLAGS[:5] * 5 + FLAGS),
    )
    return st.builds(
        Sheet,
        st.lists(cells, max_size=30).map(_rows),
        st.lists(st.sampled_from(TESTS), min_size=1, max_size=3, unique=True).map(tuple),
        st.sampled_from([1, 20, 60, 10**6]),
        st.sampled_from(["put", "put", "delete"]),
    )


def check(sheet: Sheet, world: World, report: Report) -> None:
    """Check table, counts, segments and rejects of a run that has ended."""
    fates = sheet.fates
    kept = {row.cells[0] for row in fates if row.fate == "kept"}
    keys = {item["id"]["S"] for item in world.items}
    if sheet.mode == "put":
        assert keys == kept
    else:
        assert keys == {row.cells[0] for row in fates} - kept
    count = len(fates)
    by_fate = {fate: sum(row.fate == fate for row in fates) for fate in ("filtered", "rejected")}
    rows = report.rows
    assert rows.conserved
    assert (rows.read, rows.filtered, rows.rejected) == (count, *by_fate.values())
    assert rows.written == len(kept)
    if 0 < count == by_fate["rejected"]:
        assert report.status == "FAILED"
    else:
        assert report.status == (SUCCEEDED_WITH_REJECTS if by_fate["rejected"] else "SUCCEEDED")
    for segment in counted(world):
        inside = [row for row in fates if segment.start.byte <= row.byte < segment.end.byte]
        assert segment.rows.read == len(inside)
        assert segment.rows.filtered == sum(row.fate == "filtered" for row in inside)
        assert segment.rows.rejected == sum(row.fate == "rejected" for row in inside)
    assert [line["byte"] for line in world.rejects()] == [
        row.byte for row in fates if row.fate == "rejected"
    ]


def prepared(sheet: Sheet) -> World:
    world = sheet.world()
    if sheet.mode == "delete":
        for row in sheet.rows:
            world.dynamodb.put_item(TableName="books", Item={"id": {"S": row[0]}})
    return world


@FEWER
@given(sheets(), sizes(), st.sampled_from([float("inf"), 2.5, 5.5]))
def test_rows_that_match_are_written_and_all_are_counted(
    sheet: Sheet, at_once: Sizes, time: float
) -> None:
    world = prepared(sheet)
    with at_once():
        report = world.run(time)
    check(sheet, world, report)


@FEWER
@given(sheets(), sizes(), st.binary(min_size=1 + 3 * EVENTS, max_size=1 + 3 * EVENTS))
def test_kills_doubles_and_late_writes_change_nothing(
    sheet: Sheet, at_once: Sizes, recipe: bytes
) -> None:
    world = prepared(sheet)
    chaos = Chaos(world, plan(recipe))
    with at_once():
        report = chaos.conclude()
    check(sheet, world, report)
