"""`ddbload rejects`: the rows that a run rejected, and once they are mended, their import."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ddbload.cli.convert_command import Causes, ranked, told
from ddbload.cli.convert_command import as_json as causes_as_json
from ddbload.cli.options import aws_options, ledger_option, run_argument, stack_option
from ddbload.cli.output import EXIT_DONE, printable, tell_run
from ddbload.cli.run_location import place_given
from ddbload.dynamodb.write_modes import PLAN
from ddbload.errors import BadRetryFile, InvalidUsage, LedgerDamaged, SourceUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddbload.cli.run_location import RunLocation

_COLUMNS = ("line", "byte", "column", "cause", "row")
SHOWN = 50
"""Rows of the table. Whoever wants to see more wants a file of them."""


@click.command("rejects", short_help="The rows that were rejected, and why.")
@run_argument
@click.option("--summary", is_flag=True, help="Only how many there are, by cause and column.")
@click.option(
    "--retry",
    "mended",
    metavar="FILE",
    help="Import the rows of FILE, rejects whose 'raw' was mended, in a run of their own.",
)
@click.option("--run-id", metavar="ID", help="With --retry: names that run.")
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")
@click.option("--quiet", is_flag=True, help="With --retry: no run id, no progress and no summary.")
def rejects_command(
    run: str,
    summary: bool,
    mended: str | None,
    run_id: str | None,
    as_json: bool,
    quiet: bool,
    **place: Any,
) -> int:
    """Show RUN's rejects: as JSON lines, or on a terminal as a table.

    To load them after all: write them to a file, mend each 'raw' there (and take out the lines
    that are not to be loaded), and give it to --retry ('-' for standard input). Its rows are
    imported from this machine into the same table, read and typed as RUN's were, under a run id
    of their own.
    """
    from ddbload.runs.retry_rejects import iter_rejects

    if mended is None and (run_id is not None or quiet):
        raise InvalidUsage("--run-id and --quiet are for --retry")
    there = place_given(run, **place)
    if mended is not None:
        if summary:
            raise InvalidUsage("--summary shows rejects, and --retry imports them: give one")
        return _retry(run, mended, there, run_id, as_json=as_json, quiet=quiet, **place)
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


def _summarize(run: str, lines: Iterable[bytes], as_json: bool) -> None:
    counts: Causes = Counter()
    for line in lines:
        reject = _parsed(line)
        counts[reject["cause"], reject["column"]] += 1
    causes = ranked(counts)
    if as_json:
        found = {"run": run, "rejected": counts.total(), "causes": causes_as_json(causes)}
        click.echo(json.dumps(found))
        return
    click.echo(f"run {run}: {counts.total():,} rejected")
    for cause, column, rows in causes:
        click.echo(f"{rows:>9,} {told(cause, column)}")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError):
        raise LedgerDamaged(
            "a line of the rejects is not what ddbload writes; start a new run (another run id)"
        ) from None


def _draw(lines: Iterable[bytes]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    causes: Counter[str] = Counter()
    for line in lines:
        reject = _parsed(line)
        causes[told(reject["cause"], reject["column"])] += 1
        # Of one object nobody need be told its name.
        source = reject.get("source")
        if not table.columns:
            for name in (*([] if source is None else ["source"]), *_COLUMNS):
                table.add_column(name)
        if table.row_count < SHOWN:
            table.add_row(
                *([] if source is None else [Text(printable(source), overflow="fold")]),
                f"{reject['line']:,}",
                f"{reject['byte']:,}",
                Text(printable(reject["column"] or "-")),
                reject["cause"],
                Text(printable(reject["raw"][:60]), overflow="ellipsis", no_wrap=True),
            )
    if not causes:
        click.echo("no row was rejected")
        return
    console = Console()
    console.print(table)
    more = sum(causes.values()) - table.row_count
    if more > 0:
        console.print(f"... and {more:,} more; all of them: --json, or through a pipe")
    for cause, count in causes.most_common():
        console.print(Text(f"{count:>9,} {cause}"))


def _retry(
    run: str,
    mended: str,
    there: RunLocation,
    run_id: str | None,
    *,
    as_json: bool,
    quiet: bool,
    ledger: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    stack: str | None,  # noqa: ARG001 - where RUN is, which is known by now
) -> int:
    """Import a file of mended rejects."""
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.cli.import_command import run_and_tell, show
    from ddbload.runs.local_settings import LocalSettings, default_ledger
    from ddbload.runs.retry_rejects import payload_for, write_rows
    from ddbload.runs.run_import import new_run_id
    from ddbload.source.local_file import RETRY_PREFIX

    if run_id == run:
        raise InvalidUsage(f"--run-id {run} is the run that rejected them; they need one anew")
    record = there.context.ledger(run).record()
    if record.payload.options.mode == PLAN:
        raise InvalidUsage(f"run {run} was a plan, and imported nothing: mend its source instead")
    own, kept_in = run_id or new_run_id(), ledger or default_ledger()
    if not quiet:
        tell_run(own, ledger=kept_in)
    # Not as the run's own: they are read again only within this command.
    with _opened(mended) as lines, tempfile.NamedTemporaryFile(prefix=RETRY_PREFIX) as rows:
        try:
            count = write_rows(record, lines, rows, mended)
        except OSError as error:
            raise SourceUnreadable(f"--retry {mended}: {error.strerror}") from None
        if not count:
            raise BadRetryFile(f"{mended}: there is no reject in it")
        payload = payload_for(record, rows.name)
        settings = LocalSettings(
            ledger=kept_in,
            aws=AwsSettings(profile, region, endpoint_url),
            concurrency=payload.options.concurrency,
        )
        result = run_and_tell(
            payload.to_json(),
            settings,
            run=own,
            processes=1,
            show_progress=not quiet,
        )
    return show(result, as_json=as_json, quiet=quiet)


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
