"""`ddbload import`: from this machine straight into DynamoDB."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ddbload import contracts
from ddbload.cli.options import (
    as_usage,
    aws_options,
    character,
    cores,
    ledger_option,
    names_list,
    types_map,
)
from ddbload.cli.output import Result, tell
from ddbload.cli.progress import live_progress
from ddbload.cli.signals import stop_on_interrupt
from ddbload.contracts import Failure, format_of
from ddbload.errors import (
    DdbloadError,
    InvalidPayload,
    InvalidUsage,
    RejectsNotKept,
    SourceUnreadable,
)

if TYPE_CHECKING:
    from ddbload.pipeline.conductor import Totals


@click.command("import", short_help="Import a file, an S3 object or '-' into a table.")
@click.argument("source")
@click.argument("table")
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(contracts.FORMATS)),
    help="[default: tsv for names that end in .tsv or .tab, otherwise csv]",
)
@click.option("--delimiter", metavar="CHAR", help=r"Between fields; \t for a tab.")
@click.option("--quote", metavar="CHAR", default='"', help="'none' for none.", show_default=True)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row names the columns. [default: yes, unless --columns does]",
)
@click.option("--columns", metavar="A,B,...", help="Names; without a header, c1,c2,... otherwise.")
@click.option("--types", metavar="A=N,...", help="S, N or BOOL; keys are as the table has them.")
@click.option("--encoding", default="utf-8", show_default=True, help="UTF-8, with or without BOM.")
@click.option(
    "--engine", type=click.Choice(contracts.ENGINES), default="threads", show_default=True
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=contracts.DEFAULT_CONCURRENCY,
    show_default=True,
    help="Requests in flight in one process.",
)
@click.option("--processes", type=click.IntRange(1, 256), help="[default: one a core]")
@click.option(
    "--chunk-bytes",
    type=click.IntRange(1),
    default=contracts.DEFAULT_CHUNK_BYTES,
    show_default=True,
    help="Size of a byte range; more where there would be over 20,000 of them.",
)
@click.option("--max-wcu", type=click.FloatRange(1.0), help="Write units a second, at most.")
@click.option("--mode", type=click.Choice(contracts.MODES), default="put", show_default=True)
@click.option(
    "--max-rejects",
    type=click.IntRange(0),
    default=contracts.DEFAULT_MAX_REJECTS,
    show_default=True,
    help="The run fails when more rows are rejected.",
)
@click.option(
    "--max-row-bytes",
    type=click.IntRange(1),
    default=contracts.DEFAULT_MAX_ROW_BYTES,
    show_default=True,
    help="The run fails at a longer row: most often a quote is not closed.",
)
@click.option("--rejects", metavar="PATH", help="Where rejected rows go, as JSON lines.")
@click.option(
    "--run-id", metavar="ID", help="Names the run; the id of an earlier one continues it."
)
@ledger_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
def import_command(
    source: str,
    table: str,
    format_: str | None,
    delimiter: str | None,
    quote: str,
    header: bool | None,
    columns: str | None,
    types: str | None,
    encoding: str,
    engine: str,
    concurrency: int,
    processes: int | None,
    chunk_bytes: int,
    max_wcu: float | None,
    mode: str,
    max_rejects: int,
    max_row_bytes: int,
    rejects: str | None,
    run_id: str | None,
    ledger: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Import SOURCE (a path, s3://bucket/key, or '-' for standard input) into TABLE.

    The table must exist, and the file must have a column for each of its key attributes. Rows
    that cannot be items are rejected, with line, byte, column and cause; all others are
    written. An interrupted run goes on where it was when the same --run-id is given again.
    """
    from ddbload.aws_http.clients import AwsSettings
    from ddbload.pipeline.conductor import new_run_id
    from ddbload.pipeline.local import LocalSettings, default_ledger

    count = processes or cores()
    file_format = format_ or format_of(source)
    reading = {
        "format": file_format,
        "delimiter": None if delimiter is None else character(delimiter),
        "quote": None if quote in ("", "none") else character(quote),
        "header": header,
        "columns": None if columns is None else names_list(columns),
        "encoding": encoding,
    }
    options = {
        "mode": mode,
        "engine": engine,
        "workers": count,
        "concurrency": concurrency,
        "chunk_bytes": chunk_bytes,
        "max_wcu": max_wcu,
        "max_rejects": max_rejects,
        "max_row_bytes": max_row_bytes,
    }
    payload: dict[str, Any] = {
        "run": {"id": run_id},
        "source": {**reading, **_place(source)},
        "target": {"table": table},
        "types": {} if types is None else types_map(types),
        "options": options,
    }
    _check(payload)
    settings = LocalSettings(
        ledger=ledger or default_ledger(),
        aws=AwsSettings(profile, region, endpoint_url),
        concurrency=concurrency,
    )
    with _rejects_file(rejects, source) as reject_file, _spooled(source, payload):
        result = run_and_tell(
            payload,
            settings,
            run=run_id or new_run_id(),
            processes=count,
            rejects=reject_file,
            show_progress=not quiet,
            resumable=source != "-" and not _is_pipe(source),
        )
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
    resumable: bool = True,
) -> Result:
    """Run an import under the eyes of a person: progress, Ctrl-C, and errors on stderr."""
    from ddbload.pipeline.conductor import run_import

    started = time.monotonic()
    last: Totals | None = None

    try:
        with stop_on_interrupt() as should_stop, live_progress(enabled=show_progress) as draw:

            def watch(totals: Totals) -> None:
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
            )
    except InvalidUsage:
        raise
    except DdbloadError as error:
        result = Result.failed(run, error, time.monotonic() - started, last)
    else:
        result = Result.of(
            ended.report, seconds=time.monotonic() - started, adopted_rows=ended.adopted_rows
        )
        result = _with_rejects(result, settings, rejects)
    if result.error is not None:
        tell(f"ddbload: {result.error.name}: {result.error.message}")
    if result.status == "INTERRUPTED":
        again = f"the same command with --run-id {run} goes on from here"
        tell(f"ddbload: interrupted; {again if resumable else 'start again'}")
    return result


def _with_rejects(result: Result, settings: Any, file: BinaryIO | None) -> Result:
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
    status = "FAILED" if result.status == "SUCCEEDED" else result.status
    return replace(result, status=status, error=result.error or failure)


def _copy_rejects(run: str, settings: Any, file: BinaryIO) -> None:
    from ddbload.pipeline.rejects import rejects

    file.writelines(rejects(run, settings.context()))
    file.flush()


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _check(payload: dict[str, Any]) -> None:
    from ddbload.rows.dialect import Dialect

    try:
        Dialect.of(contracts.Payload.from_json(payload).source)
    except InvalidPayload as error:
        raise as_usage(error) from None


def _place(source: str) -> dict[str, str]:
    if not source.startswith("s3://"):
        return {"path": source}
    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise InvalidUsage(f"{source} names no object; write s3://bucket/key")
    return {"bucket": bucket, "key": key}


@contextmanager
def _spooled(source: str, payload: dict[str, Any]) -> Iterator[None]:
    """Put standard input, or a pipe, into a file for as long as the import takes."""
    from ddbload.source.spool import spool

    if source == "-":
        # None where it was closed: that is not the same as an empty file.
        if sys.stdin is None:
            raise SourceUnreadable("standard input is closed")
        path = spool(sys.stdin.buffer)
    elif "path" in payload["source"] and _is_pipe(source):
        try:
            pipe = open(source, "rb")  # noqa: PTH123, SIM115 - opened once, as it is named
        except OSError as error:
            raise SourceUnreadable(f"{source}: {error.strerror}") from None
        with pipe:
            path = spool(pipe)
    else:
        yield
        return
    try:
        payload["source"]["path"] = path
        yield
    finally:
        Path(path).unlink(missing_ok=True)


def _is_pipe(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


@contextmanager
def _rejects_file(path: str | None, source: str) -> Iterator[BinaryIO | None]:
    """Open it before anything is written, so that a wrong path costs nothing.

    What it holds stays until this run's outcome is known.
    """
    if path is None:
        yield None
        return
    if _same_file(path, source):
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


def _same_file(path: str, source: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(source).st_mode) and Path(path).samefile(source)  # noqa: PTH116 - as in _is_pipe
    except (OSError, ValueError):
        return False
