"""`ddbload import`: import from this machine into DynamoDB."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli import options, run_setup
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.progress import show_progress, show_record
from ddbload.cli.run_location import NamedRun
from ddbload.cli.run_result import Result, already_done, print_run, show_result, source_format
from ddbload.cli.run_setup import NewKeys, create_table_option, ensure_table, parse_table_keys
from ddbload.cli.terminal import Output, print_error, print_stderr, stop_on_interrupt
from ddbload.context import reading_context
from ddbload.contracts.control import NewLimits
from ddbload.contracts.results import DONE, FAILED, INTERRUPTED, Failure
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import AUTO
from ddbload.dynamodb.modes import PUT
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept
from ddbload.runs.local_runs import SPOOL, HeartbeatWriter, LocalSettings
from ddbload.runs.progress import RunProgress
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import asked_for, new_run_id, run_import
from ddbload.source.local_file import is_pipe
from ddbload.steps.report import finished_report


@options.command(
    "ddbload import books.csv books --types year=N,price=N",
    "ddbload import jan.csv feb.csv mar.csv books --max-wcu 500",
    "ddbload import s3://my-bucket/books/ books --mode insert --max-rejects 1%",
)
def import_command(
    sources: tuple[str, ...] = options.sources_argument,
    table: str = options.argument(),
    dry_run: bool = options.dry_run_option,
    given: Mapping[str, Any] = import_options,
    processes: int | None = options.import_processes_option,
    run_id: str | None = options.run_option(
        metavar="ID",
        help="Id of the run; the id of an unfinished run resumes it.",
        show_default="generated",
    ),
    create_table: str | None = create_table_option,
    yes: bool = options.yes_option,
    once: bool = options.once_option,
    ledger: str | None = options.ledger_option,
    rejects: str | None = options.rejects_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(quiet=options.QUIET, verbose=True),
) -> int:
    """Import SOURCE into TABLE from this machine.

    SOURCE is a file, a folder, s3://bucket/key, everything under s3://bucket/prefix/, a pattern
    such as s3://bucket/in/*.csv, or '-' for standard input. Several, such as *.csv, are imported as
    one run; the last argument is the table.

    The table must exist (or see --create-table), and the source must have a column for each of its
    key attributes. Rows that do not make a valid item are rejected, with line, byte, column and
    cause; all others are written.

    The run id is printed first, on stderr. A run that was interrupted or killed is resumed by
    `ddbload resume RUN`, or by the same command with --run-id RUN. A run that is done is not
    imported again.
    """
    keys = () if create_table is None else parse_table_keys(create_table)
    if dry_run:
        # Drawing a plan, and the processes that make one, take as long to import as all the rest.
        from ddbload.cli.plan_command import plan_import

        return plan_import(sources, table, processes, aws, output, given, keys=keys)
    check_order(sources, table)
    payload = build_payload(sources, table, run_id, processes or AUTO, given)
    payload["run"]["once"] = once
    is_stream = sources[0] == "-" or is_pipe(sources[0])
    if once and is_stream:
        raise InvalidUsage("--once knows files and objects, and the source is a stream")
    named = NamedRun(run_id or new_run_id(), ledger, None, aws)
    run, settings = named.run, named.settings(payload)
    clients = settings.clients()
    if keys:
        check = bool if is_stream else partial(_check_source, payload, keys, aws)
        ensure_table(table, keys, clients.dynamodb, output, yes=yes, check=check)
    resume = heartbeats = None
    if is_stream:
        # Copying standard input may take hours.
        context = settings.context(clients=clients)
        heartbeats = HeartbeatWriter(context.ledger(run), context, SPOOL)
    else:
        resume = f"{named.command('resume')} (or the same command with --run-id {run})"
    with ExitStack() as stack:
        stack.enter_context(asked_for(payload, settings, run, clients))
        # Printed only once the ledger has the run, so that `ddbload resume` always finds it.
        print_run(run, output, ledger=settings.ledger)
        # A run that is done needs no capacity.
        if given["prewarm"] is not None and (
            run_id is None or finished_report(run, settings.context()) is None
        ):
            run_setup.prewarm(table, given["prewarm"], clients, output, yes=yes)
        file = stack.enter_context(run_setup.rejects_file(rejects, sources))
        stack.enter_context(run_setup.spooled(payload, heartbeats))
        if heartbeats is not None:
            # Checked here, because the import would resume a cancelled run.
            heartbeats.look()
            run_setup.require_not_stopped(heartbeats)
        result = import_with_progress(
            *(payload, named, output, processes), rejects=file, resume=resume, clients=clients
        )
    return show_result(result, output, named)


def _check_source(payload: Mapping[str, Any], keys: NewKeys, aws: AwsSettings) -> None:
    """Raise `InvalidUsage` if the source's first row does not fit a table with these keys."""
    # Imported here because few imports make a table.
    from ddbload.planning.make_plan import Sample, make_plan

    sample = Sample(rows=1, exact=True)
    error = make_plan(payload, reading_context(aws), sample=sample, new_keys=keys).error
    if error is not None:
        raise InvalidUsage(f"no table was made: {error.name}: {error.message}")


def import_with_progress(
    payload: dict[str, Any],
    named: NamedRun,
    output: Output,
    processes: int | None,
    *,
    rejects: BinaryIO | None = None,
    resume: str | None = None,
    limits: NewLimits | None = None,
    clients: Clients | None = None,
) -> Result:
    """Import with live progress. Ctrl-C stops the run. Errors are printed on stderr.

    Args:
        payload: Input of the run.
        named: Run id, ledger and AWS settings.
        output: Output options, for progress and for the detected format and types.
        processes: Worker processes; None for as many as the table's capacity needs.
        rejects: File for rejected rows.
        resume: Command that resumes the run; None if the run cannot be resumed.
        limits: New limits of a resumed run.
        clients: AWS clients to use; None to create them from the settings.

    Raises:
        InvalidUsage: If the payload differs from that of the existing run with this id.
    """
    started, run, settings = time.monotonic(), named.run, named.settings(payload)
    last: RunProgress | None = None
    output.step(f"run {run}: looking at the source and the table")
    clients = clients or settings.clients()
    run_setup.choose_engine(payload, clients, output)
    try:
        with stop_on_interrupt() as should_stop, show_progress(output) as show:

            def watch(progress: RunProgress) -> None:
                nonlocal last
                last = progress
                show(progress)

            def begun(record: RunRecord) -> None:
                if not record.loads_nothing:
                    show_record(output, record, payload)

            ended = run_import(
                payload,
                settings,
                run=run,
                processes=processes,
                should_stop=should_stop,
                watch=watch,
                begun=begun,
                notice=output.notice,
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
            result = already_done(ended.report, output)
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

    If the rejects cannot be written, the returned result is a failure.
    """
    report, is_local = result.report, not settings.ledger.startswith("s3://")
    if file is None and not (report.rows.rejected and is_local):
        return result
    path = Path(settings.ledger, "runs", report.run, "rejects.jsonl")
    try:
        with ExitStack() as stack:
            if file is None:
                # Rows may be confidential: only the owner may read the file, as with the ledger's
                # files.
                file = stack.enter_context(open(path, "wb", opener=run_setup.private_file))
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            if report.rows.rejected:
                file.writelines(iter_rejects(report.run, settings.context()))
            file.flush()
        rejects = str(Path(file.name).absolute()) if report.rows.rejected else None
        return replace(result, report=replace(report, rejects=rejects))
    except DdbloadError as error:
        failure = Failure.of(error)
    except OSError as error:
        failure = Failure(RejectsNotKept.__name__, f"the rejects file: {error.strerror}")
    status = FAILED if report.status in DONE else report.status
    report = replace(report, status=status, error=report.error or failure)
    return replace(result, report=report)
