"""`ddbload resume`: resume a run, on this machine or on the deployed stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ddbload.cli.import_command import import_with_progress, with_rejects
from ddbload.cli.options import (
    MAX_REJECTS,
    WORKERS,
    GroupedCommand,
    cores,
    json_option,
    limit_options,
    output_option,
    quiet_option,
    run_option,
)
from ddbload.cli.output import print_error
from ddbload.cli.progress import Steps
from ddbload.cli.run_location import Deployed, NamedRun, run_options
from ddbload.cli.run_result import Result, RunOutput, finished_result, print_run
from ddbload.cli.run_setup import rejects_file
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
from ddbload.steps.load_history import resumed_payload
from ddbload.steps.report import is_input_gone, read_run


@click.command(
    "resume",
    cls=GroupedCommand,
    examples=(
        "ddbload resume 20261121T073000Z-1f2e3d",
        "ddbload resume 20261121T073000Z-1f2e3d --max-rejects 5000",
        "ddbload resume 20261121T073000Z-1f2e3d --max-wcu 1000 --workers 40",
    ),
)
@limit_options("the run's")
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
@run_options
@output_option(
    "--rejects",
    metavar="PATH",
    help="For a run of this machine: file for rejected rows, as JSON lines.",
)
@json_option
@quiet_option
def resume_command(
    named: NamedRun,
    max_wcu: float | str | None,
    max_cost: float | str | None,
    max_rejects: int | str | None,
    processes: int | None,
    rejects: str | None,
    workers: int | str | None,
    detach: bool,
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
    run, there = named.run, named.find()
    output = RunOutput(as_json, quiet, named.command("rejects"))
    if there.deployed is not None:
        _refuse(run, {"--processes": processes, "--rejects": rejects}, "this machine", "the stack")
        return _resume_deployed(run, options, limits, there.deployed, output, detach=detach)
    _refuse(run, {"--workers": workers, "--detach": detach or None}, "the stack", "this machine")
    count = processes or cores()
    return output.show(
        _resume_here(named, options, limits, there.context, count, rejects, quiet=quiet)
    )


def _refuse(run: str, given: dict[str, object], other: str, place: str) -> None:
    """Raise `InvalidUsage` for options that apply only to runs of the `other` place."""
    for name, value in given.items():
        if value is not None:
            raise InvalidUsage(f"{name} is for runs of {other}, and {run} is a run of {place}")


def _resume_here(
    named: NamedRun,
    options: dict[str, Any],
    limits: NewLimits,
    context: Context,
    processes: int,
    rejects: str | None,
    *,
    quiet: bool,
) -> Result:
    run, location = named.run, named.ledger or default_ledger()
    seen = read_run(run, context, segments=False)
    if seen.record is None and is_input_gone(seen):
        raise SourceNotFound(
            f"run {run} read standard input, a pipe or mended rejects, and is not resumable: its"
            " input is gone; import it anew, under another run id"
        )
    resumed = Resume(run, {**options, "workers": processes})
    payload = resumed_payload(resumed, context.ledger(run))
    print_run(run, ledger=location, quiet=quiet)
    settings = LocalSettings(location, named.aws, payload.options.concurrency)
    with rejects_file(rejects, payload.source.names) as file:
        # Looked up first: a run that is done does not need its source any more.
        result = _finished_result(run, options, context, quiet=quiet)
        if result is None:
            return import_with_progress(
                payload.to_json(),
                settings,
                run=run,
                processes=processes,
                rejects=file,
                show_progress=not quiet,
                resume=named.command("resume"),
                limits=limits,
            )
        result = with_rejects(result, settings, file)
    print_error(result.report.error)
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
    output: RunOutput,
    *,
    detach: bool,
) -> int:
    payload = _resume_payload(run, options, there)
    print_run(run, stack=there.stack.name, quiet=output.quiet)
    done = _finished_result(run, options, there.context, quiet=output.quiet)
    if done is not None:
        return output.show(done)
    arn = start_again(run, payload, there, limits)
    return follow_run(run, arn, there, output, Steps(enabled=False), detach=detach)


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
