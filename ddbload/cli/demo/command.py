"""The demo, from an empty DynamoDB to the proof."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from ddbload.cli.demo import sample
from ddbload.cli.demo.server import dynalite
from ddbload.cli.options import cores
from ddbload.cli.output import EXIT_FAILED, tell
from ddbload.contracts import FORMATS, format_of
from ddbload.errors import InvalidUsage, SourceNotFound

TABLE = "demo"


@click.command(short_help="Import a sample into a DynamoDB on this machine, and prove it.")
@click.option("--file", "file", metavar="PATH", help="A CSV or TSV with a header, instead.")
@click.option(
    "--table-key",
    metavar="COLUMN:TYPE[,COLUMN:TYPE]",
    help="Partition key, and sort key if any, of the table that --file goes into.",
)
@click.option("--rows", type=click.IntRange(0), default=20_000, show_default=True)
def demo(file: str | None, table_key: str | None, rows: int) -> int:
    """Start a strict DynamoDB (dynalite), import, scan, compare, and end everything.

    Exit status as that of the import: 3 when rows were rejected.
    """
    if (file is None) != (table_key is None):
        raise InvalidUsage("--file and --table-key (FILE and TABLE_KEY) go together")
    keys = sample.KEYS if table_key is None else _keys(table_key)
    with tempfile.TemporaryDirectory(prefix="ddbload-demo-") as folder:
        path = Path(file) if file is not None else Path(folder) / "sample.tsv"
        if file is None:
            sample.write_sample(path, rows)
            click.echo(f"made {rows:,} rows, {path.stat().st_size:,} bytes, tab separated")
        elif not path.is_file():
            raise SourceNotFound(f"{file}: no such file")
        with dynalite() as endpoint:
            click.echo(f"DynamoDB (dynalite) listens at {endpoint}")
            return _import_and_prove(path, keys, endpoint, Path(folder) / "ledger")


def _import_and_prove(
    path: Path, keys: tuple[tuple[str, str], ...], endpoint: str, ledger: Path
) -> int:
    from ddbload.aws_http.clients import AwsSettings, Clients
    from ddbload.cli.demo.proof import prove
    from ddbload.cli.import_command import run_and_tell
    from ddbload.pipeline.conductor import new_run_id
    from ddbload.pipeline.local import LocalSettings
    from ddbload.pipeline.rejects import rejects

    # Made up, and all that an emulator wants: nobody's own credentials take part.
    os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo")  # noqa: S106
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    aws = AwsSettings(region="us-east-1", endpoint_url=endpoint)
    client = Clients(aws).dynamodb
    _create(client, keys)
    file_format = format_of(path.name)
    payload: dict[str, Any] = {
        "source": {"path": str(path), "format": file_format},
        "target": {"table": TABLE},
        # Small chunks, so that there is something to hand to each worker.
        "options": {"workers": cores(), "chunk_bytes": 64 * 1024},
    }
    settings = LocalSettings(str(ledger), aws)
    run = new_run_id()
    result = run_and_tell(payload, settings, run=run, processes=cores(), resumable=False)
    if result.rows.read or result.error is None:
        click.echo("\n".join(line for line in result.lines() if "rejects  " not in line))
    if result.status != "SUCCEEDED":
        return result.exit_code
    _show_rejects(list(rejects(run, settings.context())))
    lines = rejects(run, settings.context())
    proof = prove(client, TABLE, keys, path, FORMATS[file_format], lines)
    if not proof.holds:
        tell(f"NOT PROVEN: {proof.items:,} items for {proof.keys:,} keys, {proof.wrong:,} wrong")
        return EXIT_FAILED
    click.echo(
        f"proven by a scan: {proof.items:,} items, one for each of the file's {proof.keys:,} keys,"
        " equal cell by cell"
    )
    return result.exit_code


def _show_rejects(lines: list[bytes]) -> None:
    import json
    from collections import Counter

    found = [json.loads(line) for line in lines]
    causes = Counter((each["cause"], each["column"] or "the row") for each in found)
    for (cause, column), count in causes.most_common():
        first = next(each["line"] for each in found if each["cause"] == cause)
        click.echo(f"  rejected  {count:,} for {cause} in {column}, first at line {first:,}")


def _create(client: Any, keys: tuple[tuple[str, str], ...]) -> None:
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, kind in keys
        ],
        KeySchema=[
            {"AttributeName": name, "KeyType": role}
            for (name, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
        ],
    )
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})


def _keys(text: str) -> tuple[tuple[str, str], ...]:
    keys = []
    for part in text.split(","):
        name, colon, kind = part.rpartition(":")
        if not colon:
            name, kind = part, "S"
        if not name or kind.upper() not in ("S", "N"):
            raise InvalidUsage(f"--table-key: {part!r} is not of the form column:S or column:N")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage("--table-key: one partition key, and at most one other as sort key")
    return tuple(keys)
