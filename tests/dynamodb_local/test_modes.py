"""Every write mode on DynamoDB Local: items and rejects are those that plain Python computes."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.console import PROGRAM
from tests.cli.transcript import items
from tests.e2e.expected import Reject, read_rejects
from tests.e2e.processes import started, until

ENGINES = ("sync", "threads", "async")
FORMATS = ("csv", "jsonl")
ROWS = 600
TYPES = {"sk": "N", "n": "N", "ok": "BOOL", "tags": "SS"}
DEFECTS = {
    "pk": ("", "empty_key"),
    "n": ("1x", "not_a_number"),
    "tags": (["a", "a"], "duplicate_in_set"),
}
"""Bad values by column, and the cause that rejects them."""

Row = dict[str, Any]
Merge = Callable[[Row | None, Row], Row | None]


def updated(old: Row | None, row: Row) -> Row:
    """As by `--on-empty remove --add tags`."""
    now = {**(old or {}), **row}
    now["tags"] = sorted({*((old or {}).get("tags") or ()), *(row["tags"] or ())})
    return now


@dataclass(frozen=True)
class Mode:
    """Write mode: its options, and the item that comes of the item before and a row."""

    label: str
    options: tuple[str, ...]
    merge: Merge
    repeats: bool = False
    """True if the result is defined for rows with equal keys."""

    @property
    def deletes(self) -> bool:
        return self.label == "delete"


MODES = [
    Mode("put", ("--mode", "put"), lambda _, row: row),
    Mode(
        "condition",
        ("--mode", "put", "--condition", "attribute_not_exists(pk) OR n < {n}"),
        lambda old, row: row if old is None or old["n"] < row["n"] else old,
    ),
    Mode("insert", ("--mode", "insert"), lambda old, row: old or row),
    Mode(
        "last-wins",
        ("--mode", "last-wins", "--position-attribute", "position"),
        lambda _, row: row,
        repeats=True,
    ),
    Mode("update", ("--mode", "update", "--on-empty", "remove", "--add", "tags"), updated),
    Mode(
        "only-existing",
        ("--mode", "update", "--on-empty", "remove", "--add", "tags", "--only-existing"),
        lambda old, row: old and updated(old, row),
    ),
    Mode("delete", ("--mode", "delete"), lambda *_: None),
]


def make_rows(rng: random.Random, repeats: bool) -> list[Row]:
    """Make good rows, each key once or some keys several times."""
    numbers = list(range(ROWS))
    if repeats:
        numbers += rng.choices(numbers, k=ROWS // 3)
        rng.shuffle(numbers)
    return [
        {
            "pk": f"p\u00e4{number % 97}",
            "sk": number,
            "n": rng.randrange(-(10**20), 10**20),
            "ok": rng.choice((True, False, None)),
            "tags": rng.choice((["a"], ["a", 'b, "c"'], ["d"], None)),
            "text": rng.choice(("it's", 'a "b", c', None)),
        }
        for number in numbers
    ]  # fmt: skip


def written(row: Row, form: str) -> bytes:
    """Return a row's line."""
    if form == "jsonl":
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    cells = [value if isinstance(value, str) else json.dumps(value) for value in row.values()]
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow("" if each == "null" else each for each in cells)
    return line.getvalue().encode()


class Case:
    """A file with good and bad rows, a table that has items, and what must come of both."""

    def __init__(self, console: Any, local: Any, table: str, mode: Mode, form: str) -> None:
        rng = random.Random(f"{mode.label} {form}")
        self.console, self.local, self.table, self.name = console, local, table, f"rows.{form}"
        before = rng.sample(make_rows(rng, repeats=False), 200)
        now: dict[tuple[str, int], Row | None] = {(row["pk"], row["sk"]): row for row in before}
        for first in range(0, len(before), 25):
            puts = [{"PutRequest": {"Item": item_of(row)}} for row in before[first : first + 25]]
            local.batch_write_item(RequestItems={table: puts})
        self.data = b"pk,sk,n,ok,tags,text\n" if form == "csv" else b""
        self.rejects: list[Reject] = []
        self.read = self.skipped = 0
        for row in make_rows(rng, mode.repeats):
            if rng.random() < 0.05:
                column = rng.choice(list(DEFECTS))
                # Deletions look at keys only: the next row deletes the same one.
                self._add_defect(row, column, form, rejected=not mode.deletes or column == "pk")
            self.read += 1
            self.data += written(row, form)
            key = row["pk"], row["sk"]
            old = now.get(key)
            now[key] = mode.merge(old, row)
            self.skipped += now[key] is old and not mode.deletes
        self.items = {key: item_of(row) for key, row in now.items() if row}
        console.path(self.name).write_bytes(self.data)

    def _add_defect(self, row: Row, column: str, form: str, *, rejected: bool) -> None:
        value, cause = DEFECTS[column]
        line = written({**row, column: value}, form)
        if rejected:
            number, raw = self.data.count(b"\n") + 1, line.decode().rstrip("\n")
            self.rejects.append((number, len(self.data), cause, raw))
        self.data += line
        self.read += 1

    def found(self) -> dict[tuple[str, int], Row]:
        found = list(items(self.local, self.table))
        for item in found:
            item.pop("position", None)
            if "tags" in item:
                item["tags"]["SS"].sort()
        return {(item["pk"]["S"], int(item["sk"]["N"])): item for item in found}

    def is_loaded(self, words: list[str]) -> None:
        """Run an import to its end, and check table, rejects and counts."""
        ended = self.console.run([*words, "--json", "--rejects", "rejects.jsonl"])
        assert ended.code == 3, ended.err
        assert self.found() == self.items
        lines = self.console.path("rejects.jsonl").read_text("utf-8").splitlines()
        assert read_rejects(lines) == self.rejects
        rows = json.loads(ended.out)["rows"]
        assert rows["read"] == self.read == sum(rows.values()) - rows["read"]
        assert rows["rejected"] == len(self.rejects) > 5
        # Rows that were written before a kill count as written.
        assert rows["skipped"] == self.skipped


def item_of(row: Row) -> Row:
    """Return a row as an item."""
    cells = ((name, TYPES.get(name, "S"), value) for name, value in row.items())
    return {
        name: {kind: str(value) if kind == "N" else value}
        for name, kind, value in cells
        if value not in (None, [])
    }


def command(case: Case, mode: Mode, engine: str) -> list[str]:
    types = ",".join(f"{name}={kind}" for name, kind in TYPES.items())
    return [
        *(str(PROGRAM), "import", case.name, case.table, *mode.options, "--types", types),
        *("--engine", engine, "--ledger", "ledger", "--chunk-bytes", "20000", "--run-id", "run"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_items_and_rejects_are_exact(console, local, new_table, mode, engine):
    number = MODES.index(mode) + ENGINES.index(engine)
    case = Case(console, local, new_table("pk:S", "sk:N"), mode, FORMATS[number % 2])
    case.is_loaded(command(case, mode, engine))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_killed_import_is_exact_after_it_is_resumed(console, local, new_table, mode):
    number = MODES.index(mode)
    case = Case(console, local, new_table("pk:S", "sk:N"), mode, FORMATS[number % 2])
    before, words = case.found(), command(case, mode, ENGINES[number % 3])
    with started(console, [*words, "--max-wcu", "300", "--processes", "2"]) as running:
        until(lambda: case.found() != before, "nothing is written")
        running.kill()
        running.process.wait()
        until(lambda: not running.members(), "processes are left")
    assert case.found() != case.items
    case.is_loaded(words)
