"""`ddbload status` and `report`: what the ledger says of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.options import aws_options, ledger_option, run_argument, stack_option
from ddbload.cli.output import Result, tell, tell_error
from ddbload.cli.run_location import place_given, resume_line
from ddbload.errors import RunNotFound, is_resumable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddbload.cli.run_location import RunLocation
    from ddbload.contracts.results import Heartbeat
    from ddbload.contracts.run_record import RunRecord
    from ddbload.pipeline.context import Context
    from ddbload.pipeline.executions import Execution
    from ddbload.runs.run_status import RunStanding


@click.command("status", short_help="How far a run has come.")
@run_argument
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status_command(run: str, as_json: bool, **place: Any) -> int:
    """Say whether RUN is running, and how far it has come.

    RUNNING, the outcome of the last attempt, or INTERRUPTED where that ended without a report; and
    the command that takes RUN up, unless it is done.

    RUN is looked for in the local ledger, then in the deployed stack.
    """
    from ddbload.runs.run_status import live_heartbeat

    there = place_given(run, **place)
    context = there.context
    execution = _execution(run, there)
    record = context.ledger(run).find_record()
    if record is None:
        if execution is not None:
            return _never_begun(run, execution, as_json)
        heartbeat = live_heartbeat(run, context)
        if heartbeat is not None:
            return _not_yet_recorded(run, heartbeat, as_json)
        record = context.ledger(run).record()
    found = _standing(record, execution, context)
    resume = None if found.running or found.done else resume_line(run, **place)
    gone, error = _is_source_gone(record), found.reached.error
    if gone or (error is not None and not is_resumable(error.name)):
        resume = None
    if as_json:
        value = {**found.reached.to_json(), "status": found.status}
        value |= {"source": record.payload.source.uri, "table": record.table.name}
        value |= {"execution": execution and execution.arn, "resume": resume}
        click.echo(json.dumps(value))
        return 0
    lines = [*_how_far(record, found), *_by_whom(found, execution)]
    if resume is not None:
        lines.append(f"  resume    {resume}")
    elif not found.running and not found.done:
        why = "its input cannot be read again" if gone else "that would change nothing"
        lines.append(f"  resume    not possible: {why}; import it anew, under another run id")
    click.echo("\n".join(lines))
    return 0


def _standing(record: RunRecord, execution: Execution | None, context: Context) -> RunStanding:
    """The state of a run, in the words of its execution where it has one."""
    from ddbload.pipeline.executions import ABORTED, SUCCEEDED
    from ddbload.runs.deployed import run_status
    from ddbload.runs.run_status import RunStanding, run_standing

    found = run_standing(record, context)
    if execution is None or (found.done and execution.status == ABORTED):
        # What was stopped when the run was done changes nothing.
        return found
    reached = found.reached
    if execution.running:
        reached = replace(reached, error=None)
    elif execution.failure is not None and not reached.failures:
        reached = replace(reached, error=execution.failure)
    done = found.done and execution.failure is None and not execution.running
    status = found.status if execution.status == SUCCEEDED else run_status(execution)
    return RunStanding(status, execution.running, done, reached, None)


def _how_far(record: RunRecord, found: RunStanding) -> list[str]:
    reached, rows = found.reached, found.reached.rows
    chunks = f"{reached.chunks_done:,} of {reached.chunks:,} done"
    share = f"{100 * reached.bytes // max(1, reached.size)} % of the bytes"
    if found.running and not reached.chunks:
        chunks, share = "not all known yet", "preflight is reading the source"
    return [
        f"run {record.run}: {found.status}",
        f"  from      {record.payload.source.uri}",
        f"  into      {record.table.name}",
        f"  chunks    {chunks}, {share}",
        (
            f"  rows      {rows.read:,} settled: {rows.written:,} written,"
            f" {rows.rejected:,} rejected, {rows.superseded:,} superseded,"
            f" {rows.skipped:,} skipped"
        ),
    ]


def _by_whom(found: RunStanding, execution: Execution | None) -> Iterator[str]:
    heartbeat, error = found.heartbeat, found.reached.error
    if execution is not None:
        yield f"  execution {execution.arn}"
    if heartbeat is not None:
        yield _process(heartbeat, "works on it" if found.running else "ended without a report")
    if error is not None:
        yield f"  missing   {error.name}: {error.message}"


def _process(heartbeat: Heartbeat, doing: str) -> str:
    told = datetime.fromtimestamp(heartbeat.at, UTC)
    when = f"{told:%Y-%m-%dT%H:%M:%SZ}"
    return f"  process   {heartbeat.pid} on {heartbeat.host} {doing}, last heard of at {when}"


def _is_source_gone(record: RunRecord) -> bool:
    """Whether the run read a temporary file, such as a copy of standard input."""
    from ddbload.source.local_file import is_removed_copy

    path = record.pinned.get("path")
    return isinstance(path, str) and is_removed_copy(path)


def _not_yet_recorded(run: str, heartbeat: Heartbeat, as_json: bool) -> int:
    """Status of a run that preflight is checking still."""
    from ddbload.runs.heartbeats import SPOOL
    from ddbload.runs.run_status import RUNNING

    if as_json:
        result = Result.unreported(run, RUNNING, None, 0.0)
        click.echo(json.dumps({**result.to_json(), "execution": None, "resume": None}))
        return 0
    doing = "preflight is checking the source"
    if heartbeat.step == SPOOL:
        doing = "standard input, or a pipe, is being copied to a file"
    click.echo(f"run {run}: {RUNNING}\n  chunks    none yet, {doing}")
    click.echo(_process(heartbeat, "works on it"))
    return 0


@click.command("report", short_help="What a run came to, reconciled from its ledger.")
@run_argument
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report_command(run: str, as_json: bool, **place: Any) -> int:
    """Add up RUN's ledger and check it. Exit status as that of the import."""
    result = _report(run, place_given(run, **place))
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        click.echo("\n".join(result.lines()))
    tell_error(result)
    return result.exit_code


def _report(run: str, there: RunLocation) -> Result:
    from ddbload.pipeline.report import current_report
    from ddbload.runs.deployed import concluded, run_status
    from ddbload.runs.run_status import RUNNING, live_heartbeat

    execution = _execution(run, there)
    if execution is None:
        if live_heartbeat(run, there.context) is None:
            return Result.of(current_report(run, there.context))
        tell(f"ddbload: run {run} is under way; what follows is how far it is")
        if there.context.ledger(run).find_record() is None:
            return Result.unreported(run, RUNNING, None, 0.0)
        return Result.of(replace(current_report(run, there.context), status=RUNNING, error=None))
    if execution.running:
        tell(f"ddbload: run {run} is under way; what follows is how far it is")
        if there.context.ledger(run).find_record() is None:
            return Result.unreported(run, execution.status, None, execution.seconds)
        so_far = replace(current_report(run, there.context), status=execution.status, error=None)
        return Result.of(so_far, seconds=execution.seconds)
    concluding = concluded(run, execution, there.context)
    if concluding is None:
        return Result.unreported(run, run_status(execution), execution.failure, execution.seconds)
    return Result.of(concluding)


def _execution(run: str, there: RunLocation) -> Execution | None:
    """The run's last execution, where a stack has it."""
    if there.deployed is None:
        return None
    found = there.deployed.last_execution(run)
    if found is None and there.context.ledger(run).find_record() is None:
        raise RunNotFound(f"there is no run {run} in stack {there.deployed.stack.name}")
    return found


def _never_begun(run: str, execution: Execution, as_json: bool) -> int:
    """Status of a run that has no ledger yet, or came to none."""
    from ddbload.runs.deployed import run_status

    failure, status = execution.failure, run_status(execution)
    if as_json:
        error = None if failure is None else failure.to_json()
        value = {"run": run, "status": status, "execution": execution.arn}
        click.echo(json.dumps({**value, "error": error}))
        return 0
    lines = [f"run {run}: {status}", f"  execution {execution.arn}"]
    if failure is not None:
        lines.append(f"  error     {failure.name}: {failure.message}")
    click.echo("\n".join(lines))
    return 0
