"""`ddbload import`: from this machine straight into DynamoDB."""

from __future__ import annotations

import os
import stat
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli.interrupts import stop_on_interrupt
from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    cores,
    dry_run_option,
    is_given,
    json_option,
    ledger_option,
    once_option,
    processes_option,
    quiet_option,
    rejects_option,
    run_option,
    sources_argument,
    verbose_option,
    yes_option,
)
from ddbload.cli.output import print_error, print_notice, print_stderr
from ddbload.cli.payload import build_payload, check_order, import_options, is_pipe
from ddbload.cli.plan_command import plan_import
from ddbload.cli.progress import Steps
from ddbload.cli.progress import show_progress as show_run
from ddbload.cli.run_location import NamedRun
from ddbload.cli.run_result import (
    Result,
    RunOutput,
    already_done,
    print_detected,
    print_run,
    source_format,
)
from ddbload.cli.run_setup import (
    prewarm,
    private_file,
    rejects_file,
    require_not_stopped,
    settle_engine,
    spooled,
)
from ddbload.contracts.control import NewLimits
from ddbload.contracts.results import DONE, FAILED, INTERRUPTED, Failure
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import AUTO
from ddbload.dynamodb.modes import PUT
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept
from ddbload.runs.local_settings import LocalSettings, default_ledger
from ddbload.runs.progress import RunProgress
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import asked_for, new_run_id, run_import
from ddbload.runs.run_status import SPOOL, HeartbeatWriter
from ddbload.steps.report import finished_report


@click.command(
    "import",
    cls=GroupedCommand,
    examples=(
        "ddbload import books.csv books --types year=N,price=N",
        "ddbload import jan.csv feb.csv mar.csv books --max-wcu 500",
        "ddbload import s3://my-bucket/books/ books --mode insert --max-rejects 1%",
    ),
)
@sources_argument
@click.argument("table")
@dry_run_option
@import_options
@processes_option
@run_option(
    "--run-id",
    metavar="ID",
    help="Id of the run; the id of an unfinished run resumes it.",
    show_default="generated",
)
@yes_option
@once_option
@ledger_option
@rejects_option
@aws_options
@json_option
@quiet_option
@verbose_option
def import_command(
    sources: tuple[str, ...],
    table: str,
    dry_run: bool,
    processes: int | None,
    rejects: str | None,
    run_id: str | None,
    yes: bool,
    once: bool,
    ledger: str | None,
    aws: AwsSettings,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Import SOURCE into TABLE from this machine.

    SOURCE is a file, a folder, s3://bucket/key, everything under s3://bucket/prefix/, a pattern
    such as s3://bucket/in/*.csv, or '-' for standard input. Several, such as *.csv, are imported as
    one run; the last argument is the table.

    The table must exist, and the source must have a column for each of its key attributes. Rows
    that do not make a valid item are rejected, with line, byte, column and cause; all others are
    written.

    The run id is printed first, on stderr. A run that was interrupted or killed is resumed by
    `ddbload resume RUN`, or by the same command with --run-id RUN. A run that is done is not
    imported again.
    """
    if dry_run:
        return plan_import(
            *(sources, table, processes, aws, given), as_json=as_json, quiet=quiet, verbose=verbose
        )
    count = processes or cores()
    check_order(sources, table)
    payload = build_payload(sources, table, run_id, count, given)
    payload["run"]["once"] = once
    is_stream = sources[0] == "-" or is_pipe(sources[0])
    if once and is_stream:
        raise InvalidUsage("--once knows files and objects, and the source is a stream")
    settings = LocalSettings(
        ledger=ledger or default_ledger(), aws=aws, concurrency=given["concurrency"]
    )
    run = run_id or new_run_id()
    named = NamedRun(run, ledger, None, aws)
    clients = settings.clients()
    resume = heart = None
    if is_stream:
        heart = _spool_heartbeat(run, settings)
    else:
        resume = f"{named.command('resume')} (or the same command with --run-id {run})"
    with ExitStack() as stack:
        stack.enter_context(asked_for(payload, settings, run, clients))
        # Not before the ledger knows the id, so that it is of use whatever comes.
        print_run(run, ledger=settings.ledger, quiet=quiet)
        if given["prewarm"] is not None and not _is_done(run_id, settings):
            prewarm(table, given["prewarm"], clients, yes=yes, quiet=quiet)
        reject_file = stack.enter_context(rejects_file(rejects, sources))
        stack.enter_context(spooled(payload, heart))
        if heart is not None:
            # The import would take up a run that it finds cancelled.
            heart.look()
            require_not_stopped(heart)
        result = import_with_progress(
            payload,
            settings,
            run=run,
            processes=count,
            rejects=reject_file,
            show_progress=not quiet,
            steps=Steps(enabled=verbose),
            resume=resume,
            clients=clients,
            keep_engine=is_given("engine"),
        )
    return RunOutput(as_json, quiet, named.command("rejects")).show(result)


def _is_done(run_id: str | None, settings: LocalSettings) -> bool:
    """Tell whether a run needs no capacity, because it is done."""
    return run_id is not None and finished_report(run_id, settings.context()) is not None


def import_with_progress(
    payload: dict[str, Any],
    settings: LocalSettings,
    *,
    run: str,
    processes: int,
    rejects: BinaryIO | None = None,
    show_progress: bool = True,
    steps: Steps | None = None,
    resume: str | None = None,
    limits: NewLimits | None = None,
    clients: Clients | None = None,
    keep_engine: bool = False,
) -> Result:
    """Import with live progress; Ctrl-C stops the run, and errors are printed on stderr.

    Args:
        payload: Input of the run.
        settings: Ledger, AWS settings and concurrency.
        run: Run id.
        processes: Worker processes.
        rejects: File for the rejected rows.
        show_progress: Draw progress, and print the detected format and types.
        steps: Printer of each step.
        resume: Command that resumes the run, if one can.
        limits: Limits given to `resume`.
        clients: Clients of the settings, if the caller has made them.
        keep_engine: Keep the payload's engine even where it cannot be used.

    Raises:
        InvalidUsage: If the payload does not fit the run of this id.
    """
    started = time.monotonic()
    last: RunProgress | None = None
    steps = steps or Steps(enabled=False)
    steps.say(f"run {run}: looking at the source and the table; worker processes: {processes:,}")
    clients = clients or settings.clients()
    if not keep_engine:
        settle_engine(payload, clients, quiet=not show_progress)

    try:
        with (
            stop_on_interrupt() as should_stop,
            show_run(enabled=show_progress and not steps.enabled) as draw,
        ):

            def watch(progress: RunProgress) -> None:
                nonlocal last
                last = progress
                draw(progress)
                steps.show_progress(progress)

            def begun(record: RunRecord) -> None:
                if record.loads_nothing:
                    return
                if show_progress:
                    print_detected(record, payload)
                steps.show_record(record)

            ended = run_import(
                payload,
                settings,
                run=run,
                processes=processes,
                should_stop=should_stop,
                watch=watch,
                begun=begun,
                notice=print_notice if show_progress else None,
                limits=limits,
                clients=clients,
            )
    except InvalidUsage:
        raise
    except DdbloadError as error:
        mode = payload.get("options", {}).get("mode") or PUT.name
        result = Result.from_error(run, mode, error, time.monotonic() - started, last)
    else:
        if ended.already_done:
            result = already_done(ended.report, quiet=not show_progress)
        else:
            result = Result(ended.report, time.monotonic() - started, ended.adopted_rows)
        if AUTO in payload["source"].values() and not ended.record.loads_nothing:
            result = replace(result, read_as=source_format(ended.record))
        result = with_rejects(result, settings, rejects)
    print_error(result.report.error)
    if result.report.status == INTERRUPTED:
        todo = f"to resume: {resume}" if resume else "start again"
        print_stderr(f"ddbload: interrupted; {todo}")
    return result


def with_rejects(result: Result, settings: LocalSettings, file: BinaryIO | None) -> Result:
    """Copy all rejects into one file, and add its path to the result.

    A result whose rejects cannot be written is a failure.
    """
    report = result.report
    any_rejects = report.rows.rejected > 0
    try:
        if file is not None:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            if any_rejects:
                _copy_rejects(report.run, settings, file)
            path = Path(file.name)
        elif not any_rejects or settings.ledger.startswith("s3://"):
            return result
        else:
            path = Path(settings.ledger, "runs", report.run, "rejects.jsonl")
            # Rows may be confidential: readable by the owner alone, like the ledger's other files.
            with open(path, "wb", opener=private_file) as kept:
                _copy_rejects(report.run, settings, kept)
        rejects = str(path.absolute()) if any_rejects else None
        return replace(result, report=replace(report, rejects=rejects))
    except DdbloadError as error:
        failure = Failure.of(error)
    except OSError as error:
        failure = Failure(RejectsNotKept.__name__, f"the rejects file: {error.strerror}")
    status = FAILED if report.status in DONE else report.status
    report = replace(report, status=status, error=report.error or failure)
    return replace(result, report=report)


def _copy_rejects(run: str, settings: LocalSettings, file: BinaryIO) -> None:

    file.writelines(iter_rejects(run, settings.context()))
    file.flush()


def _spool_heartbeat(run: str, settings: LocalSettings) -> HeartbeatWriter | None:
    """Write heartbeats while standard input is copied, which may take hours."""
    try:
        context = settings.context()
    except DdbloadError:
        # The import raises this error again, and reports it.
        return None
    return HeartbeatWriter(context.ledger(run), context, SPOOL)
