"""`ddbload start` and `ddbload resume`: start or resume a run, and follow it to its end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options
from ddbload.cli.import_command import import_with_progress, with_rejects
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.progress import show_progress, show_record
from ddbload.cli.run_location import Deployed, NamedRun, RunLocation, find_deployed, run_options
from ddbload.cli.run_result import Result, finished_result, print_run, show_result
from ddbload.cli.run_setup import prewarm, print_table_notices, rejects_file
from ddbload.cli.terminal import EXIT_DONE, EXIT_INTERRUPTED, Output, print_error, print_stderr
from ddbload.contracts.column_mapping import ColumnChanges, refuse_hmac
from ddbload.contracts.control import UNLIMITED, NewLimits
from ddbload.contracts.payload import Payload, differing
from ddbload.contracts.run_record import Resume, RunRecord
from ddbload.contracts.source import AUTO
from ddbload.errors import (
    ExecutionExists,
    InvalidPayload,
    InvalidUsage,
    RunNotFound,
    SourceNotFound,
)
from ddbload.runs.deployed import attempt_report
from ddbload.runs.progress import RunProgress
from ddbload.runs.run_control import take_up
from ddbload.runs.run_import import new_run_id
from ddbload.steps.preflight import resumed_payload
from ddbload.steps.report import finished_report, is_input_gone, read_run

_MAX_EXECUTION_NAME = 80


@options.command(
    "ddbload start s3://my-bucket/books.csv books --types year=N",
    "ddbload start s3://my-bucket/books/ books --workers 20 --max-wcu 50%",
    "ddbload start 's3://my-bucket/in/*.csv' books --once --detach",
)
def start_command(
    sources: tuple[str, ...] = options.sources_argument,
    table: str = options.argument(),
    dry_run: bool = options.dry_run_option,
    given: Mapping[str, Any] = import_options,
    workers: int | str = options.run_option(
        metavar="N|auto",
        type=options.WORKERS,
        default=AUTO,
        show_default=True,
        help="Chunks imported at once, one Lambda invocation each. auto: one for each 4,000 write"
        " units a second that the table accepts or --max-wcu allows, within the account's"
        " concurrency limit.",
    ),
    run_id: str | None = options.run_option(
        metavar="ID", help="Id of the run.", show_default="generated"
    ),
    yes: bool = options.yes_option,
    once: bool = options.once_option,
    force: bool = options.run_option(
        is_flag=True,
        help="Load objects again that were loaded before; under a new id if --run-id names a run"
        " that is done.",
    ),
    detach: bool = options.detach_option,
    stack: str | None = options.stack_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(quiet=options.QUIET, verbose=True),
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
        # Drawing a plan, and the processes that make one, take as long to import as all the rest.
        from ddbload.cli.plan_command import plan_import

        return plan_import(sources, table, None, aws, output, given)
    run = run_id or new_run_id()
    payload = build_payload(sources, table, run, workers, given)
    try:
        refuse_hmac(ColumnChanges.of(set=payload["mapping"]["set"]))
    except InvalidPayload as error:
        raise InvalidUsage(error.message) from None
    there = find_deployed(stack, aws)
    if force:
        run = _forced_run(run, there, output)
    payload["run"] = {"id": run, "once": once, "force": force}
    named = NamedRun(run, None, stack, aws)
    print_run(run, output, stack=there.stack.name)
    if given["prewarm"] is not None:
        prewarm(table, given["prewarm"], there.context.clients, output, yes=yes)
    if not output.quiet:
        print_table_notices(payload, there.context.clients)
    try:
        arn = start_run(run, payload, there)
    except ExecutionExists:
        done = None
        if _loads_the_same(run, payload, there):
            done = finished_result(run, there.context, output)
        if done is None:
            raise ExecutionExists(
                f"a run {run} was started before: ddbload resume {run} resumes it; give another"
                " --run-id to start a new one"
            ) from None
        return show_result(done, output, named)
    output.step(f"stack {there.stack.name}: execution {arn}")
    return follow_run(named, arn, there, output, detach=detach)


def _forced_run(run: str, there: Deployed, output: Output) -> str:
    """Return the run id, or a new one if the run of this id is done."""
    if finished_report(run, there.context) is None:
        return run
    again = new_run_id()
    output.say(f"run {run} is done; it is loaded again as run {again}")
    return again


def start_run(run: str, payload: dict[str, Any], there: Deployed) -> str:
    """Start the first execution of a run, or the next one of a cancelled run; return its ARN.

    Raises `ExecutionExists` for a run that was already started.
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
    """Return whether the run's execution ended before it wrote the run's record."""
    if there.context.ledger(run).find_record() is not None:
        return False
    last = there.last_execution(run)
    return last is not None and not last.running


def start_again(run: str, payload: dict[str, Any], there: Deployed, limits: NewLimits) -> str:
    """Start another execution of a run once its earlier functions have stopped; return its ARN."""
    take_up(run, there.context, limits=limits, functions=True)
    suffix = f"-r{secrets.token_hex(4)}"
    name = run[: _MAX_EXECUTION_NAME - len(suffix)] + suffix
    return there.executions.start(name, payload)


def _loads_the_same(run: str, payload: dict[str, Any], there: Deployed) -> bool:
    """Return whether the run with this id loads the same source and table with the same options."""
    ledger = there.context.ledger(run)
    record, request = ledger.find_record(), ledger.find_request()
    if record is None:
        return False
    earlier, asked = record.payload, Payload.from_json(payload)
    if (earlier.source.location, earlier.table) != (asked.source.location, asked.table):
        return False
    return not differing(asked, earlier, *([] if request is None else [request.payload]))


def follow_run(named: NamedRun, arn: str, there: Deployed, output: Output, *, detach: bool) -> int:
    """Follow an execution to its end and print its result; return the exit status.

    With `detach`, print the execution's ARN and return at once.
    """
    run = named.run
    if detach:
        value = {"run": run, "status": "RUNNING", "execution": arn}
        output.show(value, f"run {run}: RUNNING", f"  execution {arn}")
        return EXIT_DONE
    output.say(f"run {run} has started; Ctrl-C stops following, not the run")
    try:
        result = _followed(run, arn, there, output)
    except KeyboardInterrupt:
        print_stderr(
            f"ddbload: stopped following; the run continues: ddbload status {run}; to stop it:"
            f" ddbload cancel {run}"
        )
        return EXIT_INTERRUPTED
    print_error(result.report.error)
    return show_result(result, output, named)


def _followed(run: str, arn: str, there: Deployed, output: Output) -> Result:
    adopted_rows = 0
    record: RunRecord | None = None
    ledger = there.context.ledger(run)
    with show_progress(output) as show:

        def watch(progress: RunProgress) -> None:
            nonlocal adopted_rows, record
            adopted_rows = progress.adopted_rows
            if output.verbose and record is None:
                record = ledger.find_record()
                if record is not None:
                    show_record(output, record)
            show(progress)

        execution = there.follow(run, arn, watch)
    found = attempt_report(run, execution, there.context)
    return Result(found, execution.seconds, adopted_rows)


@options.command(
    "ddbload resume 20261121T073000Z-1f2e3d",
    "ddbload resume 20261121T073000Z-1f2e3d --max-rejects 5000",
    "ddbload resume 20261121T073000Z-1f2e3d --max-wcu 1000 --workers 40",
)
def resume_command(
    max_wcu: float | str | None = options.new_max_wcu,
    max_cost: float | str | None = options.new_max_cost,
    max_rejects: int | str | None = options.run_option(
        metavar="N|N%",
        type=options.MAX_REJECTS,
        help="Fail when more than N rows are rejected, or more than N percent of all rows.",
        show_default="the run's",
    ),
    processes: int | None = options.run_option(
        metavar="N",
        type=click.IntRange(1, 256),
        help="For a run of this machine: worker processes.",
        show_default="one per core",
    ),
    workers: int | str | None = options.run_option(
        metavar="N|auto",
        type=options.WORKERS,
        help="For a run of the stack: chunks imported at once.",
        show_default="the run's",
    ),
    detach: bool = options.run_option(
        is_flag=True,
        help="For a run of the stack: return once it has started, without waiting for its end.",
    ),
    named: NamedRun = run_options,
    rejects: str | None = options.output_option(
        metavar="PATH", help="For a run of this machine: file for rejected rows, as JSON lines."
    ),
    output: Output = options.output_options(quiet=options.QUIET),
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
    # In a payload, null means no limit.
    changed = {
        name: None if value == UNLIMITED else value
        for name, value in changes.items()
        if value is not None
    }
    limits, there = NewLimits(max_wcu, max_cost), named.find()
    if not isinstance(there, Deployed):
        _refuse(named, {"--workers": workers, "--detach": detach or None}, "the stack")
        return _resume_here(named, changed, limits, there, processes, rejects, output)
    _refuse(named, {"--processes": processes, "--rejects": rejects}, "this machine")
    payload = _resume_payload(named.run, changed, there)
    print_run(named.run, output, stack=there.stack.name)
    done = _finished_result(named.run, changed, there, output)
    if done is not None:
        return show_result(done, output, named)
    arn = start_again(named.run, payload, there, limits)
    return follow_run(named, arn, there, output, detach=detach)


def _refuse(named: NamedRun, given: dict[str, object], other: str) -> None:
    """Raise `InvalidUsage` for options that apply only to runs in the `other` place."""
    place = {"the stack": "this machine", "this machine": "the stack"}[other]
    for name, value in given.items():
        if value is not None:
            raise InvalidUsage(
                f"{name} is for runs of {other}, and {named.run} is a run of {place}"
            )


def _resume_here(
    named: NamedRun,
    changed: dict[str, Any],
    limits: NewLimits,
    there: RunLocation,
    processes: int | None,
    rejects: str | None,
    output: Output,
) -> int:
    run, count = named.run, processes or options.cores()
    seen = read_run(run, there.context, segments=False)
    if seen.record is None and is_input_gone(seen):
        raise SourceNotFound(
            f"run {run} read standard input, a pipe or mended rejects, and is not resumable: its"
            " input is gone; import it anew, under another run id"
        )
    resumed = Resume(run, {**changed, "workers": count})
    payload = resumed_payload(resumed, there.context.ledger(run))
    settings = named.settings(payload.to_json())
    print_run(run, output, ledger=settings.ledger)
    with rejects_file(rejects, payload.source.names) as file:
        # Checked first: a finished run no longer needs its source.
        result = _finished_result(run, changed, there, output)
        if result is None:
            result = import_with_progress(
                *(payload.to_json(), named, output, count),
                rejects=file,
                resume=named.command("resume"),
                limits=limits,
            )
        else:
            result = with_rejects(result, settings, file)
            print_error(result.report.error)
    return show_result(result, output, named)


def _finished_result(
    run: str, changed: dict[str, Any], there: RunLocation, output: Output
) -> Result | None:
    """Return the result of a run that is done; None if it is not, or if --max-rejects changed."""
    # A different --max-rejects can turn the same ledger from a failure into a success.
    return None if "max_rejects" in changed else finished_result(run, there.context, output)


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
    # Its input was invalid: start over with it, in case a new option corrects it.
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
