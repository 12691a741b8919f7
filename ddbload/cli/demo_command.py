"""`ddbload demo`: load a file on this machine, and compare the table with the file."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli import options, terminal
from ddbload.cli.deploy_command import agree_to_tools
from ddbload.cli.import_command import import_with_progress
from ddbload.cli.progress import show_progress
from ddbload.cli.rejects_command import count_rejects
from ddbload.cli.run_location import NamedRun
from ddbload.cli.run_result import Result
from ddbload.cli.run_setup import NewKeys, create_table, parse_table_keys
from ddbload.cli.terminal import Output
from ddbload.context import Context, reading_context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import DONE
from ddbload.contracts.source import CSV, TSV
from ddbload.contracts.upload_rule import Upload
from ddbload.deploy.cdk import Cdk
from ddbload.deploy.toolchain import (
    DEMO_TOOLS,
    IMPORT_DEMO_TOOLS,
    Toolchain,
    app_folder,
    copy_app,
    environment_without_aws,
    install,
)
from ddbload.errors import DemoUnavailable, InvalidUsage, SourceNotFound
from ddbload.ledger.ledger import temporary_ledger
from ddbload.records import Record
from ddbload.runs.deployed import attempt_report
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import new_run_id
from ddbload.runs.run_location import Deployed, find_deployed
from ddbload.verification.verify import Verdict, Verification, VerifySettings

COLUMNS = ("id", "ngram", "year", "match_count", "volume_count")
SAMPLE_KEYS = (("id", "N"),)
_SYLLABLES = ("an", "be", "co", "da", "él", "fi", "gu", "ha", "in", "ka", "lö", "mi", "no", "ṣu")


def write_sample(path: Path, rows: int, seed: int = 1) -> None:
    """Write a TSV file of words and yearly counts, in the form of Google's 1-gram files.

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


STACK = "ddbload-demo"
PREFIX = "in/"
START_SECONDS = 60.0
"""Seconds within which the run must start after the upload."""
STOP_SECONDS = 15.0
"""Seconds that a server gets to stop its own processes."""


class Loaded(Record):
    """Table that the demo loaded. Its emulation runs until the end of a `with` block."""

    result: Result
    aws: AwsSettings
    context: Context
    """Context with the run's ledger."""
    variables: Mapping[str, str]
    """Environment variables for programs that should reach the emulation."""
    commands: tuple[str, ...]
    """Commands that the user can try on the emulation."""


@options.command(
    "ddbload demo",
    "ddbload demo --import-only --rows 100000",
    "ddbload demo --file books.csv --table-key author:S,year:N",
)
def demo_command(
    file: str | None = options.input_option(
        metavar="PATH",
        help="CSV or TSV file with a header to import.",
        show_default="generated rows",
    ),
    table_key: str | None = options.input_option(
        metavar="COLUMN:TYPE[,COLUMN:TYPE]",
        help="With --file: partition key and optional sort key of the table, such as"
        " word:S,year:N.",
    ),
    rows: int = options.input_option(
        metavar="N",
        type=click.IntRange(0),
        default=20_000,
        show_default=True,
        help="Number of rows to generate.",
    ),
    import_only: bool = options.run_option(
        is_flag=True,
        help="Run only `ddbload import` into a local DynamoDB, without a deployment; takes"
        " seconds.",
    ),
    keep: bool = options.run_option(
        is_flag=True, help="Leave everything running until Ctrl-C, and print how to talk to it."
    ),
    yes: bool = options.run_option(
        is_flag=True, help="Do not ask before installing what the demo needs."
    ),
) -> int:
    """Deploy the pipeline on this machine, upload a file, and check the table.

    AWS is emulated by processes that listen on 127.0.0.1 only; `cdk bootstrap` and `cdk deploy` run
    as they do on AWS. At the end the table is scanned and compared with the file, cell by cell, and
    all processes are stopped. Needs Node.js 22 or newer. Other tools are installed into a private
    folder in ~/.cache/ddbload ($XDG_CACHE_HOME), after asking; in a checkout `make demo` installs
    them there.

    Exit status: that of the import, such as 3 if rows were rejected.
    """
    if (file is None) != (table_key is None):
        raise InvalidUsage("--file and --table-key (FILE and TABLE_KEY) go together")
    keys = (
        SAMPLE_KEYS
        if table_key is None
        else parse_table_keys(table_key, "--table-key", "column:S or column:N", ("S", "N"), "S")
    )
    if file is not None and not Path(file).is_file():
        raise SourceNotFound(f"{file}: no such file")

    wanted = IMPORT_DEMO_TOOLS if import_only else DEMO_TOOLS
    agree_to_tools(wanted, yes=yes)
    tools = install(wanted, terminal.print_stderr)
    with tempfile.TemporaryDirectory(prefix="ddbload-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        path = folder / "sample.tsv" if file is None else Path(file)
        if file is None:
            write_sample(path, rows)
            terminal.print_stdout(
                f"generated {rows:,} rows, {path.stat().st_size:,} bytes, tab-separated"
            )
        load = _load_here if import_only else _load_on_stack
        with load(path, keys, folder, tools) as loaded:
            status = _verify(path, loaded)
            if keep:
                _keep_running(loaded)
            return status


@contextmanager
def _load_here(path: Path, keys: NewKeys, folder: Path, tools: Toolchain) -> Iterator[Loaded]:
    """Import a file into dynalite with `ddbload import`. Raises `DemoUnavailable`."""
    with dynalite(tools.node_modules) as endpoint:
        terminal.print_stdout(f"DynamoDB (dynalite) listens on {endpoint}")
        # The emulator accepts any credentials. Made-up ones keep the user's out of the demo.
        account = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}
        _use_environment(account)
        aws = AwsSettings(region="us-east-1", endpoint_url=endpoint)
        create_table(Clients(aws).dynamodb, TABLE, keys)
        # Small chunks, so that each worker gets some.
        payload = _payload(path, workers=options.cores(), chunk_bytes=64 * 1024)
        named = NamedRun(new_run_id(), str(folder / "ledger"), None, aws)
        result = import_with_progress(payload, named, Output(quiet=True), options.cores())
        if result.report.rows.read or result.report.error is None:
            terminal.print_stdout(*(line for line in result.lines() if "rejects  " not in line))
        variables = {**account, "AWS_ENDPOINT_URL_DYNAMODB": endpoint, "AWS_REGION": "us-east-1"}
        commands = (f"ddbload plan FILE {TABLE}", f"ddbload import FILE {TABLE}")
        context = named.settings(payload).context()
        yield Loaded(result, aws, context, variables, commands)


@contextmanager
def _load_on_stack(path: Path, keys: NewKeys, folder: Path, tools: Toolchain) -> Iterator[Loaded]:
    """Deploy the stack to an emulated AWS, upload a file, and follow its run.

    All files are written to `folder`. All processes are stopped at the end of the block. Raises
    `DemoUnavailable` and `DeploymentFailed`.
    """
    app = folder / "app"
    copy_app(app, {})
    cdk = Cdk(folder, tools, app, _cdk_context(path.stat().st_size))
    with emulated_aws(folder, tools) as wait_until_ready, cdk.synth() as synth:
        # Synthesis needs no AWS, so it runs while the emulator starts.
        with step("AWS emulator") as details:
            aws = wait_until_ready()
            details.append(f"{aws['endpoint']}, DynamoDB {aws['dynamodb_endpoint']}")
        _use_environment(aws["environment"])
        account, region, variables = aws["account"], aws["region"], aws["environment"]
        with (
            step("cdk bootstrap and cdk synth"),
            cdk.bootstrap(account, region, variables) as bootstrap,
        ):
            bootstrap.wait()
            synth.wait()
        with step("cdk deploy") as details, cdk.deploy(variables) as deploy:
            deploy.wait()
            there = find_deployed(STACK, AwsSettings())
            details.append(f"stack {STACK}")
        create_table(there.context.clients.dynamodb, TABLE, keys)
        run = _upload(path, there)
        result = _follow(run, there)
        variables = {**variables, "DDBLOAD_STACK": STACK}
        commands = (f"ddbload report {run}", f"ddbload runs --stack {STACK}")
        yield Loaded(result, AwsSettings(), there.context, variables, commands)


def _cdk_context(size: int) -> dict[str, str]:
    """Return the demo's CDK context; other values come from cdk.json."""
    # Small chunks, so that several functions work in parallel.
    limits = {"chunk_bytes": max(64 * 1024, size // 16), "workers": max(2, options.cores())}
    uploads = [{"prefix": PREFIX, "table": TABLE, "options": limits}]
    return {"stack_name": STACK, "tables": TABLE, "uploads": json.dumps(uploads)}


def _use_environment(environment: Mapping[str, str]) -> None:
    """Point this process at the emulator, and remove the user's AWS settings."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)


def _upload(path: Path, there: Deployed) -> str:
    """Upload the file to the inbox bucket; return the id of the run that this starts."""
    # A file name may be any bytes, an object key is UTF-8.
    name = os.fsencode(path.name).decode("utf-8", "replace")
    bucket, key = there.stack.inbox_bucket, PREFIX + name
    with step("upload") as details, path.open("rb") as file:
        made = there.context.clients.s3.put_object(Bucket=bucket, Key=key, Body=file)
        details.append(f"s3://{bucket}/{key}")
    return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run


def _follow(run: str, there: Deployed) -> Result:
    """Follow the run of an upload to its end, and print its result. Raises `DemoUnavailable`."""
    with step("the upload's event starts a run") as words:
        arn, deadline = there.executions.arn_of(run), time.monotonic() + START_SECONDS
        while there.executions.find(arn) is None:
            if time.monotonic() > deadline:
                raise DemoUnavailable(
                    f"the upload did not start a run within {START_SECONDS:.0f} seconds"
                )
            time.sleep(0.2)
        words.append(run)
    with show_progress(Output()) as show:
        execution = there.follow(run, arn, show)
    report = attempt_report(run, execution, there.context)
    result = Result(report, execution.seconds)
    lines = [line for line in result.lines() if "rejects  " not in line]
    lines.insert(
        2, f"  chunks    {report.chunks_done:,} of {report.chunks:,} imported and verified"
    )
    place = f"s3://{there.stack.work_bucket}/runs/{run}/report.json"
    terminal.print_stdout(*lines, f"  report    {place}, until the demo ends")
    terminal.print_error(report.error)
    return result


def _payload(path: Path, **limits: int) -> dict[str, Any]:
    kind = TSV if path.name.lower().endswith((".tsv", ".tab")) else CSV
    source = {"path": str(path), "format": kind}
    return {"source": source, "target": {"table": TABLE}, "options": limits}


def _verify(path: Path, loaded: Loaded) -> int:
    """Print rejects by cause and compare the table with the file; return the exit status."""
    report = loaded.result.report
    if report.status not in DONE:
        return loaded.result.exit_code
    causes, first = count_rejects(iter_rejects(report.run, loaded.context))
    for (cause, column), count in causes:
        words = f"{cause} in {column or 'the row'}, first at line"
        terminal.print_stdout(f"  rejected  {count:,} for {words} {first[cause, column]['line']:,}")
    if not report.rows.written:
        return loaded.result.exit_code
    verdict, context = Verdict(), reading_context(loaded.aws)
    with temporary_ledger() as ledger:
        payload = Payload.from_json(_payload(path))
        Verification(payload, VerifySettings(), ledger, context).run(verdict, None)
    keys = verdict.keys
    if not keys.are_equal:
        wrong = keys.missing + keys.different + keys.extra
        terminal.print_stderr(
            f"TABLE DIFFERS: {verdict.table_items:,} items for {keys.keys:,} keys, {wrong:,} wrong"
        )
        return terminal.EXIT_FAILED
    terminal.print_stdout(
        f"verified by a scan: {verdict.table_items:,} items, one for each of the file's"
        f" {keys.keys:,} keys, equal cell by cell"
    )
    return loaded.result.exit_code


@contextmanager
def step(doing: str) -> Iterator[list[str]]:
    """Show a spinner during a step, then print the step's duration.

    Yields a list; texts appended to it are printed after the step's name.
    """
    started = time.monotonic()
    details: list[str] = []
    console = terminal.live_console()
    with nullcontext() if console is None else console.status(doing):
        yield details
    suffix = "".join(f": {each}" for each in details)
    terminal.print_stdout(f"{time.monotonic() - started:5.1f} s  {doing}{suffix}")


def _keep_running(loaded: Loaded) -> None:
    """Print how to reach the emulation, and wait until the user presses Ctrl-C."""
    variables = sorted(loaded.variables.items())
    terminal.print_stdout(
        "",
        "everything keeps running until you press Ctrl-C here; in another terminal:",
        *(f"  export {name}={shlex.quote(value)}" for name, value in variables),
        *(f"  {command}" for command in loaded.commands),
    )
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    terminal.print_stdout("stopping")


# Servers: dynalite for an import alone, an emulated AWS for the whole pipeline.


@contextmanager
def _serving(
    command: Sequence[str], *, log: IO[bytes] | None = None, **more: Any
) -> Iterator[Callable[[], bytes]]:
    """Run a server until the end of the block.

    Yields a function that waits for the server's first line of output and returns it. The server
    also ends if this process is killed, because that closes its standard input.
    """
    process = subprocess.Popen(  # noqa: S603 - the app's own programs
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C reaches this process alone, which stops the server in order.
        start_new_session=True,
        **more,
    )
    try:
        yield lambda: process.stdout.readline().strip() if process.stdout else b""
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            terminal.print_stderr("ddbload: the AWS emulator did not stop in time and was killed")
        finally:
            # Also after a second Ctrl-C; has no effect if the process has ended.
            process.kill()
            process.wait()


@contextmanager
def dynalite(modules: Path) -> Iterator[str]:
    """Start an empty dynalite and yield its endpoint. Raises `DemoUnavailable`.

    `modules`: folder with dynalite's npm packages.
    """
    script = str(app_folder() / "localaws" / "dynalite_server.cjs")
    variables = {**os.environ, "DYNALITE": str(modules / "dynalite")}
    with _serving([str(shutil.which("node")), script, "127.0.0.1"], env=variables) as first_line:
        port = first_line()
        if not port.isdigit():
            raise DemoUnavailable("dynalite did not start; its output is above")
        yield f"http://127.0.0.1:{port.decode()}"


@contextmanager
def emulated_aws(folder: Path, tools: Toolchain) -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Start the AWS emulator, with logs in `folder`.

    Yields a function that waits until the emulator is ready and returns its account, region,
    endpoints and environment. The function raises `DemoUnavailable` if the emulator failed to
    start.
    """
    with (folder / "localaws.log").open("w+b") as log:
        variables = {"TMPDIR": str(folder), "PYTHONPATH": str(app_folder())}
        command = [tools.python, "-m", "localaws", "--exit-on-stdin-eof"]
        with _serving(
            command,
            log=log,
            # The emulator looks for npm packages in its working folder.
            cwd=tools.node_modules.parent,
            env={**environment_without_aws(), **variables},
        ) as first_line:

            def wait_until_ready() -> Mapping[str, Any]:
                line = first_line()
                if not line:
                    log.seek(0)
                    terminal.print_stderr(*log.read().decode(errors="replace").splitlines())
                    raise DemoUnavailable("the AWS emulator did not start; its output is above")
                found: Mapping[str, Any] = json.loads(line)
                return found

            yield wait_until_ready
