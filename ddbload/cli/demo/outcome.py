"""What a demo's run came to: why rows were rejected, and whether the table is the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddbload.cli.demo.proof import prove
from ddbload.cli.demo.table import TABLE, Keys
from ddbload.cli.output import EXIT_FAILED, tell
from ddbload.contracts import CSV, DELIMITERS, TSV

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
