"""`ddbload demo`: the command and its options."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from ddbload.cli.demo.deployed import deploy_and_verify
from ddbload.cli.demo.imported import import_and_verify
from ddbload.cli.demo.verify_table import SAMPLE_KEYS, parse_keys, write_sample
from ddbload.cli.deploy_command import agree_to_tools
from ddbload.cli.options import GroupedCommand, input_option, run_option
from ddbload.cli.output import print_stderr, print_stdout
from ddbload.deploy.toolchain import DEMO_TOOLS, IMPORT_DEMO_TOOLS, install
from ddbload.errors import InvalidUsage, SourceNotFound


@click.command(
    "demo",
    cls=GroupedCommand,
    examples=(
        "ddbload demo",
        "ddbload demo --import-only --rows 100000",
        "ddbload demo --file books.csv --table-key author:S,year:N",
    ),
)
@input_option(
    "--file",
    "file",
    metavar="PATH",
    help="CSV or TSV file with a header to import.",
    show_default="generated rows",
)
@input_option(
    "--table-key",
    metavar="COLUMN:TYPE[,COLUMN:TYPE]",
    help="With --file: partition key and optional sort key of the table, such as word:S,year:N.",
)
@input_option(
    "--rows",
    metavar="N",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="Number of rows to generate.",
)
@run_option(
    "--import-only",
    is_flag=True,
    help="Run only `ddbload import` into a local DynamoDB, without a deployment; takes seconds.",
)
@run_option(
    "--keep",
    is_flag=True,
    help="Leave everything running until Ctrl-C, and print how to talk to it.",
)
@run_option("--yes", is_flag=True, help="Do not ask before installing what the demo needs.")
def demo_command(
    *, file: str | None, table_key: str | None, rows: int, import_only: bool, keep: bool, yes: bool
) -> int:
    """Deploy the pipeline on this machine, upload a file, and check the table.

    AWS is emulated by processes that listen on 127.0.0.1 only; `cdk bootstrap` and `cdk deploy`
    run as they do on AWS. At the end the table is scanned and compared with the file, cell by
    cell, and all processes are stopped. Needs Node.js 22 or newer. What else it needs is installed
    into a private folder in ~/.cache/ddbload ($XDG_CACHE_HOME), after asking; in a checkout
    `make demo` installs it there.

    Exit status: that of the import, such as 3 if rows were rejected.
    """
    if (file is None) != (table_key is None):
        raise InvalidUsage("--file and --table-key (FILE and TABLE_KEY) go together")
    keys = SAMPLE_KEYS if table_key is None else parse_keys(table_key)
    if file is not None and not Path(file).is_file():
        raise SourceNotFound(f"{file}: no such file")

    wanted = IMPORT_DEMO_TOOLS if import_only else DEMO_TOOLS
    agree_to_tools(wanted, yes=yes)
    tools = install(wanted, print_stderr)
    with tempfile.TemporaryDirectory(prefix="ddbload-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if file is not None:
            path = Path(file)
        else:
            path = folder / "sample.tsv"
            write_sample(path, rows)
            print_stdout(f"generated {rows:,} rows, {path.stat().st_size:,} bytes, tab-separated")
        if import_only:
            return import_and_verify(path, keys, folder, tools, keep=keep)

        return deploy_and_verify(path, keys, folder, tools, keep=keep)
