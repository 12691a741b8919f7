"""Rows and table of the demo, its steps on the terminal, and the comparison with the file."""

from __future__ import annotations

import csv
import io
import json
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddbload.cli.output import EXIT_FAILED, live_console, print_stderr, print_stdout
from ddbload.cli.plan_command import NewKeys, table_schema
from ddbload.cli.progress import show_progress
from ddbload.cli.rejects_command import count_rejects
from ddbload.contracts.source import CSV, DELIMITERS, TSV
from ddbload.runs.progress import RunProgress, percent

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


def create_table(client: DynamoDBClient, keys: NewKeys) -> None:
    """Create the table, and wait until it is active."""
    attributes, schema = table_schema(keys)
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


@contextmanager
def step(doing: str) -> Iterator[list[str]]:
    """Show a spinner during a step, then print its duration.

    Texts appended to the list that is yielded are printed after the step's name.
    """
    started = time.monotonic()
    details: list[str] = []
    with _spinner(doing):
        yield details
    suffix = "".join(f": {each}" for each in details)
    print_stdout(f"{time.monotonic() - started:5.1f} s  {doing}{suffix}")


@contextmanager
def _spinner(doing: str) -> Iterator[None]:
    console = live_console(enabled=True)
    with nullcontext() if console is None else console.status(doing):
        yield


def keep_running(variables: Mapping[str, str], *commands: str) -> None:
    """Print how to talk to the emulation, and wait until the user ends it."""
    print_stdout(
        "",
        "everything keeps running until you press Ctrl-C here; in another terminal:",
        *(f"  export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())),
        *(f"  {command}" for command in commands),
    )
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    print_stdout("stopping")


@contextmanager
def progress() -> Iterator[Callable[[RunProgress], None]]:
    """Draw progress on a terminal; otherwise print a line whenever it changes."""
    if sys.stderr.isatty():
        with show_progress(enabled=True) as draw:
            yield draw
        return
    printed = ""

    def print_totals(progress: RunProgress) -> None:
        nonlocal printed
        rows = progress.totals.rows
        now = f"{percent(progress):>9}  {rows.read:,} rows settled"
        now += f", {rows.rejected:,} rejected" if rows.rejected else ""
        if now != printed:
            printed = now
            print_stdout(now)

    yield print_totals


def text_format(name: str) -> str:
    """Return the format, csv or tsv, that a file's name ends with."""
    return TSV if name.lower().endswith((".tsv", ".tab")) else CSV


def show_rejects(lines: Sequence[bytes]) -> None:
    """Print the rejected rows by cause and column, with the line of the first one."""
    causes, first = count_rejects(lines)
    for why, count in causes.most_common():
        words = f"{why[0]} in {why[1] or 'the row'}, first at line {first[why]['line']:,}"
        print_stdout(f"  rejected  {count:,} for {words}")


def print_comparison(
    client: DynamoDBClient, keys: NewKeys, path: Path, rejects: Sequence[bytes], *, otherwise: int
) -> int:
    """Compare the table with the file; return EXIT_FAILED if they differ, else `otherwise`."""
    found = compare(client, TABLE, keys, path, DELIMITERS[text_format(path.name)], rejects)
    if not found.equal:
        print_stderr(
            f"TABLE DIFFERS: {found.items:,} items for {found.keys:,} keys, {found.wrong:,} wrong"
        )
        return EXIT_FAILED
    print_stdout(
        f"verified by a scan: {found.items:,} items, one for each of the file's {found.keys:,}"
        " keys, equal cell by cell"
    )
    return otherwise
