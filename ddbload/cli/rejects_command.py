"""`ddbload rejects`: show the rows that a run rejected, and import corrected ones."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rich.text import Text

from ddbload import errors
from ddbload.cli import options, run_result
from ddbload.cli.import_command import import_with_progress
from ddbload.cli.run_location import NamedRun, run_options
from ddbload.cli.run_result import Result
from ddbload.cli.run_setup import open_stream
from ddbload.cli.tables import draw, make_table
from ddbload.cli.terminal import EXIT_DONE, Output, print_stdout
from ddbload.contracts.results import DONE
from ddbload.contracts.run_record import RunRecord
from ddbload.runs import retry_rejects
from ddbload.runs.local_runs import local_folder
from ddbload.runs.run_import import asked_for, new_run_id
from ddbload.runs.run_location import RunLocation
from ddbload.source.local_file import RETRY_PREFIX

SHOWN = 50
"""Maximum rows of the table in the terminal."""


@options.command(
    "ddbload rejects 20261121T073000Z-1f2e3d --summary",
    "ddbload rejects 20261121T073000Z-1f2e3d > rejects.jsonl",
    "ddbload rejects 20261121T073000Z-1f2e3d --retry rejects.jsonl",
)
def rejects_command(
    summary: bool = options.output_option(
        is_flag=True, help="Show only counts by cause and column."
    ),
    mended: str | None = options.run_option(
        "--retry",
        metavar="FILE",
        help="Import the rows of FILE, rejects with corrected 'raw', as a new run.",
    ),
    run_id: str | None = options.run_option(
        metavar="ID", help="With --retry: id of the new run.", show_default="generated"
    ),
    named: NamedRun = run_options,
    output: Output = options.output_options(
        json="Print JSON on a terminal, too: lines, or one object with --summary or --retry.",
        quiet="With --retry: do not print the run id, progress and summary.",
    ),
) -> int:
    """Show the rejects of RUN: as JSON lines, or on a terminal as a table.

    To import them, write them to a file, correct each 'raw' there (and delete lines that should not
    be imported), and pass the file to --retry ('-' for standard input). This imports the rows from
    this machine into the same table, with the format and types of RUN, as a new run. Rejects that
    an earlier --retry imported are not imported again: its result is shown. Rows that the retry
    rejects are rejects of the new run: retry them with its run id.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    if mended is None and (run_id is not None or output.quiet):
        raise errors.InvalidUsage("--run-id and --quiet are for --retry")
    run, there = named.run, named.find()
    if mended is not None:
        if summary:
            raise errors.InvalidUsage("--summary shows rejects, and --retry imports them: give one")
        # A retry runs on this machine, wherever the run was.
        here = replace(named, run=run_id or new_run_id(), stack=None)
        return _retry(run, mended, there, here, output)
    lines = retry_rejects.iter_rejects(run, there.context)
    if summary:
        _summarize(run, lines, output)
    elif output.as_json or not sys.stdout.isatty():
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    else:
        _draw(lines)
    return EXIT_DONE


def count_rejects(
    lines: Iterable[bytes],
) -> tuple[run_result.RankedCauses, dict[tuple[str, str | None], dict[str, Any]]]:
    """Count rejects by cause and column, the most frequent first.

    Also returns the first reject of each cause and column.
    """
    counts: Counter[tuple[str, str | None]] = Counter()
    first: dict[tuple[str, str | None], dict[str, Any]] = {}
    for line in lines:
        reject = _parsed(line)
        kind = (reject["cause"], reject["column"])
        counts[kind] += 1
        first.setdefault(kind, reject)
    return run_result.rank_causes(counts), first


def _summarize(run: str, lines: Iterable[bytes], output: Output) -> None:
    causes, first = count_rejects(lines)
    rejected = sum(rows for _, rows in causes)
    shown = [f"run {run}: {rejected:,} rejected"]
    for cause, rows in causes:
        words = f"line {first[cause]['line']}: {first[cause]['detail']}"
        shown.append(f"{rows:>9,} {run_result.cause_text(*cause)}; {words}")
    output.show(
        {"run": run, "rejected": rejected, "causes": run_result.causes_json(causes)}, *shown
    )


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise errors.LedgerDamaged(
            "a line of the rejects is not one that ddbload writes; start a new run (another run id)"
        ) from None


def _draw(lines: Iterable[bytes]) -> None:
    """Draw a table of the first rejects, and the counts of all by cause."""
    lines = iter(lines)
    shown = list(islice(lines, SHOWN))
    causes, _ = count_rejects(chain(shown, lines))
    if not causes:
        print_stdout("no row was rejected")
        return
    rows = [
        (
            # Rejects name their source only if the run has several objects.
            reject.get("source") or "",
            "-" if reject["line"] is None else f"{reject['line']:,}",
            f"{reject['byte']:,}",
            reject["column"] or "-",
            reject["cause"],
            Text(errors.visible(reject["raw"][:60]), overflow="ellipsis", no_wrap=True),
        )
        for reject in map(_parsed, shown)
    ]
    draw(make_table(("source", "line", "byte", "column", "cause", "row"), rows))
    more = sum(count for _, count in causes) - len(rows)
    if more > 0:
        print_stdout(f"... and {more:,} more; --json, or a pipe, shows all")
    print_stdout(*(f"{count:>9,} {run_result.cause_text(*cause)}" for cause, count in causes))


def _retry(run: str, mended: str, there: RunLocation, here: NamedRun, output: Output) -> int:
    """Import a file of corrected rejects; return the exit status.

    If an earlier retry imported these rejects, its result is shown instead.
    """
    if here.run == run:
        raise errors.InvalidUsage(
            f"--run-id {run} is the run that rejected the rows; give a new id"
        )
    ledger_of_run = there.context.ledger(run)
    if ledger_of_run.find_record() is None and ledger_of_run.find_request() is not None:
        raise errors.InvalidUsage(
            f"run {run} ended before it wrote a row, so it has no rejects; ddbload resume {run}"
            " starts it over"
        )
    record = ledger_of_run.record()
    if not record.mode.writes:
        raise errors.InvalidUsage(
            f"run {run} was a plan, and imported nothing: correct its source instead"
        )
    if record.payload.transform is not None:
        raise errors.InvalidUsage(
            f"run {run} changes its rows by a Python function: write the corrected rows to a file,"
            " and load it by ddbload.load(file, table, transform=function)"
        )
    new_run, settings = here.run, here.settings(record.payload.to_json())
    context = settings.context()
    with _rows_file(mended, record, settings.ledger) as (path, places):
        earlier, name = retry_rejects.earlier_retries(run, places, context)
        done = _earlier_result(earlier, mended, places, here)
        if done is not None:
            earlier_run = done.report.run
            run_result.print_run(earlier_run, output, ledger=settings.ledger)
            output.say(
                f"run {earlier_run} imported these rejects before: nothing was written now; rows"
                " that it rejected itself are the rejects of that run"
            )
            return run_result.show_result(done, output, here)
        if context.ledger(new_run).find_record() is not None:
            raise errors.InvalidUsage(f"--run-id {new_run}: there is such a run; give a new id")
        # Keep the file until the run is done, so that the run can be resumed.
        rows = path.with_name(f"{RETRY_PREFIX}{new_run}.rows")
        payload = retry_rejects.payload_for(record, str(rows))
        retry_rejects.check_hmac_key(record, payload)
        if not retry_rejects.put_retry(name, new_run, places, context):
            raise errors.IncompleteRun(
                f"another retry of run {run} began at the same time, so nothing was written now:"
                " repeat this command, which says what the other did"
            )
        path.replace(rows)
        clients, value = settings.clients(), payload.to_json()
        try:
            with asked_for(value, settings, new_run, clients):
                run_result.print_run(new_run, output, ledger=settings.ledger)
                result = import_with_progress(
                    *(value, here, output, 1), resume=here.command("resume"), clients=clients
                )
        finally:
            found = context.ledger(new_run)
            report = found.find_report()
            if found.find_record() is None or (report is not None and report.status in DONE):
                rows.unlink(missing_ok=True)
    return run_result.show_result(result, output, here)


@contextmanager
def _rows_file(
    mended: str, record: RunRecord, location: str
) -> Iterator[tuple[Path, Sequence[str]]]:
    """Write the corrected rows to a local file; yield it with the places of their rejects."""
    folder = local_folder(location).absolute() / retry_rejects.RETRIES / record.run
    try:
        lines = open_stream(mended)
    except errors.SourceUnreadable as error:
        if mended == "-":
            raise
        raise errors.InvalidUsage(f"--retry {error.message}") from None
    with lines as stream:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=RETRY_PREFIX, delete=False) as rows:
                path = Path(rows.name)
        except OSError as error:
            raise errors.LedgerUnwritable(
                f"{folder}: {error.strerror}; --ledger names another"
            ) from None
        try:
            try:
                with path.open("wb") as out:
                    places = retry_rejects.write_rows(record, stream, out, mended)
            except OSError as error:
                raise errors.SourceUnreadable(f"--retry {mended}: {error.strerror}") from None
            if not places:
                raise errors.BadRetryFile(f"{mended}: the file has no rejects")
            yield path, places
        finally:
            path.unlink(missing_ok=True)


def _earlier_result(
    earlier: Sequence[retry_rejects.EarlierRetry],
    mended: str,
    places: Sequence[str],
    here: NamedRun,
) -> Result | None:
    """Return the result of an earlier retry of these rejects; None if there was none.

    Raises `IncompleteRun` if that retry is not done, and `BadRetryFile` if only some of the rejects
    were imported.
    """
    for each in earlier:
        if each.report is None:
            resume = here.command("resume", each.run)
            status = here.command("status", each.run)
            raise errors.IncompleteRun(
                f"run {each.run} began to import these rejects, and is not done, so nothing was"
                f" written now: {status} shows it, {resume} completes it"
            )
    imported = frozenset[str]().union(*(each.places for each in earlier))
    left = len(set(places) - imported)
    if imported and left:
        runs = ", ".join(each.run for each in earlier)
        raise errors.BadRetryFile(
            f"{mended}: {len(imported):,} of its rejects were imported before, by run {runs}:"
            f" remove their lines to import the other {left:,}"
        )
    reports = [each.report for each in earlier if each.report is not None]
    last = max(reports, key=lambda each: each.rows.read, default=None)
    return None if last is None else Result(last, last.seconds)
