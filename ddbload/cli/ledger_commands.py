"""`ddbload status` and `ddbload report`: progress and result of a run, from its ledger."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    json_option,
    ledger_option,
    output_option,
    run_argument,
    run_option,
    stack_option,
)
from ddbload.cli.output import (
    EXIT_INTERRUPTED,
    print_json,
    print_stderr,
    print_stdout,
    show_progress,
)
from ddbload.cli.run_location import find_run, run_command_line
from ddbload.cli.run_result import Result, print_error
from ddbload.contracts.results import FAILED, Failure, Report, RowCounts, WriteStats
from ddbload.errors import (
    InvalidUsage,
    LedgerDamaged,
    OutputUnwritable,
    RunNotFound,
    is_resumable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.cli.run_location import RunLocation
    from ddbload.contracts.results import Heartbeat
    from ddbload.contracts.run_record import RunRecord
    from ddbload.pipeline.context import Context
    from ddbload.pipeline.executions import Execution
    from ddbload.runs.run_status import RunState


@click.command(
    "status",
    cls=GroupedCommand,
    short_help="Show the progress of a run.",
    examples=(
        "ddbload status 20261121T073000Z-1f2e3d",
        "ddbload status 20261121T073000Z-1f2e3d --follow",
        "ddbload status 20261121T073000Z-1f2e3d --stack my-loader --json",
    ),
)
@run_argument
@run_option("--follow", is_flag=True, help="Show progress until the run ends, then its status.")
@ledger_option
@stack_option
@aws_options
@json_option
def status_command(
    run: str,
    follow: bool,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """Show whether RUN is running, and its progress.

    The status is RUNNING, the status of the last attempt, or INTERRUPTED if that ended without a
    report. Unless RUN is done, the command that resumes it is shown as well.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    from ddbload.runs.run_status import live_heartbeat

    there = find_run(run, ledger, stack, aws)
    context = there.context
    if follow and not _follow(run, there):
        return EXIT_INTERRUPTED
    execution = _execution(run, there)
    record = context.ledger(run).find_record()
    if record is None:
        if execution is not None:
            return _no_ledger(run, execution, as_json)
        heartbeat = live_heartbeat(run, context)
        if heartbeat is not None:
            return _not_yet_recorded(run, heartbeat, as_json)
        record = context.ledger(run).record()
    found = _run_state(record, execution, context)
    resume = None
    if not found.running and not found.done:
        resume = run_command_line("resume", run, aws, ledger=ledger, stack=stack)
    gone, error = _is_source_gone(record), found.progress.error
    if gone or (error is not None and not is_resumable(error.name)):
        resume = None
    if as_json:
        rows = found.progress.rows
        value = {**found.progress.to_json(), "status": found.status}
        value["rows"] = {"read": rows.read, **rows.outcomes}
        into = "table" if record.table.is_table else "target"
        value |= {"source": record.payload.source.uri, into: record.table.name}
        value |= {"execution": execution and execution.arn, "resume": resume}
        print_json(value)
        return 0
    lines = [*_progress_lines(record, found), *_process_lines(found, execution)]
    if resume is not None:
        lines.append(f"  resume    {resume}")
    elif not found.running and not found.done:
        why = "its input is gone" if gone else "it would fail again"
        lines.append(f"  resume    not possible: {why}; start a new run, with another run id")
    print_stdout(*lines)
    return 0


def _follow(run: str, there: RunLocation) -> bool:
    """Show the progress of a run until it ends; return false if Ctrl-C was pressed."""
    from ddbload.runs.deployed import follow
    from ddbload.runs.run_status import follow_process

    context, execution = there.context, _execution(run, there)
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


def _run_state(record: RunRecord, execution: Execution | None, context: Context) -> RunState:
    """Return the state of a run, combined with that of its last execution."""
    from ddbload.pipeline.executions import EXECUTION_ABORTED, EXECUTION_SUCCEEDED
    from ddbload.runs.deployed import run_status
    from ddbload.runs.run_status import RunState, run_state

    found = run_state(record, context)
    if execution is None or (found.done and execution.status == EXECUTION_ABORTED):
        # The execution was stopped after the run was done.
        return found
    progress = found.progress
    if execution.running:
        progress = replace(progress, error=None)
    elif execution.failure is not None and not progress.failures:
        progress = replace(progress, error=execution.failure)
    done = found.done and execution.failure is None and not execution.running
    status = found.status if execution.status == EXECUTION_SUCCEEDED else run_status(execution)
    return RunState(status, execution.running, done, progress, None)


def _progress_lines(record: RunRecord, found: RunState) -> list[str]:
    progress, rows = found.progress, found.progress.rows
    chunks = f"{progress.chunks_done:,} of {progress.chunks:,} done"
    share = f"{100 * progress.bytes // max(1, progress.size)} % of the bytes"
    if found.running and not progress.chunks:
        chunks, share = "not known yet", "preflight is reading the source"
    return [
        f"run {record.run}: {found.status}",
        f"  from      {record.payload.source.uri}",
        f"  into      {record.table.name}",
        f"  chunks    {chunks}, {share}",
        (
            f"  rows      {rows.read:,} settled: {progress.written_text},"
            f" {rows.rejected:,} rejected, {rows.superseded:,} superseded,"
            f" {rows.skipped:,} skipped{f', {rows.filtered:,} filtered' if rows.filtered else ''}"
        ),
    ]


def _process_lines(found: RunState, execution: Execution | None) -> Iterator[str]:
    heartbeat, error = found.heartbeat, found.progress.error
    if execution is not None:
        yield f"  execution {execution.arn}"
    if heartbeat is not None:
        yield _process_line(heartbeat, "is working" if found.running else "ended without a report")
    if error is not None:
        yield f"  missing   {error.name}: {error.message}"


def _process_line(heartbeat: Heartbeat, doing: str) -> str:
    last = datetime.fromtimestamp(heartbeat.at, UTC)
    when = f"{last:%Y-%m-%dT%H:%M:%SZ}"
    return f"  process   {heartbeat.pid} on {heartbeat.host} {doing}, last heartbeat at {when}"


def _is_source_gone(record: RunRecord) -> bool:
    """Tell whether the run read a temporary file, such as a copy of standard input."""
    from ddbload.source.local_file import is_removed_copy

    path = record.pinned.get("path")
    return isinstance(path, str) and is_removed_copy(path)


def _not_yet_recorded(run: str, heartbeat: Heartbeat, as_json: bool) -> int:
    """Print the status of a run whose preflight has not written a record yet."""
    from ddbload.runs.run_status import RUNNING, SPOOL

    if as_json:
        result = Result.unreported(run, RUNNING, None, 0.0)
        print_json({**result.to_json(), "execution": None, "resume": None})
        return 0
    doing = "preflight is checking the source"
    if heartbeat.step == SPOOL:
        doing = "standard input is being copied to a temporary file"
    print_stdout(f"run {run}: {RUNNING}", f"  chunks    none yet, {doing}")
    print_stdout(_process_line(heartbeat, "is working"))
    return 0


@click.command(
    "report",
    cls=GroupedCommand,
    short_help="Check a run's ledger, and show the run's result.",
    examples=(
        "ddbload report 20261121T073000Z-1f2e3d",
        "ddbload report 20261121T073000Z-1f2e3d --html report.html",
        "ddbload report 20261121T073000Z-1f2e3d --json",
    ),
)
@run_argument
@ledger_option
@stack_option
@aws_options
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
    run: str,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
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
    there = find_run(run, ledger, stack, aws)
    try:
        report, was_killed = _find_report(run, there)
    except LedgerDamaged as damaged:
        if not as_json or html is not None:
            raise
        report, was_killed = _empty_report(run, FAILED, Failure.of(damaged), 0.0), False
    result = Result.from_report(report, was_killed=was_killed)
    if html is not None:
        _write_page(html, report, there, show_rows=show_rows)
    if as_json:
        print_json(result.to_json())
    elif html != "-":
        list_rejects = run_command_line("rejects", run, aws, ledger=ledger, stack=stack)
        print_stdout(*result.lines(list_rejects))
    print_error(result)
    return result.exit_code


def _write_page(path: str, report: Report, there: RunLocation, *, show_rows: bool) -> None:
    from ddbload.pipeline.report_page.run_page import run_page

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


def _find_report(run: str, there: RunLocation) -> tuple[Report, bool]:
    """Find a run's report; true with it if the last attempt was killed before it wrote one."""
    execution = _execution(run, there)
    if execution is None:
        return _find_local_report(run, there.context)
    return _find_deployed_report(run, execution, there), False


def _find_local_report(run: str, context: Context) -> tuple[Report, bool]:
    from ddbload.pipeline.report import current_report
    from ddbload.runs.run_status import RUNNING, live_heartbeat, unreported_until

    working = live_heartbeat(run, context) is not None
    if working:
        print_stderr(f"ddbload: run {run} is still running; this is its progress")
    record = context.ledger(run).find_record()
    if working and record is None:
        return _empty_report(run, RUNNING, None, 0.0), False
    until = None if record is None else unreported_until(record, context)
    found = current_report(run, context, unreported_until=until)
    if working:
        return replace(found, status=RUNNING, error=None), False
    return found, until is not None


def _find_deployed_report(run: str, execution: Execution, there: RunLocation) -> Report:
    from ddbload.pipeline.report import current_report
    from ddbload.runs.deployed import final_report, run_status

    if execution.running:
        print_stderr(f"ddbload: run {run} is still running; this is its progress")
        if there.context.ledger(run).find_record() is None:
            return _empty_report(run, execution.status, None, execution.seconds)
        return replace(
            current_report(run, there.context),
            status=execution.status,
            error=None,
            seconds=execution.seconds,
        )
    report = final_report(run, execution, there.context)
    if report is None:
        return _empty_report(run, run_status(execution), execution.failure, execution.seconds)
    return report


def _empty_report(run: str, status: str, failure: Failure | None, seconds: float) -> Report:
    """Make the report of a run that has nothing in its ledger."""
    return Report(
        run=run,
        status=status,
        rows=RowCounts(),
        work=WriteStats(),
        bytes=0,
        size=0,
        chunks=0,
        chunks_done=0,
        seconds=seconds,
        rejects=None,
        error=failure,
    )


def _execution(run: str, there: RunLocation) -> Execution | None:
    """Return the last execution of a run that a stack has."""
    if there.deployed is None:
        return None
    found = there.deployed.last_execution(run)
    if found is None and there.context.ledger(run).find_record() is None:
        raise RunNotFound(f"there is no run {run} in stack {there.deployed.stack.name}")
    return found


def _no_ledger(run: str, execution: Execution, as_json: bool) -> int:
    """Print the status of an execution that has written no ledger."""
    from ddbload.runs.deployed import run_status

    failure, status = execution.failure, run_status(execution)
    if as_json:
        error = None if failure is None else failure.to_json()
        value = {"run": run, "status": status, "execution": execution.arn}
        print_json({**value, "error": error})
        return 0
    lines = [f"run {run}: {status}", f"  execution {execution.arn}"]
    if failure is not None:
        lines.append(f"  error     {failure.name}: {failure.message}")
    print_stdout(*lines)
    return 0
