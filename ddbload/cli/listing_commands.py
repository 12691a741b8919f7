"""`ddbload runs` and `ddbload history`: what was run, and what was loaded into which table."""

from __future__ import annotations

import os.path
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    json_option,
    ledger_option,
    output_option,
    stack_option,
)
from ddbload.cli.output import (
    EXIT_DONE,
    print_json,
    print_stderr,
    print_stdout,
    printable,
)
from ddbload.contracts.payload import TABLE_NAME
from ddbload.contracts.results import ALREADY_LOADED, STATUSES
from ddbload.contracts.target import is_target_address
from ddbload.dynamodb.write_modes import PUT, written_text
from ddbload.errors import InvalidUsage
from ddbload.source.local_file import name_for_user

if TYPE_CHECKING:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.cli.run_location import RunLocation
    from ddbload.contracts.load_record import ObjectVersion
    from ddbload.contracts.row_counts import RowCounts
    from ddbload.errors import LedgerDamaged
    from ddbload.ledger.history import History, LoadPage
    from ddbload.runs.list_runs import RunSummary

_LIMIT = 20
_limit_option = output_option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=_LIMIT,
    show_default=True,
    help="Show at most N, the newest.",
)


@click.command(
    "runs",
    cls=GroupedCommand,
    short_help="List runs, the newest first.",
    examples=(
        "ddbload runs",
        "ddbload runs --status FAILED --table books",
        "ddbload runs --stack my-loader --limit 50",
    ),
)
@_limit_option
@output_option(
    "--status",
    "statuses",
    metavar="STATUS",
    type=click.Choice(["RUNNING", *STATUSES], case_sensitive=False),
    multiple=True,
    help=f"Show runs of this status: RUNNING, {', '.join(STATUSES)}. May be repeated.",
)
@output_option("--table", metavar="TABLE", help="Show runs into this table.")
@ledger_option
@stack_option
@aws_options
@json_option
def runs_command(
    limit: int,
    statuses: tuple[str, ...],
    table: str | None,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """List the runs of this machine, or with --stack those of a deployed stack.

    Each run is shown with its status, its rows, when it began and how long it took, and what it
    loads. A run of corrected rejects names the run that rejected them.
    """
    from ddbload.runs.list_runs import list_runs

    there = _location(ledger, stack, aws)
    executions = None if there.deployed is None else there.deployed.executions
    found = list_runs(there.context, executions, limit, statuses=statuses, table=table)
    if as_json:
        print_json({"runs": [each.to_json() for each in found]})
        return EXIT_DONE
    if not found:
        none = "no such run" if statuses or table is not None else "no runs"
        print_stderr(f"ddbload: {none} in {_where(there)}{_elsewhere(there)}")
    for each in found:
        print_stdout(*_run_lines(each))
    return EXIT_DONE


def _counts(rows: RowCounts, mode: str | None, uncertain: int = 0) -> Iterator[str]:
    """Return the rows that were written, in the word of the mode, and all others that there are."""
    yield written_text(mode or PUT, rows.written, uncertain)
    for name, count in rows.outcomes.items():
        if count and name != "written":
            yield f"{count:,} {name}"


def _run_lines(run: RunSummary) -> Iterator[str]:
    yield f"{run.run}  {run.status}"
    facts = [_moment(run.began)]
    if run.rows is not None and run.status != ALREADY_LOADED:
        facts += _counts(run.rows, run.mode, run.uncertain)
    if run.seconds is not None:
        facts.append(_duration(run.seconds))
    if run.error is not None:
        facts.append(printable(run.error))
    yield f"  {', '.join(facts)}"
    if run.retry_of is not None:
        yield _shortened(f"  {_mode(run.mode)} corrected rejects of {run.retry_of}", run.table)
    elif run.source is not None:
        yield _shortened(f"  {_mode(run.mode)} {printable(name_for_user(run.source))}", run.table)


def _mode(mode: str | None) -> str:
    return printable(mode or "put")


@click.command(
    "history",
    cls=GroupedCommand,
    short_help="List what was loaded into which table.",
    examples=(
        "ddbload history",
        "ddbload history books",
        "ddbload history s3://my-bucket/books.csv --stack my-loader",
    ),
)
@click.argument("what", metavar="[SOURCE|TABLE]", required=False)
@_limit_option
@ledger_option
@stack_option
@aws_options
@json_option
def history_command(
    what: str | None,
    limit: int,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """List which versions of which objects were loaded into which table, and by which run.

    SOURCE is a file or s3://bucket/key, and shows the loads of all its versions; TABLE is the name
    of a table, or sqs:queue. Runs of this machine are listed, or with --stack those of a deployed
    stack. Only runs that are done are in the history. A damaged entry is named, and the exit status
    is 1.
    """
    from ddbload.ledger.history import History

    there = _location(ledger, stack, aws)
    damaged: list[LedgerDamaged] = []
    history = History(there.context.store, skip_damaged=damaged.append)
    location = None if what is None else _source_location(what)
    if location is not None:
        found = sorted(history.read_location(location), key=lambda each: -each.load.at)[:limit]
    else:
        if what is not None and not (TABLE_NAME.fullmatch(what) or is_target_address(what)):
            raise InvalidUsage(f"{what!r} is neither an s3:// URI, nor a file, nor a table's name")
        found = list(islice(_newest(history, what, limit), limit))
    for each in damaged:
        print_stderr(f"ddbload: {each.name}: {each.message}")
    status = damaged[0].exit_code if damaged else EXIT_DONE
    if as_json:
        print_json({"loads": [_load_json(each) for each in found]})
        return status
    if not found and not damaged:
        print_stderr(f"ddbload: no such load in {_where(there)}{_elsewhere(there)}")
    for page in found:
        print_stdout(*_load_lines(page))
    return status


def _source_location(what: str) -> str | None:
    """Return the location of an object or a file; None for the name of a table."""
    if what.startswith("s3://"):
        return what
    if "/" in what or os.path.lexists(what):
        return os.path.realpath(what)
    return None


def _newest(history: History, table: str | None, limit: int) -> Iterator[LoadPage]:
    """Read the newest loads, one page of each run."""
    seen: set[str] = set()
    names = []
    for name in history.names(table):
        # A run of many objects has many pages: `history/<table>/<id>/objects/<digits>/<run>-<n>`.
        kind, run = name.split("/")[3], name.rpartition("/")[2].removesuffix(".jsonl")
        run = run.rpartition("-")[0] if kind == "objects" else run
        if run not in seen:
            seen.add(run)
            names.append(name)
    yield from history.read(names[:limit])


def _load_lines(page: LoadPage) -> Iterator[str]:
    load, version = page.load, _only_version(page)
    yield f"{_moment(load.at)}  {load.mode} into {load.table}  {load.status}"
    yield f"  by run {load.run}: {', '.join(_counts(load.rows, load.mode))}"
    if version is None:
        yield _shortened(f"  {load.objects:,} objects of {printable(load.source)}")
        return
    yield _shortened(f"  {printable(name_for_user(version.location))}")
    yield _shortened(f"  {printable(_version_text(version))}")


def _version_text(version: ObjectVersion) -> str:
    pinned = version.pinned
    if "path" in pinned:
        changed = _moment(pinned["mtime_ns"] / 1e9)
        return f"{pinned['size']:,} bytes, changed {changed}"
    named = "" if version.version_id is None else f"version {version.version_id}, "
    etag = str(pinned["etag"]).strip('"')
    return f"{named}ETag {etag}"


def _only_version(page: LoadPage) -> ObjectVersion | None:
    """Return the object version of a page; None for a page of a run of many objects."""
    return page.versions[0] if len(page.versions) == 1 else None


def _load_json(page: LoadPage) -> dict[str, Any]:
    version = _only_version(page)
    rows = {"read": page.load.rows.read, **page.load.rows.outcomes}
    only = None if version is None else dict(version.pinned)
    return {**page.load.to_json(), "rows": rows, "object": only}


def _location(ledger: str | None, stack: str | None, aws: AwsSettings) -> RunLocation:
    from ddbload.cli.run_location import RunLocation, find_deployed
    from ddbload.runs.local_settings import LocalSettings, default_ledger

    if ledger is not None and stack is not None:
        raise InvalidUsage("--ledger and --stack exclude each other; runs are in one of them")
    if stack is not None:
        deployed = find_deployed(stack, aws)
        return RunLocation(deployed.context, deployed)
    return RunLocation(LocalSettings(ledger or default_ledger(), aws).context())


def _where(there: RunLocation) -> str:
    if there.deployed is not None:
        return f"stack {there.deployed.stack.name}"
    return f"the ledger at {there.context.store.uri('')}"


def _elsewhere(there: RunLocation) -> str:
    return "" if there.deployed is not None else "; --stack NAME lists those of a deployed stack"


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return "at an unknown time"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _shortened(text: str, table: str | None = None) -> str:
    """Leave out the middle of a line that is wider than the terminal; a pipe gets all of it."""
    end = "" if table is None else f" into {printable(table)}"
    width = shutil.get_terminal_size().columns - len(end)
    if not sys.stdout.isatty() or len(text) <= width or width < 24:
        return text + end
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}…{text[-half:]}{end}"
