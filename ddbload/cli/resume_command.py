"""`ddbload resume`: resume a run, on this machine or on the deployed stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ddbload.aws.boto_clients import AwsSettings
from ddbload.cli.import_command import import_with_progress, with_rejects
from ddbload.cli.options import (
    MAX_REJECTS,
    NEW_MAX_COST,
    NEW_MAX_WCU,
    WORKERS,
    GroupedCommand,
    aws_options,
    cores,
    json_option,
    ledger_option,
    output_option,
    quiet_option,
    run_argument,
    run_option,
    stack_option,
    writing_option,
)
from ddbload.cli.run_location import Deployed, RunLocation, find_run, run_command_line
from ddbload.cli.run_result import Result, finished_result, print_error, print_run, show_result
from ddbload.cli.spooling import rejects_file
from ddbload.cli.start_command import follow_run, start_again
from ddbload.context import Context
from ddbload.contracts.control import UNLIMITED, NewLimits
from ddbload.contracts.run_record import Resume
from ddbload.errors import (
    ExecutionExists,
    InvalidPayload,
    InvalidUsage,
    RunNotFound,
    SourceNotFound,
)
from ddbload.runs.local_settings import LocalSettings, default_ledger
from ddbload.steps.read_run import is_input_gone, read_run
from ddbload.steps.run_requests import resumed_payload


@click.command(
    "resume",
    cls=GroupedCommand,
    examples=(
        "ddbload resume 20261121T073000Z-1f2e3d",
        "ddbload resume 20261121T073000Z-1f2e3d --max-rejects 5000",
        "ddbload resume 20261121T073000Z-1f2e3d --max-wcu 1000 --workers 40",
    ),
)
@run_argument
@writing_option(
    "--max-wcu",
    metavar="N|N%|none",
    type=NEW_MAX_WCU,
    help="Use at most N write capacity units a second, or N percent of the table's capacity.",
    show_default="the run's",
)
@writing_option(
    "--max-cost",
    metavar="DOLLARS|none",
    type=NEW_MAX_COST,
    help="Stop before the write units of the whole run cost more.",
    show_default="the run's",
)
@run_option(
    "--max-rejects",
    metavar="N|N%",
    type=MAX_REJECTS,
    help="Fail when more than N rows are rejected, or more than N percent of all rows.",
    show_default="the run's",
)
@run_option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, 256),
    help="For a run of this machine: worker processes.",
    show_default="one per core",
)
@run_option(
    "--workers",
    metavar="N|auto",
    type=WORKERS,
    help="For a run of the stack: chunks imported at once.",
    show_default="the run's",
)
@run_option(
    "--detach",
    is_flag=True,
    help="For a run of the stack: return once it has started, without waiting for its end.",
)
@ledger_option
@stack_option
@output_option(
    "--rejects",
    metavar="PATH",
    help="For a run of this machine: file for rejected rows, as JSON lines.",
)
@aws_options
@json_option
@quiet_option
def resume_command(
    run: str,
    max_wcu: float | str | None,
    max_cost: float | str | None,
    max_rejects: int | str | None,
    processes: int | None,
    rejects: str | None,
    workers: int | str | None,
    detach: bool,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
    quiet: bool,
) -> int:
    """Import the rows that RUN has not imported yet, from the same version of its source.

    RUN is looked up in the local ledger, then in the deployed stack. Rows that the
    ledger has counted are neither written nor counted again. A run that failed before it wrote a
    row is started over. Options given here replace those of the run. A run that is done is not
    imported again. A run that read standard input cannot be resumed, because its input is gone.
    """
    changes = {
        "workers": workers,
        "max_wcu": max_wcu,
        "max_cost": max_cost,
        "max_rejects": max_rejects,
    }
    # A payload has null for no limit.
    options = {
        name: None if value == UNLIMITED else value
        for name, value in changes.items()
        if value is not None
    }
    limits = NewLimits(max_wcu, max_cost)
    there = find_run(run, ledger, stack, aws)
    list_rejects = run_command_line("rejects", run, aws, ledger=ledger, stack=stack)
    if there.deployed is not None:
        _refuse(run, {"--processes": processes, "--rejects": rejects}, "this machine", "the stack")
        return _resume_deployed(
            run, options, limits, there.deployed, detach, as_json, quiet, list_rejects
        )
    _refuse(run, {"--workers": workers, "--detach": detach or None}, "the stack", "this machine")
    again = run_command_line("resume", run, aws, ledger=ledger, stack=stack)
    result = _resume_here(
        run, options, limits, there, ledger, aws, processes, rejects, again, quiet
    )
    return show_result(result, as_json=as_json, quiet=quiet, list_rejects=list_rejects)


def _refuse(run: str, given: dict[str, object], other: str, place: str) -> None:
    """Raise `InvalidUsage` for options that apply only to runs of the `other` place."""
    for name, value in given.items():
        if value is not None:
            raise InvalidUsage(f"{name} is for runs of {other}, and {run} is a run of {place}")


def _resume_here(
    run: str,
    options: dict[str, Any],
    limits: NewLimits,
    there: RunLocation,
    ledger: str | None,
    aws: AwsSettings,
    processes: int | None,
    rejects: str | None,
    again: str,
    quiet: bool,
) -> Result:

    location = ledger or default_ledger()
    count = processes or cores()
    seen = read_run(run, there.context, segments=False)
    if seen.record is None and is_input_gone(seen):
        raise SourceNotFound(
            f"run {run} read standard input, a pipe or mended rejects, and is not resumable: its"
            " input is gone; import it anew, under another run id"
        )
    payload = resumed_payload(Resume(run, {**options, "workers": count}), there.context.ledger(run))
    if not quiet:
        print_run(run, ledger=location)
    settings = LocalSettings(ledger=location, aws=aws, concurrency=payload.options.concurrency)
    with rejects_file(rejects, payload.source.names) as file:
        # Looked up first: a run that is done does not need its source any more.
        result = _finished_result(run, options, there.context, quiet=quiet)
        if result is not None:
            result = with_rejects(result, settings, file)
            print_error(result)
        else:
            result = import_with_progress(
                payload.to_json(),
                settings,
                run=run,
                processes=count,
                rejects=file,
                show_progress=not quiet,
                resume=again,
                limits=limits,
            )
    return result


def _finished_result(
    run: str, options: Mapping[str, Any], context: Context, *, quiet: bool
) -> Result | None:
    """Return the result of a run that is done; None if work is left, or the limit is new."""
    # With another limit of rejects the same ledger may be a failure, or a success.
    return None if "max_rejects" in options else finished_result(run, context, quiet=quiet)


def _resume_deployed(
    run: str,
    options: dict[str, Any],
    limits: NewLimits,
    there: Deployed,
    detach: bool,
    as_json: bool,
    quiet: bool,
    list_rejects: str,
) -> int:
    payload = _resume_payload(run, options, there)
    if not quiet:
        print_run(run, stack=there.stack.name)
    done = _finished_result(run, options, there.context, quiet=quiet)
    if done is not None:
        return show_result(done, as_json=as_json, quiet=quiet, list_rejects=list_rejects)
    arn = start_again(run, payload, there, limits)
    return follow_run(run, arn, there, detach, as_json, quiet, list_rejects)


def _resume_payload(run: str, options: dict[str, Any], there: Deployed) -> dict[str, Any]:
    """Return the input of an execution that resumes a run.

    Raises `ExecutionExists` while an execution works on the run, and `RunNotFound`.
    """
    last = there.last_execution(run)
    if last is not None and last.running:
        raise ExecutionExists(
            f"run {run} is still running: ddbload status {run}; or stop it first: ddbload cancel"
            f" {run}"
        )
    ledger = there.context.ledger(run)
    if ledger.find_record() is not None or ledger.find_request() is not None:
        return {"run": {"resume_of": run}, "options": options}
    if last is None or not isinstance(last.input, dict):
        raise RunNotFound(f"there is no run {run} in stack {there.stack.name}")
    # Its input could not be read: start over with it, in case an option mends it.
    given = last.input
    named, limits = given.get("run") or {}, given.get("options") or {}
    if not isinstance(named, dict) or not isinstance(limits, dict):
        raise InvalidPayload(
            f"execution {run} cannot be resumed: 'run' and 'options' of its payload must be"
            " objects; start a new run"
        )
    first = named.get("id") or named.get("resume_of") or run
    if first != run:
        raise RunNotFound(f"execution {run} was started for run {first}: ddbload resume {first}")
    return {**given, "run": {**named, "id": run}, "options": {**limits, **options}}
