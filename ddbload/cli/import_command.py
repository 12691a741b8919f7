"""`ddbload import`: from this machine straight into DynamoDB."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ddbload.cli.interrupts import stop_on_interrupt
from ddbload.cli.options import aws_options, cores, ledger_option
from ddbload.cli.output import USUAL, Result, inferred_types, read_as, tell, tell_error, tell_run
from ddbload.cli.payload import (
    limit_options,
    manifest_option,
    payload_of,
    place_named,
    reading_options,
)
from ddbload.cli.progress import live_progress
from ddbload.cli.run_location import resume_line
from ddbload.contracts.payload import AUTO
from ddbload.contracts.results import DONE, FAILED, INTERRUPTED, Failure
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept, SourceUnreadable

if TYPE_CHECKING:
    from ddbload.contracts.run_record import RunRecord
    from ddbload.pipeline.context import RunTotals
    from ddbload.runs.local_settings import LocalSettings


@click.command("import", short_help="Import files, S3 objects or '-' into a table.")
@click.argument("source")
@click.argument("table")
@manifest_option
@reading_options
@click.option("--processes", type=click.IntRange(1, 256), help="[default: one a core]")
@limit_options
@click.option("--rejects", metavar="PATH", help="Where rejected rows go, as JSON lines.")
@click.option(
    "--run-id", metavar="ID", help="Names the run; the id of an earlier one continues it."
)
@ledger_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No run id, no progress and no summary.")
def import_command(
    source: str,
    table: str,
    manifest: bool,
    processes: int | None,
    rejects: str | None,
    run_id: str | None,
    ledger: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Import SOURCE into TABLE.

    SOURCE is a file, a folder, s3://bucket/key, all under s3://bucket/prefix/, a pattern such as
    s3://bucket/in/*.csv, or '-' for standard input.

    The table must exist, and the file must have a column for each of its key attributes. Rows
    that cannot be items are rejected, with line, byte, column and cause; all others are
    written.

    The run's id is told first, on stderr. A run that was interrupted or killed goes on where it was
    with `ddbload resume RUN`, or when the same command is given with its --run-id. A run that is
    done is left as it is.
    """
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.runs.local_settings import LocalSettings, default_ledger
    from ddbload.runs.run_import import new_run_id

    count = processes or cores()
    place = place_named(source, manifest=manifest)
    payload = payload_of(place, table, run_id, count, given)
    settings = LocalSettings(
        ledger=ledger or default_ledger(),
        aws=AwsSettings(profile, region, endpoint_url),
        concurrency=given["concurrency"],
    )
    run = run_id or new_run_id()
    if not quiet:
        tell_run(run, ledger=settings.ledger)
    again = None
    if not _is_stream(source):
        where = {"profile": profile, "region": region, "endpoint_url": endpoint_url}
        again = (
            f"{resume_line(run, ledger=ledger, **where)} (or the same command with --run-id {run})"
        )
    seen = _seen_to_spool(run, settings) if _is_stream(source) else None
    with rejects_file(rejects, source) as reject_file, spooled(source, payload, seen):
        result = run_and_tell(
            payload,
            settings,
            run=run,
            processes=count,
            rejects=reject_file,
            show_progress=not quiet,
            again=again,
        )
    return show(result, as_json=as_json, quiet=quiet)


def show(result: Result, *, as_json: bool, quiet: bool) -> int:
    """Print an import's outcome on stdout; its exit status."""
    if as_json:
        click.echo(json.dumps(result.to_json()))
    elif not quiet and (result.error is None or result.rows.read):
        click.echo("\n".join(result.lines()))
    return result.exit_code


def run_and_tell(
    payload: dict[str, Any],
    settings: Any,
    *,
    run: str,
    processes: int,
    rejects: BinaryIO | None = None,
    show_progress: bool = True,
    again: str | None = None,
) -> Result:
    """Run an import under the eyes of a person: progress, Ctrl-C, and errors on stderr.

    `again`: the command that takes the run up, if any can.
    """
    from ddbload.runs.run_import import run_import

    started = time.monotonic()
    last: RunTotals | None = None

    try:
        with stop_on_interrupt() as should_stop, live_progress(enabled=show_progress) as draw:

            def watch(totals: RunTotals) -> None:
                nonlocal last
                last = totals
                draw(totals)

            ended = run_import(
                payload,
                settings,
                run=run,
                processes=processes,
                should_stop=should_stop,
                watch=watch,
                begun=lambda record: tell_guesses(record, payload) if show_progress else None,
            )
    except InvalidUsage:
        raise
    except DdbloadError as error:
        result = Result.failed(run, error, time.monotonic() - started, last)
    else:
        if ended.already_done:
            result = Result.of(ended.report)
            tell_done(run, quiet=not show_progress)
        else:
            result = Result.of(
                ended.report, seconds=time.monotonic() - started, adopted_rows=ended.adopted_rows
            )
        if AUTO in payload["source"].values():
            result = replace(result, read_as=read_as(ended.record))
        result = with_rejects(result, settings, rejects)
    tell_error(result)
    if result.status == INTERRUPTED:
        tell(f"ddbload: interrupted; {f'{again} goes on from here' if again else 'start again'}")
    return result


def tell_done(run: str, *, quiet: bool) -> None:
    """Say that a run was done before."""
    if not quiet:
        tell(f"ddbload: run {run} is already done; nothing was written")


def tell_guesses(record: RunRecord, payload: dict[str, Any]) -> None:
    """Say what was found out that is not the usual, before it is used.

    `payload`: what was asked for, and left open.
    """
    if AUTO in payload["source"].values() and read_as(record) != USUAL:
        tell(f"ddbload: reading it as {read_as(record)}")
    if record.payload.infer_types and not record.payload.source.delimited:
        tell("ddbload: --infer-types does nothing here: each value says its own type")
    elif record.payload.infer_types:
        tell(f"ddbload: types found out: {inferred_types(record)}")


def with_rejects(result: Result, settings: Any, file: BinaryIO | None) -> Result:
    """Gather all rejects in one file, and say where. Not to have them is a failure."""
    any_rejects = result.rows.rejected > 0
    try:
        if file is not None:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            if any_rejects:
                _copy_rejects(result.run, settings, file)
            return replace(result, rejects=_absolute(file.name) if any_rejects else None)
        if not any_rejects or settings.ledger.startswith("s3://"):
            return result
        path = Path(settings.ledger, "runs", result.run, "rejects.jsonl")
        # Rows are nobody else's business; nor are the ledger's other files.
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as own:
            _copy_rejects(result.run, settings, own)
        return replace(result, rejects=_absolute(path))
    except DdbloadError as error:
        failure = Failure(error.name, error.message)
    except OSError as error:
        failure = Failure(RejectsNotKept.__name__, f"the rejects' file: {error.strerror}")
    status = FAILED if result.status in DONE else result.status
    return replace(result, status=status, error=result.error or failure)


def _copy_rejects(run: str, settings: Any, file: BinaryIO) -> None:
    from ddbload.runs.retry_rejects import iter_rejects

    file.writelines(iter_rejects(run, settings.context()))
    file.flush()


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _seen_to_spool(run: str, settings: LocalSettings) -> AbstractContextManager[object]:
    """Show other processes that the run is alive: standard input may last for hours."""
    from ddbload.runs.heartbeats import SPOOL, HeartbeatWriter

    try:
        context = settings.context()
    except DdbloadError:
        # The import itself will say it.
        return nullcontext()
    return HeartbeatWriter(context.ledger(run), context, SPOOL)


@contextmanager
def spooled(
    source: str, payload: dict[str, Any], seen: AbstractContextManager[object] | None = None
) -> Iterator[None]:
    """Put standard input, or a pipe, into a file for as long as the import takes.

    `seen`: entered while it is copied.
    """
    from ddbload.source.local_file import spool_to_disk

    if source == "-":
        # None where it was closed: that is not the same as an empty file.
        if sys.stdin is None:
            raise SourceUnreadable("standard input is closed")
        with seen or nullcontext():
            path = spool_to_disk(sys.stdin.buffer)
    elif "path" in payload["source"] and _is_pipe(source):
        try:
            pipe = open(source, "rb")  # noqa: PTH123, SIM115 - opened once, as it is named
        except OSError as error:
            raise SourceUnreadable(f"{source}: {error.strerror}") from None
        with pipe, seen or nullcontext():
            path = spool_to_disk(pipe)
    else:
        yield
        return
    try:
        payload["source"]["path"] = path
        yield
    finally:
        Path(path).unlink(missing_ok=True)


def _is_stream(source: str) -> bool:
    return source == "-" or _is_pipe(source)


def _is_pipe(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


@contextmanager
def rejects_file(path: str | None, source: str) -> Iterator[BinaryIO | None]:
    """Open it before anything is written, so that a wrong path costs nothing.

    What it holds stays until this run's outcome is known.
    """
    if path is None:
        yield None
        return
    if same_file(path, source):
        raise InvalidUsage(f"--rejects {path} is the source itself")
    try:
        file = Path(path).open("ab")  # noqa: SIM115 - closed below, after the import
    except OSError as error:
        raise InvalidUsage(f"--rejects {path}: {error.strerror}") from None
    try:
        yield file
    finally:
        # What cannot be written has been told of already.
        with suppress(OSError):
            file.close()


def same_file(path: str, source: str) -> bool:
    """Whether a path is that of the source, a regular file. False where either is none."""
    try:
        return stat.S_ISREG(os.stat(source).st_mode) and Path(path).samefile(source)  # noqa: PTH116 - as in _is_pipe
    except (OSError, ValueError):
        return False
