"""`ddbload rejects`: show the rows that a run rejected, and import them once corrected."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import click

from ddbload.cli.convert_command import Causes, cause_text, causes_json, rank_causes
from ddbload.cli.import_command import import_with_progress
from ddbload.cli.options import GroupedCommand, output_option, run_option
from ddbload.cli.output import EXIT_DONE, print_json, print_stderr, print_stdout, printable
from ddbload.cli.run_location import NamedRun, run_options
from ddbload.cli.run_result import Result, RunOutput, print_run
from ddbload.context import Context
from ddbload.contracts.results import DONE
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import (
    BadRetryFile,
    IncompleteRun,
    InvalidUsage,
    LedgerDamaged,
    LedgerUnwritable,
    SourceUnreadable,
)
from ddbload.runs.local_settings import LocalSettings, default_ledger, local_folder
from ddbload.runs.retry_rejects import (
    RETRIES,
    EarlierRetry,
    check_hmac_key,
    earlier_retries,
    iter_rejects,
    payload_for,
    put_retry,
    write_rows,
)
from ddbload.runs.run_import import asked_for, new_run_id
from ddbload.source.local_file import RETRY_PREFIX

_COLUMNS = ("line", "byte", "column", "cause", "row")
SHOWN = 50
"""Maximum rows of the table; more are easier to read in a file."""


@click.command(
    "rejects",
    cls=GroupedCommand,
    examples=(
        "ddbload rejects 20261121T073000Z-1f2e3d --summary",
        "ddbload rejects 20261121T073000Z-1f2e3d > rejects.jsonl",
        "ddbload rejects 20261121T073000Z-1f2e3d --retry rejects.jsonl",
    ),
)
@output_option("--summary", is_flag=True, help="Show only counts by cause and column.")
@run_option(
    "--retry",
    "mended",
    metavar="FILE",
    help="Import the rows of FILE, rejects with corrected 'raw', as a new run.",
)
@run_option(
    "--run-id", metavar="ID", help="With --retry: id of the new run.", show_default="generated"
)
@run_options
@output_option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON on a terminal, too: lines, or one object with --summary or --retry.",
)
@output_option(
    "--quiet",
    is_flag=True,
    help="With --retry: do not print the run id, progress and summary.",
)
def rejects_command(
    named: NamedRun,
    summary: bool,
    mended: str | None,
    run_id: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Show the rejects of RUN: as JSON lines, or on a terminal as a table.

    To load them, write them to a file, correct each 'raw' there (and delete lines that should not
    be loaded), and pass the file to --retry ('-' for standard input). This imports the rows from
    this machine into the same target, with the format and types of RUN, as a new run. Rejects that
    an earlier --retry imported are not imported again: its result is shown. Rows that it rejected
    in turn are its own rejects, and are retried with its run id.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    if mended is None and (run_id is not None or quiet):
        raise InvalidUsage("--run-id and --quiet are for --retry")
    run, there = named.run, named.find()
    if mended is not None:
        if summary:
            raise InvalidUsage("--summary shows rejects, and --retry imports them: give one")
        # A retry runs on this machine, wherever the run was.
        here = replace(named, run=run_id or new_run_id(), stack=None)
        return _retry(run, mended, there.context, here, as_json=as_json, quiet=quiet)
    lines = iter_rejects(run, there.context)
    if summary:
        _summarize(run, lines, as_json)
    elif as_json or not sys.stdout.isatty():
        for line in lines:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    else:
        _draw(lines)
    return EXIT_DONE


def count_rejects(
    lines: Iterable[bytes],
) -> tuple[Causes, dict[tuple[str, str | None], dict[str, Any]]]:
    """Count rejects by cause and column, and return the first one of each."""
    counts: Causes = Counter()
    first: dict[tuple[str, str | None], dict[str, Any]] = {}
    for line in lines:
        reject = _parsed(line)
        kind = (reject["cause"], reject["column"])
        counts[kind] += 1
        first.setdefault(kind, reject)
    return counts, first


def _summarize(run: str, lines: Iterable[bytes], as_json: bool) -> None:
    counts, first = count_rejects(lines)
    causes = rank_causes(counts)
    if as_json:
        found = {"run": run, "rejected": counts.total(), "causes": causes_json(causes)}
        print_json(found)
        return
    print_stdout(f"run {run}: {counts.total():,} rejected")
    for cause, column, rows in causes:
        example = first[cause, column]
        words = f"line {example['line']}: {example['detail']}"
        print_stdout(f"{rows:>9,} {cause_text(cause, column)}; {words}")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise LedgerDamaged(
            "a line of the rejects is not one that ddbload writes; start a new run (another run id)"
        ) from None


def _draw(lines: Iterable[bytes]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    causes: Counter[str] = Counter()
    for line in lines:
        reject = _parsed(line)
        causes[cause_text(reject["cause"], reject["column"])] += 1
        # Rejects name their source only if the run has several objects.
        source = reject.get("source")
        if not table.columns:
            for name in (*([] if source is None else ["source"]), *_COLUMNS):
                table.add_column(name)
        if table.row_count < SHOWN:
            table.add_row(
                *([] if source is None else [Text(printable(source), overflow="fold")]),
                "-" if reject["line"] is None else f"{reject['line']:,}",
                f"{reject['byte']:,}",
                Text(printable(reject["column"] or "-")),
                reject["cause"],
                Text(printable(reject["raw"][:60]), overflow="ellipsis", no_wrap=True),
            )
    if not causes:
        print_stdout("no row was rejected")
        return
    console = Console()
    console.print(table)
    more = sum(causes.values()) - table.row_count
    if more > 0:
        console.print(f"... and {more:,} more; --json, or a pipe, shows all")
    for cause, count in causes.most_common():
        console.print(Text(f"{count:>9,} {cause}"))


def _retry(
    run: str,
    mended: str,
    context_of_run: Context,
    here: NamedRun,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Import a file of corrected rejects; return the exit status.

    Rejects that an earlier retry imported are not imported again: its result is shown.
    """
    if here.run == run:
        raise InvalidUsage(f"--run-id {run} is the run that rejected the rows; give a new id")
    ledger_of_run = context_of_run.ledger(run)
    if ledger_of_run.find_record() is None and ledger_of_run.find_request() is not None:
        raise InvalidUsage(
            f"run {run} ended before it wrote a row, so it has no rejects; ddbload resume {run}"
            " starts it over"
        )
    record = ledger_of_run.record()
    if not record.mode.writes:
        raise InvalidUsage(
            f"run {run} was a plan, and imported nothing: correct its source instead"
        )
    new_run, location = here.run, here.ledger or default_ledger()
    settings = LocalSettings(location, here.aws, record.payload.options.concurrency)
    context = settings.context()
    with _rows_file(mended, record, location) as (path, places):
        earlier, name = earlier_retries(run, places, context)
        done = _earlier_result(earlier, mended, places, here)
        if done is not None:
            print_run(done.report.run, ledger=location, quiet=quiet)
            if not quiet:
                print_stderr(
                    f"ddbload: run {done.report.run} imported these rejects before: nothing was"
                    " written now; rows that it rejected itself are the rejects of that run"
                )
            return RunOutput(as_json, quiet, here.command("rejects", done.report.run)).show(done)
        if context.ledger(new_run).find_record() is not None:
            raise InvalidUsage(f"--run-id {new_run}: there is such a run; give a new id")
        # Kept until the run is done, so that it can be resumed.
        rows = path.with_name(f"{RETRY_PREFIX}{new_run}.rows")
        payload = payload_for(record, str(rows))
        check_hmac_key(record, payload)
        if not put_retry(name, new_run, places, context):
            raise IncompleteRun(
                f"another retry of run {run} began at the same time, so nothing was written now:"
                " repeat this command, which says what the other did"
            )
        path.replace(rows)
        clients = settings.clients()
        try:
            with asked_for(payload.to_json(), settings, new_run, clients):
                print_run(new_run, ledger=location, quiet=quiet)
                result = import_with_progress(
                    payload.to_json(),
                    settings,
                    run=new_run,
                    processes=1,
                    show_progress=not quiet,
                    resume=here.command("resume"),
                    clients=clients,
                )
        finally:
            found = context.ledger(new_run)
            report = found.find_report()
            if found.find_record() is None or (report is not None and report.status in DONE):
                rows.unlink(missing_ok=True)
    return RunOutput(as_json, quiet, here.command("rejects")).show(result)


@contextmanager
def _rows_file(
    mended: str, record: RunRecord, location: str
) -> Iterator[tuple[Path, Sequence[str]]]:
    """Write the corrected rows into a file of this machine, with the places of their rejects."""
    folder = local_folder(location).absolute() / RETRIES / record.run
    with _opened(mended) as lines:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=RETRY_PREFIX, delete=False) as rows:
                path = Path(rows.name)
        except OSError as error:
            raise LedgerUnwritable(f"{folder}: {error.strerror}; --ledger names another") from None
        try:
            try:
                with path.open("wb") as out:
                    places = write_rows(record, lines, out, mended)
            except OSError as error:
                raise SourceUnreadable(f"--retry {mended}: {error.strerror}") from None
            if not places:
                raise BadRetryFile(f"{mended}: the file has no rejects")
            yield path, places
        finally:
            path.unlink(missing_ok=True)


def _earlier_result(
    earlier: Sequence[EarlierRetry],
    mended: str,
    places: Sequence[str],
    here: NamedRun,
) -> Result | None:
    """Return the result of the retry that imported these rejects; None if none of them was.

    Raises `IncompleteRun` if that retry is not done, and `BadRetryFile` if some of the rejects were
    imported and others not.
    """
    for each in earlier:
        if each.report is None:
            resume = here.command("resume", each.run)
            status = here.command("status", each.run)
            raise IncompleteRun(
                f"run {each.run} began to import these rejects, and is not done, so nothing was"
                f" written now: {status} shows it, {resume} completes it"
            )
    imported = frozenset[str]().union(*(each.places for each in earlier))
    left = len(set(places) - imported)
    if imported and left:
        runs = ", ".join(each.run for each in earlier)
        raise BadRetryFile(
            f"{mended}: {len(imported):,} of its rejects were imported before, by run {runs}:"
            f" remove their lines to import the other {left:,}"
        )
    reports = [each.report for each in earlier if each.report is not None]
    last = max(reports, key=lambda each: each.rows.read, default=None)
    return None if last is None else Result(last, last.seconds)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise SourceUnreadable("standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidUsage(f"--retry {name}: {reason}") from None
    with file:
        yield file
