"""`ddbload resume`: take up a run, of this machine or of the deployed stack."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.import_command import rejects_file, run_and_tell, show, tell_done, with_rejects
from ddbload.cli.options import aws_options, cores, ledger_option, run_argument, stack_option
from ddbload.cli.output import Result, tell_error, tell_run
from ddbload.cli.run_location import place_given, resume_line
from ddbload.cli.start_command import started
from ddbload.contracts.run_record import Resume
from ddbload.errors import ExecutionExists, InvalidPayload, InvalidUsage, RunNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddbload.cli.run_location import Deployed, RunLocation
    from ddbload.pipeline.context import Context

_MAX_NAME = 80
"""Characters of an execution's name."""


@click.command("resume", short_help="Take up a run that was interrupted, killed, or failed.")
@run_argument
@click.option("--max-wcu", type=click.FloatRange(1.0), help="Write units a second, at most.")
@click.option("--max-rejects", type=click.IntRange(0), help="The run fails when there are more.")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="For a run of this machine. [default: one a core]",
)
@click.option(
    "--rejects",
    metavar="PATH",
    help="For a run of this machine: where rejected rows go, as JSON lines.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 10_000),
    help="For a run of the stack: chunks imported at once, from now on.",
)
@click.option(
    "--detach", is_flag=True, help="For a run of the stack: do not wait for the run's end."
)
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No run id, no progress and no summary.")
def resume_command(
    run: str,
    max_wcu: float | None,
    max_rejects: int | None,
    processes: int | None,
    rejects: str | None,
    workers: int | None,
    detach: bool,
    as_json: bool,
    quiet: bool,
    **place: Any,
) -> int:
    """Import what RUN's ledger lacks, from the version of the source that it began with.

    RUN is looked for in the local ledger, then in the deployed stack. What is imported already is
    neither written nor counted again. Options given here replace the run's own. A run that is done
    is left as it is. A run that read standard input cannot be taken up: its input is gone.
    """
    changes = {"workers": workers, "max_wcu": max_wcu, "max_rejects": max_rejects}
    options = {name: value for name, value in changes.items() if value is not None}
    there = place_given(run, **place)
    if there.deployed is not None:
        _refuse(run, {"--processes": processes, "--rejects": rejects}, "this machine")
        return _resume_deployed(run, options, there.deployed, detach, as_json, quiet)
    _refuse(run, {"--workers": workers, "--detach": detach or None}, "a deployed stack")
    return _resume_here(run, options, there, processes, rejects, as_json, quiet, **place)


def _refuse(run: str, given: dict[str, object], place: str) -> None:
    """Raise `InvalidUsage` for options that only runs of another place have."""
    for name, value in given.items():
        if value is not None:
            raise InvalidUsage(f"{name} is for runs of {place}, and {run} is none")


def _resume_here(
    run: str,
    options: dict[str, Any],
    there: RunLocation,
    processes: int | None,
    rejects: str | None,
    as_json: bool,
    quiet: bool,
    **place: str | None,
) -> int:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.runs.local_settings import LocalSettings, default_ledger

    kept_in = place["ledger"] or default_ledger()
    record = there.context.ledger(run).record()
    if not quiet:
        tell_run(run, ledger=kept_in)
    count = processes or cores()
    payload = Resume(run, {**options, "workers": count}).payload(record)
    settings = LocalSettings(
        ledger=kept_in,
        aws=AwsSettings(place["profile"], place["region"], place["endpoint_url"]),
        concurrency=payload.options.concurrency,
    )
    with rejects_file(rejects, payload.source.uri) as file:
        # Of a run that is done the source need not be there any more.
        result = _done_before(run, options, there.context, quiet=quiet)
        if result is not None:
            result = with_rejects(result, settings, file)
            tell_error(result)
        else:
            result = run_and_tell(
                payload.to_json(),
                settings,
                run=run,
                processes=count,
                rejects=file,
                show_progress=not quiet,
                again=resume_line(run, **place),
            )
    return show(result, as_json=as_json, quiet=quiet)


def _done_before(
    run: str, options: Mapping[str, Any], context: Context, *, quiet: bool
) -> Result | None:
    """The outcome of a run that is done, told as such; None when there is something to take up."""
    from ddbload.pipeline.report import done_before

    found = done_before(context.ledger(run))
    # Under another limit the same ledger may prove something else.
    if found is None or "max_rejects" in options:
        return None
    tell_done(run, quiet=quiet)
    return Result.of(found)


def _resume_deployed(
    run: str, options: dict[str, Any], there: Deployed, detach: bool, as_json: bool, quiet: bool
) -> int:
    payload = _again(run, options, there)
    if not quiet:
        tell_run(run, stack=there.stack.name)
    done = _done_before(run, options, there.context, quiet=quiet)
    if done is not None:
        return show(done, as_json=as_json, quiet=quiet)
    suffix = f"-r{secrets.token_hex(4)}"
    arn = there.executions.start(run[: _MAX_NAME - len(suffix)] + suffix, payload)
    return started(run, arn, there, detach, as_json, quiet)


def _again(run: str, options: dict[str, Any], there: Deployed) -> dict[str, Any]:
    """The payload that takes a run up. Raises `RunNotFound` and `ExecutionExists`."""
    last = there.last_execution(run)
    if last is not None and last.running:
        raise ExecutionExists(
            f"run {run} is under way: ddbload status {run}; or stop it first (aws stepfunctions"
            f" stop-execution --execution-arn {last.arn})"
        )
    if there.context.ledger(run).find_record() is not None:
        return {"run": {"resume_of": run}, "options": options}
    if last is None or not isinstance(last.input, dict):
        raise RunNotFound(f"there is no run {run} in stack {there.stack.name}")
    # It failed before there was a ledger: what it was started with is all there is of it.
    given = last.input
    named, limits = given.get("run") or {}, given.get("options") or {}
    if not isinstance(named, dict) or not isinstance(limits, dict):
        raise InvalidPayload(
            f"execution {run} was started with a payload that cannot be taken up: its 'run' and"
            " 'options' must be objects; start it anew"
        )
    first = named.get("id") or named.get("resume_of") or run
    if first != run:
        raise RunNotFound(f"execution {run} was to work on run {first}: ddbload resume {first}")
    return {**given, "run": {**named, "id": run}, "options": {**limits, **options}}
