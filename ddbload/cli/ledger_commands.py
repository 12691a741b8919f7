"""`ddbload status` and `ddbload report`: progress and result of a run, from its ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from ddbload.cli.options import GroupedCommand, json_option, output_option, run_option
from ddbload.cli.output import (
    EXIT_INTERRUPTED,
    print_error,
    print_json,
    print_stderr,
    print_stdout,
    printable,
)
from ddbload.cli.progress import show_progress
from ddbload.cli.run_location import NamedRun, RunLocation, run_options
from ddbload.cli.run_result import Result
from ddbload.contracts.results import FAILED, Failure, Report
from ddbload.errors import InvalidUsage, LedgerDamaged, OutputUnwritable
from ddbload.ledger.run_state import RunState
from ddbload.report_page import run_page
from ddbload.runs.deployed import follow
from ddbload.runs.run_status import SPOOL, follow_process
from ddbload.source.local_file import name_for_user
from ddbload.steps.read_run import SeenRun, empty_report, why_not_resumable


@click.command(
    "status",
    cls=GroupedCommand,
    examples=(
        "ddbload status 20261121T073000Z-1f2e3d",
        "ddbload status 20261121T073000Z-1f2e3d --follow",
        "ddbload status 20261121T073000Z-1f2e3d --stack my-loader --json",
    ),
)
@run_option("--follow", is_flag=True, help="Show progress until the run ends, then its status.")
@run_options
@json_option
def status_command(
    named: NamedRun,
    follow: bool,
    as_json: bool,
) -> int:
    """Show whether RUN is running, and its progress.

    The status is RUNNING, or how the run ended: INTERRUPTED if its process was stopped or killed,
    CANCELLED if it was cancelled or its execution stopped. Unless RUN is done, the command that
    resumes it is shown.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    run, there = named.run, named.find()
    if follow and not _follow(run, there):
        return EXIT_INTERRUPTED

    seen = there.read(run)
    why_not, resume = why_not_resumable(seen), None
    if why_not is None and not seen.state.running and not seen.state.done:
        resume = named.command("resume")
    if as_json:
        print_json(_status_json(seen, resume))
        return 0
    lines = [*_progress_lines(seen), *_process_lines(seen)]
    if resume is not None:
        lines.append(f"  resume    {resume}")
    elif why_not is not None:
        lines.append(f"  resume    not possible: {why_not}; start a new run, with another run id")
    print_stdout(*lines)
    return 0


def _status_json(seen: SeenRun, resume: str | None) -> dict[str, Any]:
    rows, payload, execution = seen.report.rows, seen.payload, seen.execution
    value = {**seen.report.to_json(), "rows": {"read": rows.read, **rows.outcomes}}
    if payload is not None:
        value |= {"source": payload.source.uri, "table": payload.table}
    return value | {"execution": execution and execution.arn, "resume": resume}


def _follow(run: str, there: RunLocation) -> bool:
    """Show the progress of a run until it ends; return false if Ctrl-C was pressed."""
    context = there.context
    execution = None if there.deployed is None else there.deployed.last_execution(run)
    try:
        with show_progress(enabled=True) as draw:
            if there.deployed is None:
                follow_process(run, context, draw)
            elif execution is not None and execution.running:
                follow(
                    *(there.deployed.executions, execution.arn, context.ledger(run)),
                    watch=draw,
                    sleep=context.sleep,
                    clock=context.clock,
                )
    except KeyboardInterrupt:
        print_stderr("ddbload: stopped following; the run continues")
        return False
    return True


def _progress_lines(seen: SeenRun) -> Iterator[str]:
    report, rows, state = seen.report, seen.report.rows, seen.state
    yield f"run {seen.run}: {state.status}"
    if seen.payload is not None:
        yield f"  from      {printable(name_for_user(seen.payload.source.uri))}"
        yield f"  into      {seen.payload.table}"
    if seen.record is None:
        yield f"  chunks    none{_before_record(seen)}"
        return
    chunks = f"{report.chunks_done:,} of {report.chunks:,} done"
    share = f"{100 * report.bytes // max(1, report.size)} % of the bytes"
    if state.running and not report.chunks:
        chunks, share = "not known yet", "preflight is reading the source"
    if seen.record.loads_nothing:
        chunks, share = "none", "nothing is left to load"
    yield f"  chunks    {chunks}, {share}"
    yield (
        f"  rows      {rows.read:,} settled: {rows.text(report.mode, written=report.written_text)}"
    )
    if seen.record.loaded_before is not None:
        yield f"  loaded    before: {seen.record.loaded_before.text}"


def _before_record(seen: SeenRun) -> str:
    """Say what a run without a record is doing, or that it ended."""
    if not seen.state.running:
        return "; the run ended before it wrote a row"
    if seen.heartbeat is not None and seen.heartbeat.step == SPOOL:
        return " yet, standard input is being copied to a temporary file"
    return " yet, preflight is checking the source"


def _process_lines(seen: SeenRun) -> Iterator[str]:
    heartbeat, state = seen.heartbeat, seen.state
    if seen.execution is not None:
        yield f"  execution {seen.execution.arn}"
    if heartbeat is not None:
        doing = "is working" if state.running else "ended without a report"
        when = f"{datetime.fromtimestamp(heartbeat.at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        yield (f"  process   {heartbeat.pid} on {heartbeat.host} {doing}, last heartbeat at {when}")
    if state.error is not None:
        label = "error  " if seen.record is None else "missing"
        yield f"  {label}   {state.error.name}: {printable(state.error.message)}"


@click.command(
    "report",
    cls=GroupedCommand,
    examples=(
        "ddbload report 20261121T073000Z-1f2e3d",
        "ddbload report 20261121T073000Z-1f2e3d --html report.html",
        "ddbload report 20261121T073000Z-1f2e3d --json",
    ),
)
@run_options
@output_option(
    "--html",
    metavar="FILE",
    help="Also write the report as a page with charts ('-': only the page, on stdout).",
)
@output_option(
    "--show-rows", is_flag=True, help="With --html: show examples of rejected rows unmasked."
)
@json_option
def report_command(
    named: NamedRun,
    html: str | None,
    show_rows: bool,
    as_json: bool,
) -> int:
    """Check that RUN's ledger is complete and consistent, and show RUN's result.

    RUN is looked up in the local ledger, then in the deployed stack. The exit status is that of
    the import. The page that --html writes is one file that needs no network.
    """
    if show_rows and html is None:
        raise InvalidUsage("--show-rows is for --html; ddbload rejects RUN shows the rows")
    if html == "-" and as_json:
        raise InvalidUsage("--html - and --json both write to standard output; give a file")

    run, there = named.run, named.find()
    try:
        seen = there.read(run)
        report, state = seen.report, seen.state
        was_killed = not state.reported and there.deployed is None and seen.record is not None
    except LedgerDamaged as damaged:
        if not as_json or html is not None:
            raise
        report, state = empty_report(run, FAILED, Failure.of(damaged)), RunState(FAILED)
        was_killed = False
    if state.running:
        print_stderr(f"ddbload: run {run} is still running; this is its progress")
        was_killed = False
    result = Result(report, report.seconds, was_killed=was_killed)
    if html is not None:
        _write_page(html, report, there, show_rows=show_rows)
    if as_json:
        print_json(result.to_json())
    elif html != "-":
        list_rejects = named.command("rejects")
        print_stdout(*result.lines(list_rejects))
    print_error(report.error)
    return result.exit_code


def _write_page(path: str, report: Report, there: RunLocation, *, show_rows: bool) -> None:

    page = run_page(report, there.context, show_rows=show_rows).encode()
    if path == "-":
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
        return
    try:
        # Readable by the owner alone: with --show-rows, and in its names, it has users' data.
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(page)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputUnwritable(f"--html {path}: {reason}") from None
    print_stderr(f"ddbload: wrote {path}")
