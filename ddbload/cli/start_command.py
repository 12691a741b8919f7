"""`ddbload start`: a run of the deployed stack."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.import_command import show, tell_done
from ddbload.cli.options import aws_options, stack_option
from ddbload.cli.output import EXIT_DONE, EXIT_INTERRUPTED, Result, tell, tell_error, tell_run
from ddbload.cli.payload import (
    limit_options,
    manifest_option,
    payload_of,
    place_named,
    reading_options,
)
from ddbload.cli.progress import live_progress
from ddbload.contracts.payload import DEFAULT_WORKERS, Payload
from ddbload.contracts.results import Failure
from ddbload.errors import ExecutionExists, InvalidUsage

if TYPE_CHECKING:
    from ddbload.cli.run_location import Deployed
    from ddbload.pipeline.context import RunTotals

_DETACH = click.option("--detach", is_flag=True, help="Start it, and do not wait for its end.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
_QUIET = click.option("--quiet", is_flag=True, help="No run id, no progress and no summary.")


@click.command("start", short_help="Import S3 objects on the deployed stack, and follow it.")
@click.argument("source")
@click.argument("table")
@manifest_option
@reading_options
@click.option(
    "--workers",
    type=click.IntRange(1, 10_000),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="Chunks that are imported at once, each by a function of its own.",
)
@limit_options
@click.option("--run-id", metavar="ID", help="Names the run.")
@_DETACH
@stack_option
@aws_options
@_JSON
@_QUIET
def start_command(
    source: str,
    table: str,
    manifest: bool,
    workers: int,
    run_id: str | None,
    detach: bool,
    stack: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Import SOURCE (s3://bucket/key, a prefix/, a glob) into TABLE on the deployed state machine.

    The stack must have been deployed with leave to read the bucket and to write the table.
    Progress comes from the run's ledger, so reading the work bucket must be allowed here.
    Ctrl-C ends the watching only; the run goes on.
    """
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.cli.run_location import deployed
    from ddbload.runs.run_import import new_run_id

    if not source.startswith("s3://"):
        raise InvalidUsage(
            f"{source} is not in S3: the stack reads s3://bucket/key; upload it first, or use"
            " ddbload import"
        )
    run = run_id or new_run_id()
    payload = payload_of(place_named(source, manifest=manifest), table, run, workers, given)
    there = deployed(stack, AwsSettings(profile, region, endpoint_url))
    if not quiet:
        tell_run(run, stack=there.stack.name)
    try:
        arn = there.executions.start(run, payload)
    except ExecutionExists:
        done = _done_before(run, payload, there)
        if done is None:
            raise ExecutionExists(
                f"a run {run} was started before: ddbload resume {run} takes it up; give another"
                " --run-id to start anew"
            ) from None
        tell_done(run, quiet=quiet)
        return show(done, as_json=as_json, quiet=quiet)
    return started(run, arn, there, detach, as_json, quiet)


def _done_before(run: str, payload: dict[str, Any], there: Deployed) -> Result | None:
    """The outcome of the run of this id, where it is done and loaded the same."""
    from ddbload.pipeline.report import done_before

    ledger, asked = there.context.ledger(run), Payload.from_json(payload)
    record = ledger.find_record()
    if record is None:
        return None
    earlier = record.payload
    if (earlier.source.place, earlier.table, earlier.options.mode) != (
        *(asked.source.place, asked.table, asked.options.mode),
    ):
        return None
    report = done_before(ledger)
    return None if report is None else Result.of(report)


def started(run: str, arn: str, there: Deployed, detach: bool, as_json: bool, quiet: bool) -> int:
    if detach:
        if as_json:
            click.echo(json.dumps({"run": run, "status": "RUNNING", "execution": arn}))
        elif not quiet:
            click.echo(f"run {run}: RUNNING\n  execution {arn}")
        return EXIT_DONE
    if not quiet:
        tell(f"ddbload: run {run} is under way; Ctrl-C ends the watching, not the run")
    try:
        result = _watched(run, arn, there, show_progress=not quiet)
    except KeyboardInterrupt:
        tell(
            f"ddbload: no longer watching; the run goes on: ddbload status {run}; to end it: aws"
            f" stepfunctions stop-execution --execution-arn {arn}"
        )
        return EXIT_INTERRUPTED
    tell_error(result)
    if as_json:
        click.echo(json.dumps(result.to_json()))
    elif not quiet and (result.error is None or result.rows.read):
        click.echo("\n".join(result.lines()))
    return result.exit_code


def _watched(run: str, arn: str, there: Deployed, *, show_progress: bool) -> Result:
    from ddbload.runs.deployed import concluded, follow, run_status

    adopted_rows = 0

    with live_progress(enabled=show_progress) as draw:

        def watch(totals: RunTotals) -> None:
            nonlocal adopted_rows
            adopted_rows = totals.adopted_rows
            draw(totals)

        execution = follow(
            there.executions,
            arn,
            there.context.ledger(run),
            watch=watch,
            sleep=time.sleep,
            clock=time.monotonic,
        )
    found = concluded(run, execution, there.context)
    if found is not None:
        return Result.of(found, seconds=execution.seconds, adopted_rows=adopted_rows)
    failure = execution.failure or Failure("RunNotFound", f"run {run} left no ledger")
    return Result.unreported(run, run_status(execution), failure, execution.seconds)
