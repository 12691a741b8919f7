"""`ddbload runs`, `ddbload ls` and `ddbload logs`: list runs, objects and log lines."""

from __future__ import annotations

import json
import os.path
import re
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click
from rich.text import Text

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli import options, terminal
from ddbload.cli.run_location import NamedRun, run_options
from ddbload.cli.tables import draw, make_table, status_style
from ddbload.cli.terminal import Output
from ddbload.contracts.results import ALREADY_LOADED, STATUSES
from ddbload.dynamodb.modes import mode_of
from ddbload.errors import InvalidUsage, RunNotFound, visible
from ddbload.report_page.markup import duration_text
from ddbload.runs.deployed import LATE_SECONDS, LogEvent, RunLogs
from ddbload.runs.list_runs import RunSummary, list_runs
from ddbload.runs.run_location import Deployed, find_runs
from ddbload.source.catalogs.globs import Glob, has_wildcards
from ddbload.source.local_file import name_for_user
from ddbload.source.s3_listing.list_objects import list_objects
from ddbload.source.s3_listing.list_page import ListedObject

_LINES_PER_WRITE = 1000
LOG_POLL_SECONDS = 15.0
"""Seconds between polls of --follow. Each poll makes one request per function."""
BEFORE_SECONDS = 900.0
"""Seconds before a run's record was written from which logs are searched."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LEFT_OUT = {"timestamp", "level", "message", "location", "service", "correlation_id", "run"}
"""Log fields that only --json prints."""


@options.command(
    "ddbload runs",
    "ddbload runs --status FAILED --table books",
    "ddbload runs --source s3://my-bucket/books.csv --stack my-loader",
)
def runs_command(
    limit: int = options.output_option(
        metavar="N",
        type=click.IntRange(1, 1000),
        default=20,
        show_default=True,
        help="Show at most N, the newest.",
    ),
    statuses: tuple[str, ...] = options.output_option(
        "--status",
        metavar="STATUS",
        type=click.Choice(["RUNNING", *STATUSES], case_sensitive=False),
        multiple=True,
        help=f"Show runs of this status: RUNNING, {', '.join(STATUSES)}. May be repeated.",
    ),
    table: str | None = options.output_option(metavar="TABLE", help="Show runs into this table."),
    source: str | None = options.output_option(
        metavar="SOURCE",
        help="Show runs that have loaded this file or s3://bucket/key, alone or with others.",
    ),
    ledger: str | None = options.ledger_option,
    stack: str | None = options.stack_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(),
) -> None:
    """List the runs of this machine, or with --stack those of a deployed stack.

    Each line has a run's id, status, start, duration, rows, table and source. A run that retries
    rejects names the run that rejected them.
    """
    there = find_runs(ledger, stack, aws)
    executions = there.executions if isinstance(there, Deployed) else None
    if source is not None and not source.startswith("s3://"):
        source = os.path.realpath(source)
    found = list_runs(
        there.context, executions, limit, statuses=statuses, table=table, source=source
    )
    if output.as_json:
        terminal.print_json({"runs": [each.to_json() for each in found]})
        return
    if not found:
        none = "no such run" if statuses or table or source else "no runs"
        uri = there.context.store.uri("")
        where = f"the ledger at {uri}; --stack NAME lists those of a deployed stack"
        if isinstance(there, Deployed):
            where = f"stack {there.stack.name}"
        terminal.print_stderr(f"ddbload: {none} in {where}")
        return
    _draw_runs(found)


def _draw_runs(runs: list[RunSummary]) -> None:
    """Draw a table with one line per run."""
    rows = (
        (
            each.run,
            Text(visible(each.status), status_style(each.status)),
            _moment(each.began),
            "" if each.seconds is None else duration_text(each.seconds),
            ", ".join(_counts(each)),
            each.table or "",
            _source(each),
        )
        for each in runs
    )
    head = ("run", "status", "began", "took", "rows", "into", "from")
    table = make_table(head, rows, right=("took",), flexible="from", whole=("run", "status"))
    draw(table, whole_lines=True)


def _counts(run: RunSummary) -> Iterator[str]:
    """Yield the run's written rows (named by its mode), its other rows, and its error."""
    if run.rows is not None and run.status != ALREADY_LOADED:
        yield mode_of(run.mode).written_text(run.rows.written, run.uncertain)
        for name, count in run.rows.outcomes.items():
            if count and name != "written":
                yield f"{count:,} {name}"
    if run.error is not None and run.error != run.status:
        yield run.error


def _source(run: RunSummary) -> str:
    if run.retry_of is not None:
        return f"corrected rejects of {run.retry_of}"
    return "" if run.source is None else name_for_user(run.source)


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


@options.command(
    "ddbload ls s3://my-bucket/books/",
    "ddbload ls s3://my-bucket/books/ --long",
    "ddbload ls 's3://my-bucket/in/**/*.csv' --count",
)
def ls_command(
    place: str = options.argument(),
    requests: int = options.input_option(
        metavar="N",
        type=click.IntRange(1, 256),
        default=16,
        show_default=True,
        help="Concurrent requests for pages; 1 lists page by page.",
    ),
    is_long: bool = options.output_option(
        "--long", "-l", is_flag=True, help="Show size, time and storage class as well."
    ),
    only_count: bool = options.output_option(
        "--count", is_flag=True, help="Show only the number of objects and their bytes."
    ),
    output: Output = options.output_options(
        json="Print JSON lines; with --count, one JSON object."
    ),
    aws: AwsSettings = options.aws_options,
) -> int:
    """List the objects under PLACE: s3://bucket, s3://bucket/prefix or s3://bucket/in/*.csv.

    Prints one URI per line, in key order, for all keys below the prefix. In a pattern, * and ?
    match characters except /, ** matches any characters, and [..] one of the listed characters.
    """
    bucket, _, name = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://") or not bucket:
        raise InvalidUsage(f"{place} is not an S3 URI: write s3://bucket or s3://bucket/prefix")
    found = _list(bucket, name, requests, aws)
    try:
        if only_count:
            output.show(*_count(found))
        elif output.as_json:
            return _write(json.dumps(each._asdict(), ensure_ascii=False) for each in found)
        else:
            return _write(_lines(found, f"s3://{bucket}/", is_long))
    finally:
        found.close()
    return terminal.EXIT_DONE


def _list(bucket: str, name: str, requests: int, aws: AwsSettings) -> Generator[ListedObject]:
    glob = Glob(name) if has_wildcards(name) else None
    clients = Clients(aws)
    prefix = name if glob is None else glob.prefix
    signer = clients.s3_signer(bucket)
    with closing(
        list_objects(clients.s3, bucket, prefix, signer=signer, requests=requests)
    ) as objects:
        if glob is None:
            yield from objects
        else:
            matches = glob.matches
            yield from (each for each in objects if matches(each.key))


def _count(found: Iterable[ListedObject]) -> tuple[dict[str, int], str]:
    """Count objects and bytes; return the counts as JSON and as a line of text."""
    objects = size = 0
    for each in found:
        objects += 1
        size += each.size
    text = f"{terminal.counted(objects, 'object')}, {terminal.counted(size, 'byte')}"
    return {"objects": objects, "bytes": size}, text


def _lines(found: Iterable[ListedObject], start: str, is_long: bool) -> Iterator[str]:
    # A pipe gets keys unescaped.
    show = visible if sys.stdout.isatty() else str
    for each in found:
        uri = show(start + each[0])
        if is_long:
            _, size, _, storage, modified = each
            uri = f"{size:>15}  {show(modified):24}  {show(storage):12}  {uri}"
        yield uri


def _write(lines: Iterator[str]) -> int:
    """Write lines on stdout; return the exit status."""
    # The first line is written at once.
    size = 1
    while some := list(islice(lines, size)):
        try:
            sys.stdout.write("\n".join([*some, ""]))
            sys.stdout.flush()
        except OSError as error:
            return terminal.report_stdout_error(terminal.stdout_error() or error)
        size = _LINES_PER_WRITE
    return terminal.EXIT_DONE


@options.command(
    "ddbload logs 20261121T073000Z-1f2e3d",
    "ddbload logs 20261121T073000Z-1f2e3d --follow",
    "ddbload logs 20261121T073000Z-1f2e3d --since 10m --json",
)
def logs_command(
    since: str | None = options.run_option(
        metavar="TIME",
        help="Show lines from then on: 10m, 2h, 3d ago, or a time such as 2026-11-22T10:00.",
        show_default="the run's beginning",
    ),
    follow: bool = options.run_option(is_flag=True, help="Show new lines until the run ends."),
    named: NamedRun = run_options,
    output: Output = options.output_options(json="Print each line as a JSON object."),
) -> int:
    """Show what the functions of RUN logged in all attempts, sorted by time.

    A line has its time (UTC), function, level, message, and the message's details. Row data is
    never logged. CloudWatch Logs shows a line some seconds after it was logged.

    A run of this machine has no logs: `ddbload status` and `ddbload report` show its errors.
    """
    begin = None if since is None else parse_time(since, time.time())
    run, there = named.run, named.find()
    if not isinstance(there, Deployed):
        place = there.context.store.uri(f"runs/{run}")
        terminal.print_stderr(
            f"ddbload: run {run} ran on this machine, which keeps no logs; its ledger is at {place}"
        )
        return terminal.EXIT_DONE
    try:
        for event in _events(run, there, begin, follow):
            terminal.print_stdout(_json_line(event) if output.as_json else text_line(event))
    except KeyboardInterrupt:
        return terminal.EXIT_INTERRUPTED
    return terminal.EXIT_DONE


def _events(run: str, there: Deployed, begin: float | None, follow: bool) -> Iterator[LogEvent]:
    """Yield the log events of a run. `follow`: until its last execution has ended."""
    context = there.context
    logs = RunLogs(
        context.clients.service("logs"),
        there.stack.log_groups,
        run,
        missing=lambda group: terminal.print_stderr(
            f"ddbload: there is no log group {group} any more"
        ),
    )
    since = _beginning(run, there) if begin is None else begin
    while True:
        # Read the state before the log, so that lines logged before the end are not missed.
        execution = there.last_execution(run) if follow else None
        started = context.now()
        yield from logs.events(since)
        if execution is None or not execution.running:
            return
        since = max(since, started - LATE_SECONDS)
        context.sleep(LOG_POLL_SECONDS)


def _beginning(run: str, there: Deployed) -> float:
    """Return a time before the run's first function was invoked. Raises `RunNotFound`."""
    ledger = there.context.ledger(run)
    known = ledger.find_record() or ledger.find_request()
    if known is not None:
        return known.created - BEFORE_SECONDS
    execution = there.last_execution(run)
    if execution is None:
        raise RunNotFound(f"there is no run {run} in stack {there.stack.name}")
    return execution.started - BEFORE_SECONDS


def parse_time(text: str, now: float) -> float:
    """Parse `10m` (ago) or ISO 8601 (UTC without an offset). Raises `InvalidUsage`.

    Returns seconds since the epoch.
    """
    ago = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if ago is not None:
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidUsage(
            f"--since {text!r}: write 10m, 2h or 3d, or a time such as 2026-11-22T10:00"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def text_line(event: LogEvent) -> str:
    """Return an event as a line of text, with control characters escaped."""
    words = [_time_text(event.at), f"{event.function:<12}"]
    fields = event.fields
    if fields is None:
        # Lambda's own lines separate their fields by tabs and end with one.
        words.append(event.message.rstrip().replace("\t", "  "))
    else:
        words += [f"{fields.get('level', ''):<7}", str(fields.get("message", ""))]
        words += [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in fields.items()
            if name not in _LEFT_OUT and not name.startswith(("function_", "cold_start", "xray_"))
        ]
    return visible(" ".join(words))


def _json_line(event: LogEvent) -> str:
    message: Any = event.message if event.fields is None else event.fields
    value = {"time": _time_text(event.at), "function": event.function, "stream": event.stream}
    return json.dumps({**value, "message": message})


def _time_text(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
