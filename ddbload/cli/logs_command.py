"""`ddbload logs`: what the functions of a deployed run logged."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli.options import GroupedCommand, output_option, run_option
from ddbload.cli.output import EXIT_DONE, EXIT_INTERRUPTED, print_stderr, print_stdout, printable
from ddbload.cli.run_location import Deployed, NamedRun, run_options
from ddbload.errors import InvalidUsage, RunNotFound
from ddbload.runs.deployed import LATE_SECONDS, LogEvent, RunLogs

LOG_POLL_SECONDS = 15.0
"""Seconds between two looks of --follow; each makes one request for each function."""
BEFORE_SECONDS = 900.0
"""Time before a run's record was written in which its first functions may have logged."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SHOWN_FIRST = ("timestamp", "level", "message")
_LEFT_OUT = frozenset(
    (*_SHOWN_FIRST, "location", "service", "correlation_id", "run", "xray_trace_id")
)
"""Fields that a line does not show: --json has them."""


@click.command(
    "logs",
    cls=GroupedCommand,
    examples=(
        "ddbload logs 20261121T073000Z-1f2e3d",
        "ddbload logs 20261121T073000Z-1f2e3d --follow",
        "ddbload logs 20261121T073000Z-1f2e3d --since 10m --json",
    ),
)
@run_option(
    "--since",
    metavar="TIME",
    help="Show lines from then on: 10m, 2h, 3d ago, or a time such as 2026-11-22T10:00.",
    show_default="the run's beginning",
)
@run_option("--follow", is_flag=True, help="Show new lines until the run ends.")
@run_options
@output_option("--json", "as_json", is_flag=True, help="Print each line as a JSON object.")
def logs_command(
    named: NamedRun,
    since: str | None,
    follow: bool,
    as_json: bool,
) -> int:
    """Show what the functions of RUN logged, by time: all of its attempts.

    A line has its time (UTC), function, level and message, and what the message is about. Row data
    is never logged. CloudWatch Logs shows a line some seconds after it was logged.

    A run of this machine has no logs: `ddbload status` and `ddbload report` have its errors.
    """
    begin = None if since is None else parse_time(since, time.time())
    run, there = named.run, named.find()
    if there.deployed is None:
        place = there.context.store.uri(f"runs/{run}")
        print_stderr(
            f"ddbload: run {run} ran on this machine, which keeps no logs; its ledger is at {place}"
        )
        return EXIT_DONE
    try:
        logs = _run_logs(run, there.deployed, named.aws)
        for event in _events(run, there.deployed, logs, begin, follow):
            print_stdout(_json_line(event) if as_json else text_line(event))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_DONE


def _events(
    run: str, there: Deployed, logs: RunLogs, begin: float | None, follow: bool
) -> Iterator[LogEvent]:
    """Return the events of a run; with `follow`, until its last execution has ended."""
    context = there.context
    since = _beginning(run, there) if begin is None else begin
    while True:
        # Looked up first: what is logged until then is read below.
        execution = there.last_execution(run) if follow else None
        started = context.now()
        yield from logs.events(since)
        if execution is None or not execution.running:
            return
        since = max(since, started - LATE_SECONDS)
        context.sleep(LOG_POLL_SECONDS)


def _run_logs(run: str, there: Deployed, aws: AwsSettings) -> RunLogs:
    return RunLogs(
        Clients(aws).service("logs"),
        there.stack.log_groups,
        run,
        missing=lambda group: print_stderr(f"ddbload: there is no log group {group} any more"),
    )


def _beginning(run: str, there: Deployed) -> float:
    """Return a time before the first function of a run began. Raises `RunNotFound`."""
    ledger = there.context.ledger(run)
    known = ledger.find_record() or ledger.find_request()
    if known is not None:
        return known.created - BEFORE_SECONDS
    execution = there.last_execution(run)
    if execution is None:
        raise RunNotFound(f"there is no run {run} in stack {there.stack.name}")
    return execution.started - BEFORE_SECONDS


def parse_time(text: str, now: float) -> float:
    """Read a time, `10m` ago or in ISO 8601 (UTC without an offset). Raises `InvalidUsage`."""
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
    """Return an event as a line of text, without characters that control a terminal."""
    words = [_time(event.at), f"{event.function:<12}"]
    fields = event.fields
    if fields is None:
        # Lambda's own lines have tabs between their parts, and one at the end.
        words.append(event.message.rstrip().replace("\t", "  "))
    else:
        words += [f"{fields.get('level', ''):<7}", str(fields.get("message", ""))]
        words += [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in fields.items()
            if name not in _LEFT_OUT and not name.startswith(("function_", "cold_start"))
        ]
    return printable(" ".join(words))


def _json_line(event: LogEvent) -> str:
    message: Any = event.message if event.fields is None else event.fields
    value = {"time": _time(event.at), "function": event.function, "stream": event.stream}
    return json.dumps({**value, "message": message})


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
