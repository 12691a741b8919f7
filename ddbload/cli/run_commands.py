"""Commands on one run: status, report, cancel and limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ddbload.cli import options, terminal
from ddbload.cli.progress import show_progress
from ddbload.cli.run_location import NamedRun, run_options
from ddbload.cli.run_result import Result
from ddbload.cli.run_setup import private_file
from ddbload.cli.terminal import Output
from ddbload.contracts.control import MAX_CONTROL_SECONDS, Control, NewLimits
from ddbload.contracts.results import FAILED, Failure, Report
from ddbload.contracts.run_record import amount_text
from ddbload.errors import InvalidUsage, LedgerDamaged, OutputUnwritable, RunNotFound, visible
from ddbload.ledger.run_state import RunState
from ddbload.report_page.page import run_page
from ddbload.runs.local_runs import SPOOL, follow_process, wait_for_begin
from ddbload.runs.run_control import cancel_run, change_limits
from ddbload.runs.run_location import Deployed, RunLocation, find_runs
from ddbload.source.local_file import name_for_user
from ddbload.steps.report import SeenRun, why_not_resumable


@options.command(
    "ddbload status 20261121T073000Z-1f2e3d",
    "ddbload status 20261121T073000Z-1f2e3d --follow",
    "ddbload status 20261121T073000Z-1f2e3d --stack my-loader --json",
)
def status_command(
    follow: bool = options.run_option(
        is_flag=True, help="Show progress until the run ends, then its status."
    ),
    named: NamedRun = run_options,
    output: Output = options.output_options(),
) -> int:
    """Show whether RUN is running, and its progress.

    The status is RUNNING, or how the run ended: INTERRUPTED if its process was stopped or killed,
    CANCELLED if it was cancelled or its execution stopped. Unless RUN is done, the command that
    resumes it is shown.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    run, there = named.run, named.find()
    if follow and not _follow(run, there):
        return terminal.EXIT_INTERRUPTED

    seen = there.read(run)
    why_not, resume = why_not_resumable(seen), None
    if why_not is None and not seen.state.running and not seen.state.done:
        resume = named.command("resume")
    lines = [*_progress_lines(seen), *_process_lines(seen)]
    if resume is not None:
        lines.append(f"  resume    {resume}")
    elif why_not is not None:
        lines.append(f"  resume    not possible: {why_not}; start a new run, with another run id")
    output.show(_status_json(seen, resume), *lines)
    return terminal.EXIT_DONE


def _status_json(seen: SeenRun, resume: str | None) -> dict[str, Any]:
    rows, payload, execution = seen.report.rows, seen.payload, seen.execution
    value = {**seen.report.to_json(), "rows": {"read": rows.read, **rows.outcomes}}
    if payload is not None:
        value |= {"source": payload.source.uri, "table": payload.table}
    return value | {"execution": execution and execution.arn, "resume": resume}


def _follow(run: str, there: RunLocation) -> bool:
    """Show the progress of a run until it ends; return false after Ctrl-C."""
    execution = there.last_execution(run)
    try:
        with show_progress(Output()) as show:
            if not isinstance(there, Deployed):
                follow_process(run, there.context, show)
            elif execution is not None and execution.running:
                there.follow(run, execution.arn, show)
    except KeyboardInterrupt:
        terminal.print_stderr("ddbload: stopped following; the run continues")
        return False
    return True


def _progress_lines(seen: SeenRun) -> Iterator[str]:
    report, rows, state = seen.report, seen.report.rows, seen.state
    yield f"run {seen.run}: {state.status}"
    if seen.payload is not None:
        yield f"  from      {visible(name_for_user(seen.payload.source.uri))}"
        yield f"  into      {seen.payload.table}"
    if seen.record is None or not (report.chunks or state.running or state.done):
        yield f"  chunks    none{_without_chunks(seen)}"
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


def _without_chunks(seen: SeenRun) -> str:
    """Describe a run that has no chunks: still preparing, or ended early."""
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
        yield f"  error     {state.error.name}: {visible(state.error.message)}"


@options.command(
    "ddbload report 20261121T073000Z-1f2e3d",
    "ddbload report 20261121T073000Z-1f2e3d --html report.html",
    "ddbload report 20261121T073000Z-1f2e3d --json",
)
def report_command(
    named: NamedRun = run_options,
    html: str | None = options.output_option(
        metavar="FILE",
        help="Also write the report as a page with charts ('-': only the page, on stdout).",
    ),
    show_rows: bool = options.output_option(
        is_flag=True, help="With --html: show examples of rejected rows unmasked."
    ),
    output: Output = options.output_options(),
) -> int:
    """Check that RUN's ledger is complete and consistent, and show RUN's result.

    RUN is looked up in the local ledger, then in the deployed stack. The exit status is that of
    the import. The page that --html writes is one file that needs no network.
    """
    if show_rows and html is None:
        raise InvalidUsage("--show-rows is for --html; ddbload rejects RUN shows the rows")
    if html == "-" and output.as_json:
        raise InvalidUsage("--html - and --json both write to standard output; give a file")

    run, there = named.run, named.find()
    try:
        seen = there.read(run)
        report, state = seen.report, seen.state
    except LedgerDamaged as damaged:
        if not output.as_json or html is not None:
            raise
        report, state = Report(run, FAILED, error=Failure.of(damaged)), RunState(FAILED)
    if state.running:
        terminal.print_stderr(f"ddbload: run {run} is still running; this is its progress")
    result = Result(report, report.seconds)
    if html is not None:
        _write_page(html, report, there, show_rows=show_rows)
    if output.as_json:
        terminal.print_json(result.to_json())
    elif html != "-":
        terminal.print_stdout(*result.lines(named))
    terminal.print_error(report.error)
    return result.exit_code


def _write_page(path: str, report: Report, there: RunLocation, *, show_rows: bool) -> None:
    page = run_page(report, there.context, show_rows=show_rows).encode()
    if path == "-":
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
        return
    try:
        # Only the owner may read the page: its names, and its rows with --show-rows, are users'
        # data.
        with open(path, "wb", opener=private_file) as file:
            file.write(page)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputUnwritable(f"--html {path}: {reason}") from None
    terminal.print_stderr(f"ddbload: wrote {path}")


@options.command(
    "ddbload cancel 20261121T073000Z-1f2e3d",
    "ddbload cancel 20261121T073000Z-1f2e3d --stack my-loader",
    "ddbload cancel 20261121T073000Z-1f2e3d --json",
)
def cancel_command(named: NamedRun = run_options, output: Output = options.output_options()) -> int:
    """Stop RUN, and wait until its workers have stopped.

    Workers stop within 5 seconds, after the answers to their requests. Workers that do not confirm
    that they have stopped are named, and the exit status is 1. `ddbload resume` continues the run
    where it stopped.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    run, there = named.run, _find_begun_run(named)
    ended = cancel_run(
        run,
        there.context,
        executions=there.executions if isinstance(there, Deployed) else None,
        execution=there.last_execution(run),
    )
    report = ended.report
    status = "CANCELLED" if report is None else report.status
    lines = [f"run {run}: {status}"]
    if ended.already_done:
        lines = [f"run {run} has ended before: {status}; there is nothing to cancel"]
    elif report is not None:
        seen = there.read(run)
        is_resumable = not seen.state.done and why_not_resumable(seen) is None
        advice = f"; to resume: {named.command('resume')}" if is_resumable else ""
        lines.append(f"  {report.rows.read:,} rows are done{advice}")
    if ended.stop_refused is not None:
        terminal.print_stderr(
            f"ddbload: the execution could not be stopped ({ended.stop_refused}); it ends by"
            " itself, and writes nothing"
        )
    for each in ended.silent:
        terminal.print_stderr(f"ddbload: not confirmed: {each}")
    as_json = None if report is None else report.to_json()
    value = {"run": run, "status": status, "silent": list(ended.silent), "report": as_json}
    output.show(value, *lines)
    return terminal.EXIT_FAILED if ended.silent else terminal.EXIT_DONE


def _find_begun_run(named: NamedRun) -> RunLocation:
    """Find a run to cancel, also one that was started a moment ago."""
    try:
        there = named.find()
        if named.stack is not None or named.ledger is None:
            return there
        where = there.context.store.uri("runs")
        missing = f"there is no run {named.run} in the ledger at {where}"
    except RunNotFound as error:
        there, missing = find_runs(None, None, named.aws), error.message
    if wait_for_begin(named.run, there.context):
        return there
    raise RunNotFound(f"{missing}; if it was started just now, it goes on: repeat the command")


@options.command(
    "ddbload limit 20261121T073000Z-1f2e3d --max-wcu 500",
    "ddbload limit 20261121T073000Z-1f2e3d --max-wcu none --max-cost 25",
    "ddbload limit 20261121T073000Z-1f2e3d --max-wcu 50% --stack my-loader",
)
def limit_command(
    max_wcu: float | str | None = options.new_max_wcu,
    max_cost: float | str | None = options.new_max_cost,
    named: NamedRun = run_options,
    output: Output = options.output_options(),
) -> None:
    """Change the limits of RUN while it runs, or before it is resumed.

    Its workers obey within 5 seconds, and share the limits. They stay in force when the run is
    resumed.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    if max_wcu is None and max_cost is None:
        raise InvalidUsage("give a limit: --max-wcu or --max-cost, or both")
    run, there = named.run, named.find()
    before, after = change_limits(run, there.context, NewLimits(max_wcu, max_cost))
    limits = {"max_wcu": after.max_wcu, "max_cost": after.max_cost}
    when = f"  workers that run now obey within {MAX_CONTROL_SECONDS + 1:.0f} seconds"
    if after.cancelled:
        when = "  the run is cancelled; the limits hold when it is resumed"
    line = f"run {run}: {_limits(after)} (before: {_limits(before)})"
    output.show({"run": run, "state": after.state, **limits}, line, when)


def _limits(control: Control) -> str:
    wcu = "any number" if control.max_wcu is None else f"at most {control.max_wcu:,.10g}"
    units = f"{wcu} of write units a second" if control.max_wcu is None else f"{wcu} write units/s"
    cost = "" if control.max_cost is None else f", at most {amount_text(control.max_cost)} in all"
    return units + cost
