"""`ddbload demo`: which demo, and of which file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from ddbload.cli.demo.verify_table import KEYS, keys_of, write_sample
from ddbload.errors import InvalidUsage, SourceNotFound


@click.command(short_help="The whole pipeline on this machine, without an AWS account.")
@click.option("--file", "file", metavar="PATH", help="A CSV or TSV with a header, instead.")
@click.option(
    "--table-key",
    metavar="COLUMN:TYPE[,COLUMN:TYPE]",
    help="Partition key, and sort key if any, of the table that --file goes into.",
)
@click.option("--rows", type=click.IntRange(0), default=20_000, show_default=True)
@click.option(
    "--import-only",
    is_flag=True,
    help="`ddbload import` into a DynamoDB on this machine: no deployment, done in seconds.",
)
def demo(file: str | None, table_key: str | None, rows: int, import_only: bool) -> int:
    """Deploy the pipeline on this machine, upload a file, watch, compare, and end everything.

    AWS is emulated by processes that listen on 127.0.0.1 only; `cdk bootstrap` and `cdk deploy`
    run as they would on AWS. The table is scanned in the end and compared with the file, cell by
    cell. Needs ddbload's checkout, where `make demo` installs everything.

    Exit status as that of an import: 3 when rows were rejected.
    """
    if (file is None) != (table_key is None):
        raise InvalidUsage("--file and --table-key (FILE and TABLE_KEY) go together")
    keys = KEYS if table_key is None else keys_of(table_key)
    if file is not None and not Path(file).is_file():
        raise SourceNotFound(f"{file}: no such file")
    with tempfile.TemporaryDirectory(prefix="ddbload-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if file is not None:
            path = Path(file)
        else:
            path = folder / "sample.tsv"
            write_sample(path, rows)
            click.echo(f"made {rows:,} rows, {path.stat().st_size:,} bytes, tab separated")
        if import_only:
            from ddbload.cli.demo.imported import import_and_prove

            return import_and_prove(path, keys, folder)
        from ddbload.cli.demo.deployed import deploy_and_prove

        return deploy_and_prove(path, keys, folder)
