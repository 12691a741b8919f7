"""What the demo is doing, and how long each part took."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddbload.cli.demo.verify_table import TABLE, Keys, prove
from ddbload.cli.output import EXIT_FAILED, tell
from ddbload.cli.progress import live_progress
from ddbload.contracts.payload import CSV, DELIMITERS, TSV

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.pipeline.context import RunTotals


@contextmanager
def step(doing: str) -> Iterator[list[str]]:
    """Say what is done, and when it is, how long it took.

    What is put into the list that this gives is said then.
    """
    began = time.monotonic()
    words: list[str] = []
    with _spinner(doing):
        yield words
    said = "".join(f": {each}" for each in words)
    click.echo(f"{time.monotonic() - began:5.1f} s  {doing}{said}")


@contextmanager
def _spinner(doing: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


@contextmanager
def progress() -> Iterator[Callable[[RunTotals], None]]:
    """A bar on a terminal; elsewhere a line whenever there is news."""
    if sys.stderr.isatty():
        with live_progress(enabled=True) as draw:
            yield draw
        return
    said = ""

    def say(totals: RunTotals) -> None:
        nonlocal said
        share = 100 * totals.bytes // max(1, totals.size)
        now = f"{share:>7} %  {totals.rows.read:,} rows settled"
        now += f", {totals.rows.rejected:,} rejected" if totals.rows.rejected else ""
        if now != said:
            said = now
            click.echo(now)

    yield say


def text_format(name: str) -> str:
    """The format of delimited text that a file's name ends with."""
    return TSV if name.lower().endswith((".tsv", ".tab")) else CSV


def show_rejects(lines: Sequence[bytes]) -> None:
    """Say how many rows were rejected for which cause, and where the first one is."""
    causes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for line in lines:
        reject = json.loads(line)
        why = (reject["cause"], reject["column"] or "the row")
        causes[why] += 1
        first.setdefault(why, reject["line"])
    for why, count in causes.most_common():
        click.echo(f"  rejected  {count:,} for {why[0]} in {why[1]}, first at line {first[why]:,}")


def proven(
    client: DynamoDBClient, keys: Keys, path: Path, rejects: Sequence[bytes], *, otherwise: int
) -> int:
    """Compare the table with the file, and say so: EXIT_FAILED, or else `otherwise`."""
    proof = prove(client, TABLE, keys, path, DELIMITERS[text_format(path.name)], rejects)
    if not proof.holds:
        tell(f"NOT PROVEN: {proof.items:,} items for {proof.keys:,} keys, {proof.wrong:,} wrong")
        return EXIT_FAILED
    click.echo(
        f"proven by a scan: {proof.items:,} items, one for each of the file's {proof.keys:,} keys,"
        " equal cell by cell"
    )
    return otherwise
