"""`ddbload demo`: import a file on this machine, and compare the table with the file."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli.demo.demo_table import (
    SAMPLE_KEYS,
    TABLE,
    create_table,
    keep_running,
    print_comparison,
    show_rejects,
    text_format,
    write_sample,
)
from ddbload.cli.demo.deployed import deploy_and_verify
from ddbload.cli.deploy_command import agree_to_tools
from ddbload.cli.import_command import import_with_progress
from ddbload.cli.options import GroupedCommand, cores, input_option, run_option
from ddbload.cli.output import print_stderr, print_stdout
from ddbload.cli.plan_command import NewKeys, parse_table_keys
from ddbload.contracts.results import DONE
from ddbload.deploy.toolchain import DEMO_TOOLS, IMPORT_DEMO_TOOLS, Toolchain, app_folder, install
from ddbload.errors import DemoUnavailable, InvalidUsage, SourceNotFound
from ddbload.runs.local_settings import LocalSettings
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import new_run_id

# The server ends when its standard input closes, so it never outlives its parent. Port 0 lets the
# system choose a port, which is printed on standard output. Unmodified, dynalite throws if a client
# disconnects during a request, and answers any web page that a browser on this machine shows. Web
# pages are recognized by headers that browsers add, and by foreign host names (DNS rebinding).
_SCRIPT = """
process.stdin.on('close', () => process.exit()).resume()
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0})
const refusal = ({method, headers}) => {
  if (method === 'OPTIONS') return 'OPTIONS is what browsers ask for pages'
  for (const name of ['origin', 'referer', 'sec-fetch-site'])
    if (name in headers) return `the header ${name} comes from a web page`
  const host = (headers.host || '').toLowerCase(), port = server.address().port
  if (host !== `127.0.0.1:${port}` && host !== `localhost:${port}`)
    return `the Host is ${host || 'missing'}, and must be 127.0.0.1:${port}`
}
const [serve] = server.listeners('request')
server.removeAllListeners('request').on('request', (request, response) => {
  const why = refusal(request)
  if (why === undefined) return serve(request, response)
  request.resume()
  response.writeHead(403, {'Content-Type': 'application/json', 'Connection': 'close'})
  response.end(JSON.stringify({__type: 'AccessDeniedException', message: why}))
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
"""


def _additions() -> list[str]:
    """Return Node options that add to dynalite what it lacks."""
    scripts = [
        app_folder() / "localaws" / name for name in ("show_items.cjs", "insert_statements.cjs")
    ]
    return [word for each in scripts for word in ("--require", str(each))]


@contextmanager
def dynalite(modules: Path) -> Iterator[str]:
    """Start an empty dynalite, and yield its endpoint. Raises `DemoUnavailable`.

    `modules`: folder with npm's packages.
    """
    process = subprocess.Popen(  # noqa: S603 - our own script
        [str(shutil.which("node")), *_additions(), "-e", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NODE_PATH": str(modules), "DYNALITE": str(modules / "dynalite")},
        start_new_session=True,
    )
    try:
        port = process.stdout.readline().strip() if process.stdout else b""
        if not port.isdigit():
            raise DemoUnavailable("dynalite did not start; its output is above")
        yield f"http://127.0.0.1:{port.decode()}"
    finally:
        process.kill()
        process.communicate()


def import_and_verify(
    path: Path, keys: NewKeys, folder: Path, tools: Toolchain, *, keep: bool
) -> int:
    """Import a file and check the table; return the exit status.

    The ledger is written into `folder`. Raises `DemoUnavailable`.
    """
    with dynalite(tools.node_modules) as endpoint:
        print_stdout(f"DynamoDB (dynalite) listens on {endpoint}")
        status = _import(path, keys, endpoint, folder / "ledger")
        if keep:
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            variables = {name: os.environ[name] for name in names}
            keep_running(
                {**variables, "AWS_ENDPOINT_URL_DYNAMODB": endpoint, "AWS_REGION": "us-east-1"},
                f"ddbload plan FILE {TABLE}",
                f"ddbload import FILE {TABLE}",
            )
        return status


def _import(path: Path, keys: NewKeys, endpoint: str, ledger: Path) -> int:

    # The emulator accepts any credentials. Made-up ones keep the user's out of the demo.
    os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo")  # noqa: S106
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    aws = AwsSettings(region="us-east-1", endpoint_url=endpoint)
    client = Clients(aws).dynamodb
    create_table(client, keys)
    payload: dict[str, Any] = {
        "source": {"path": str(path), "format": text_format(path.name)},
        "target": {"table": TABLE},
        # Small chunks, so that each worker gets some.
        "options": {"workers": cores(), "chunk_bytes": 64 * 1024},
    }
    settings = LocalSettings(str(ledger), aws)
    run = new_run_id()
    result = import_with_progress(payload, settings, run=run, processes=cores())
    if result.report.rows.read or result.report.error is None:
        print_stdout(*(line for line in result.lines() if "rejects  " not in line))
    if result.report.status not in DONE:
        return result.exit_code
    lines = list(iter_rejects(run, settings.context()))
    show_rejects(lines)
    return print_comparison(client, keys, path, lines, otherwise=result.exit_code)


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
    keys = (
        SAMPLE_KEYS
        if table_key is None
        else parse_table_keys(*(table_key, "--table-key", "column:S or column:N", ("S", "N"), "S"))
    )
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
