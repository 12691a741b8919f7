"""`ddbload start`: run the deployed state machine and follow it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli.options import (
    WORKERS,
    GroupedCommand,
    aws_options,
    detach_option,
    dry_run_option,
    json_option,
    once_option,
    quiet_option,
    run_option,
    sources_argument,
    stack_option,
    verbose_option,
    yes_option,
)
from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    print_error,
    print_json,
    print_stderr,
    print_stdout,
)
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.plan_command import plan_import
from ddbload.cli.progress import Steps
from ddbload.cli.progress import show_progress as show_run
from ddbload.cli.run_location import Deployed, NamedRun, find_deployed
from ddbload.cli.run_result import Result, RunOutput, finished_result, print_run
from ddbload.cli.run_setup import prewarm, print_table_notices
from ddbload.contracts.column_mapping import ColumnChanges, refuse_hmac
from ddbload.contracts.control import NewLimits
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import RunRecord, differing
from ddbload.contracts.source import AUTO
from ddbload.errors import ExecutionExists, InvalidPayload, InvalidUsage
from ddbload.ledger.history import History
from ddbload.runs.deployed import attempt_report, follow
from ddbload.runs.progress import RunProgress
from ddbload.runs.run_control import take_up
from ddbload.runs.run_import import new_run_id
from ddbload.steps.report import finished_report

_MAX_EXECUTION_NAME = 80


@click.command(
    "start",
    cls=GroupedCommand,
    examples=(
        "ddbload start s3://my-bucket/books.csv books --types year=N",
        "ddbload start s3://my-bucket/books/ books --workers 20 --max-wcu 50%",
        "ddbload start 's3://my-bucket/in/*.csv' books --once --detach",
    ),
)
@sources_argument
@click.argument("table")
@dry_run_option
@import_options
@run_option(
    "--workers",
    metavar="N|auto",
    type=WORKERS,
    default=AUTO,
    show_default=True,
    help="Chunks imported at once, one Lambda invocation each. auto: one for each 1,000 write units"
    " a second that the table accepts or --max-wcu allows, as far as the account's concurrency"
    " goes.",
)
@run_option("--run-id", metavar="ID", help="Id of the run.", show_default="generated")
@yes_option
@once_option
@run_option(
    "--force",
    is_flag=True,
    help="Load again what was loaded before: under a new id if --run-id names a run that is done.",
)
@detach_option
@stack_option
@aws_options
@json_option
@quiet_option
@verbose_option
def start_command(
    sources: tuple[str, ...],
    table: str,
    dry_run: bool,
    workers: int | str,
    run_id: str | None,
    yes: bool,
    once: bool,
    force: bool,
    detach: bool,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Import SOURCE into TABLE on the deployed state machine.

    SOURCE is s3://bucket/key, everything under s3://bucket/prefix/, or a pattern such as
    s3://bucket/in/*.csv. Several are imported as one run; the last argument is the table. The stack
    needs permission to read the bucket and to write the table.

    Progress is read from the run's ledger, which needs permission to read the work bucket. Ctrl-C
    stops following; the run continues.
    """
    check_order(sources, table)
    source = next((each for each in sources if not each.startswith("s3://")), None)
    if source is not None:
        raise InvalidUsage(
            f"{source} is not in S3: the stack reads s3://bucket/key; upload it first, or use"
            " ddbload import"
        )
    if once and force:
        raise InvalidUsage(
            "--once refuses what was loaded before, and --force loads it again: give one"
        )
    if dry_run:
        return plan_import(
            *(sources, table, None, aws, given), as_json=as_json, quiet=quiet, verbose=verbose
        )
    run = run_id or new_run_id()
    payload = build_payload(sources, table, run, workers, given)
    try:
        refuse_hmac(ColumnChanges.of(set=payload["mapping"]["set"]))
    except InvalidPayload as error:
        raise InvalidUsage(error.message) from None
    there = find_deployed(stack, aws)
    if force:
        run = _forced_run(run, sources, table, there, quiet=quiet)
    payload["run"] = {"id": run, "once": once, "force": force}
    named = NamedRun(run, None, stack, aws)
    output = RunOutput(as_json, quiet, named.command("rejects"))
    print_run(run, stack=there.stack.name, quiet=quiet)
    if given["prewarm"] is not None:
        prewarm(table, given["prewarm"], there.context.clients, yes=yes, quiet=quiet)
    if not quiet:
        print_table_notices(payload, there.context.clients)
    try:
        arn = start_run(run, payload, there)
    except ExecutionExists:
        done = None
        if _loads_the_same(run, payload, there):
            done = finished_result(run, there.context, quiet=quiet)
        if done is None:
            raise ExecutionExists(
                f"a run {run} was started before: ddbload resume {run} resumes it; give another"
                " --run-id to start a new one"
            ) from None
        return output.show(done)
    steps = Steps(enabled=verbose)
    steps.say(f"stack {there.stack.name}: execution {arn}")
    return follow_run(run, arn, there, output, steps, detach=detach)


def _forced_run(
    run: str, sources: Sequence[str], table: str, there: Deployed, *, quiet: bool
) -> str:
    """Return the id under which a source is loaded again, and say which run has loaded it."""
    if finished_report(run, there.context) is not None:
        again = new_run_id()
        if not quiet:
            print_stderr(f"ddbload: run {run} is done; it is loaded again as run {again}")
        return again
    history = History(there.context.store)
    pages = [page for source in sources for page in history.read_location(source)]
    loads = [page.load for page in pages if page.load.table == table]
    if loads and not quiet:
        last = max(loads, key=lambda load: load.at)
        print_stderr(f"ddbload: run {last.run} has loaded it; it is loaded again as run {run}")
    return run


def start_run(run: str, payload: dict[str, Any], there: Deployed) -> str:
    """Start the first execution of a run, or the next one of a cancelled run; return its ARN.

    Raises `ExecutionExists` for a run that was started before.
    """
    control = there.context.ledger(run).find_control()
    if control is None or not control.cancelled:
        try:
            return there.executions.start(run, payload)
        except ExecutionExists:
            if not _ended_before_it_began(run, there):
                raise
    return start_again(run, payload, there, NewLimits.of(Payload.from_json(payload).options))


def _ended_before_it_began(run: str, there: Deployed) -> bool:
    """Tell whether the run's execution ended before the run had a record."""
    if there.context.ledger(run).find_record() is not None:
        return False
    last = there.last_execution(run)
    return last is not None and not last.running


def start_again(run: str, payload: dict[str, Any], there: Deployed, limits: NewLimits) -> str:
    """Start another execution of a run once no earlier function sends; return its ARN."""
    take_up(run, there.context, limits=limits, functions=True)
    suffix = f"-r{secrets.token_hex(4)}"
    name = run[: _MAX_EXECUTION_NAME - len(suffix)] + suffix
    return there.executions.start(name, payload)


def _loads_the_same(run: str, payload: dict[str, Any], there: Deployed) -> bool:
    """Tell whether the run of this id was asked for the same of the same source and table."""
    ledger = there.context.ledger(run)
    record, request = ledger.find_record(), ledger.find_request()
    if record is None:
        return False
    earlier, asked = record.payload, Payload.from_json(payload)
    if (earlier.source.location, earlier.table) != (asked.source.location, asked.table):
        return False
    return not differing(asked, earlier, *([] if request is None else [request.payload]))


def follow_run(
    run: str, arn: str, there: Deployed, output: RunOutput, steps: Steps, *, detach: bool
) -> int:
    """Follow an execution to its end, and print its result; return the exit status.

    With `detach`, print its ARN and return at once.
    """
    if detach:
        if output.as_json:
            print_json({"run": run, "status": "RUNNING", "execution": arn})
        elif not output.quiet:
            print_stdout(f"run {run}: RUNNING", f"  execution {arn}")
        return EXIT_DONE
    if not output.quiet:
        print_stderr(f"ddbload: run {run} has started; Ctrl-C stops following, not the run")
    try:
        result = _followed(run, arn, there, steps, show_progress=not output.quiet)
    except KeyboardInterrupt:
        print_stderr(
            f"ddbload: stopped following; the run continues: ddbload status {run}; to stop it:"
            f" ddbload cancel {run}"
        )
        return EXIT_INTERRUPTED
    print_error(result.report.error)
    return output.show(result)


def _followed(run: str, arn: str, there: Deployed, steps: Steps, *, show_progress: bool) -> Result:

    adopted_rows = 0
    record: RunRecord | None = None

    with show_run(enabled=show_progress and not steps.enabled) as draw:

        def watch(progress: RunProgress) -> None:
            nonlocal adopted_rows, record
            adopted_rows = progress.adopted_rows
            draw(progress)
            if steps.enabled and record is None:
                record = there.context.ledger(run).find_record()
                if record is not None:
                    steps.show_record(record)
            steps.show_progress(progress)

        execution = follow(
            there.executions,
            arn,
            there.context.ledger(run),
            watch=watch,
            sleep=time.sleep,
            clock=time.monotonic,
        )
    found = attempt_report(run, execution, there.context)
    return Result(found, execution.seconds, adopted_rows)
