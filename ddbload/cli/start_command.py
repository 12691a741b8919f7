"""`ddbload start` and `ddbload resume`: start or resume a run, and follow it to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options
from ddbload.cli.import_command import import_with_progress, with_rejects
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.progress import show_progress, show_record
from ddbload.cli.run_location import NamedRun, run_options
from ddbload.cli.run_result import Result, finished_result, print_run, show_result
from ddbload.cli.run_setup import prewarm, print_table_notices, rejects_file
from ddbload.cli.terminal import EXIT_DONE, EXIT_INTERRUPTED, Output, print_error, print_stderr
from ddbload.contracts.column_mapping import ColumnChanges, refuse_hmac
from ddbload.contracts.control import UNLIMITED, NewLimits
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import AUTO
from ddbload.errors import ExecutionExists, InvalidPayload, InvalidUsage
from ddbload.runs.deployed import attempt_report
from ddbload.runs.progress import RunProgress
from ddbload.runs.run_control import (
    loads_the_same,
    resume_here,
    resume_payload,
    start_again,
    start_run,
)
from ddbload.runs.run_import import new_run_id
from ddbload.runs.run_location import Deployed, find_deployed
from ddbload.steps.report import finished_report


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
        help="Lambda functions that import at once. auto: one for each 4,000 write units a second"
        " that the table accepts or --max-wcu allows, within the account's concurrency limit.",
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
    if force and finished_report(run, there.context) is not None:
        again = new_run_id()
        output.say(f"run {run} is done; it is loaded again as run {again}")
        run = again
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
        if loads_the_same(run, payload, there):
            done = finished_result(run, there.context, output)
        if done is None:
            raise ExecutionExists(
                f"a run {run} was started before: ddbload resume {run} resumes it; give another"
                " --run-id to start a new one"
            ) from None
        return show_result(done, output, named)
    output.step(f"stack {there.stack.name}: execution {arn}")
    return follow_run(named, arn, there, output, detach=detach)


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
    processes: int | None = options.import_processes_option,
    workers: int | str | None = options.run_option(
        metavar="N|auto",
        type=options.WORKERS,
        help="For a run of the stack: functions that import at once.",
        show_default="the run's",
    ),
    detach: bool = options.detach_option,
    named: NamedRun = run_options,
    rejects: str | None = options.rejects_option,
    output: Output = options.output_options(quiet=options.QUIET),
) -> int:
    """Import the rows that RUN has not imported yet, from the same version of its source.

    RUN is looked up in the local ledger, then in the deployed stack. Rows that the
    ledger has counted are neither written nor counted again. A run that failed before it wrote a
    row is started over. Options given here replace those of the run. A run that is done is not
    imported again. A run that read standard input cannot be resumed, because its input is gone.

    --processes and --rejects are for a run of this machine, --workers and --detach for one of the
    stack.
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
    run, limits, there = named.run, NewLimits(max_wcu, max_cost), named.find()
    # A different --max-rejects can turn the ledger of a run that is done from a failure into a
    # success.
    if isinstance(there, Deployed):
        _refuse(named, {"--processes": processes, "--rejects": rejects}, "this machine")
        payload = resume_payload(run, changed, there)
        print_run(run, output, stack=there.stack.name)
        result = None if max_rejects is not None else finished_result(run, there.context, output)
        if result is not None:
            return show_result(result, output, named)
        arn = start_again(run, payload, there, limits)
        return follow_run(named, arn, there, output, detach=detach)
    _refuse(named, {"--workers": workers, "--detach": detach or None}, "the stack")
    local = resume_here(run, {**changed, "workers": processes or AUTO}, there)
    settings = named.settings(local.to_json())
    print_run(run, output, ledger=settings.ledger)
    with rejects_file(rejects, local.source.names) as file:
        # Checked first: a finished run no longer needs its source.
        result = None if max_rejects is not None else finished_result(run, there.context, output)
        if result is None:
            result = import_with_progress(
                *(local.to_json(), named, output, processes),
                rejects=file,
                resume=named.command("resume"),
                limits=limits,
            )
        else:
            result = with_rejects(result, settings, file)
            print_error(result.report.error)
    return show_result(result, output, named)


def _refuse(named: NamedRun, given: dict[str, object], other: str) -> None:
    """Raise `InvalidUsage` for options that apply only to runs in the `other` place."""
    place = {"the stack": "this machine", "this machine": "the stack"}[other]
    for name, value in given.items():
        if value is not None:
            raise InvalidUsage(
                f"{name} is for runs of {other}, and {named.run} is a run of {place}"
            )
