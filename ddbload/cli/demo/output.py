"""Print the demo's steps with their durations, its rejects, and the result of the comparison."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ddbload.cli.demo.verify_table import TABLE, Keys, compare
from ddbload.cli.output import (
    EXIT_FAILED,
    print_stderr,
    print_stdout,
    show_progress,
)
from ddbload.cli.progress_text import percent
from ddbload.contracts.source import CSV, DELIMITERS, TSV
from ddbload.runs.progress import RunProgress

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
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
    causes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for line in lines:
        reject = json.loads(line)
        why = (reject["cause"], reject["column"] or "the row")
        causes[why] += 1
        first.setdefault(why, reject["line"])
    for why, count in causes.most_common():
        print_stdout(
            f"  rejected  {count:,} for {why[0]} in {why[1]}, first at line {first[why]:,}"
        )


def print_comparison(
    client: DynamoDBClient, keys: Keys, path: Path, rejects: Sequence[bytes], *, otherwise: int
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
