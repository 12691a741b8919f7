"""`ddbload runs`: what was run, and what loaded an object."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from datetime import UTC, datetime

import click
from rich.text import Text

from ddbload.aws.clients import AwsSettings
from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    json_option,
    ledger_option,
    output_option,
    stack_option,
)
from ddbload.cli.output import EXIT_DONE, print_json, print_stderr, printable
from ddbload.cli.run_location import RunLocation, find_deployed
from ddbload.cli.tables import STATUS_STYLES, draw, make_table
from ddbload.contracts.results import ALREADY_LOADED, STATUSES
from ddbload.dynamodb.modes import mode_of
from ddbload.errors import InvalidUsage
from ddbload.runs.list_runs import RunSummary, list_runs
from ddbload.runs.local_settings import LocalSettings, default_ledger
from ddbload.source.local_file import name_for_user


@click.command(
    "runs",
    cls=GroupedCommand,
    examples=(
        "ddbload runs",
        "ddbload runs --status FAILED --table books",
        "ddbload runs --source s3://my-bucket/books.csv --stack my-loader",
    ),
)
@output_option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Show at most N, the newest.",
)
@output_option(
    "--status",
    "statuses",
    metavar="STATUS",
    type=click.Choice(["RUNNING", *STATUSES], case_sensitive=False),
    multiple=True,
    help=f"Show runs of this status: RUNNING, {', '.join(STATUSES)}. May be repeated.",
)
@output_option("--table", metavar="TABLE", help="Show runs into this table.")
@output_option(
    "--source",
    metavar="SOURCE",
    help="Show runs that have loaded this file or s3://bucket/key, alone or with others.",
)
@ledger_option
@stack_option
@aws_options
@json_option
def runs_command(
    limit: int,
    statuses: tuple[str, ...],
    table: str | None,
    source: str | None,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """List the runs of this machine, or with --stack those of a deployed stack.

    Each line has a run's status, begin, duration, rows, table and source. A run of corrected
    rejects names the run that rejected them.
    """
    there = _location(ledger, stack, aws)
    executions = None if there.deployed is None else there.deployed.executions
    if source is not None and not source.startswith("s3://"):
        source = os.path.realpath(source)
    found = list_runs(
        there.context, executions, limit, statuses=statuses, table=table, source=source
    )
    if as_json:
        print_json({"runs": [each.to_json() for each in found]})
        return EXIT_DONE
    if not found:
        none = "no such run" if statuses or table or source else "no runs"
        print_stderr(f"ddbload: {none} in {_where(there)}")
        return EXIT_DONE
    _draw_runs(found)
    return EXIT_DONE


def _draw_runs(runs: list[RunSummary]) -> None:
    """Draw a table with a line for each run."""
    rows = (
        (
            each.run,
            Text(printable(each.status), STATUS_STYLES.get(each.status, "")),
            _moment(each.began),
            "" if each.seconds is None else _duration(each.seconds),
            ", ".join(_counts(each)),
            each.table or "",
            _source(each),
        )
        for each in runs
    )
    head = ("run", "status", "began", "took", "rows", "into", "from")
    table = make_table(head, rows, right=("took",), flexible="from", whole=("run", "status"))
    draw(table, whole_lines=True)


def _counts(run: RunSummary) -> Iterator[str]:
    """Yield the rows that were written, in the word of the mode, all others, and the error."""
    if run.rows is not None and run.status != ALREADY_LOADED:
        yield mode_of(run.mode).written_text(run.rows.written, run.uncertain)
        for name, count in run.rows.outcomes.items():
            if count and name != "written":
                yield f"{count:,} {name}"
    if run.error is not None and run.error != run.status:
        yield run.error


def _source(run: RunSummary) -> str:
    if run.retry_of is not None:
        return f"corrected rejects of {run.retry_of}"
    return "" if run.source is None else name_for_user(run.source)


def _location(ledger: str | None, stack: str | None, aws: AwsSettings) -> RunLocation:

    if ledger is not None and stack is not None:
        raise InvalidUsage("--ledger and --stack exclude each other; runs are in one of them")
    if stack is not None:
        deployed = find_deployed(stack, aws)
        return RunLocation(deployed.context, deployed)
    return RunLocation(LocalSettings(ledger or default_ledger(), aws).context())


def _where(there: RunLocation) -> str:
    if there.deployed is not None:
        return f"stack {there.deployed.stack.name}"
    uri = there.context.store.uri("")
    return f"the ledger at {uri}; --stack NAME lists those of a deployed stack"


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
