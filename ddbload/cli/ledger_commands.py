"""`ddbload status`, `report` and `rejects`: what the ledger says of a run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.options import aws_options, ledger_option
from ddbload.cli.output import Result, tell
from ddbload.contracts import run_id
from ddbload.errors import InvalidPayload, InvalidUsage

if TYPE_CHECKING:
    from ddbload.pipeline.context import Context


@click.command("status", short_help="How far a run has come.")
@click.argument("run", callback=lambda _context, _parameter, run: _checked(run))
@ledger_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status_command(run: str, as_json: bool, **place: Any) -> int:
    """Say how far RUN has come: what its ledger proves, at this moment."""
    from ddbload.pipeline.report import last_report, reconcile

    context = _context(**place)
    ledger = context.ledger(run)
    record = ledger.record()
    now = reconcile(record, ledger, context.now() - record.created)
    last = last_report(ledger)
    state = last.status if last is not None else "NOT REPORTED"
    if as_json:
        value = {**now.to_json(), "status": state, "source": record.payload.source.uri}
        click.echo(json.dumps({**value, "table": record.table.name}))
        return 0
    share = 100 * now.bytes // max(1, record.size)
    lines = [
        f"run {run}: {state}",
        f"  from      {record.payload.source.uri}",
        f"  into      {record.table.name}",
        f"  chunks    {now.chunks_done:,} of {now.chunks:,} done, {share} % of the bytes",
        (
            f"  rows      {now.rows.read:,} settled: {now.rows.written:,} written,"
            f" {now.rows.rejected:,} rejected, {now.rows.superseded:,} superseded"
        ),
    ]
    if now.error is not None:
        lines.append(f"  missing   {now.error.name}: {now.error.message}")
    click.echo("\n".join(lines))
    return 0


@click.command("report", short_help="What a run came to, reconciled from its ledger.")
@click.argument("run", callback=lambda _context, _parameter, run: _checked(run))
@ledger_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report_command(run: str, as_json: bool, **place: Any) -> int:
    """Add up RUN's ledger and check it. Exit status as that of the import."""
    from ddbload.pipeline.report import review

    result = Result.of(review(run, _context(**place)))
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        click.echo("\n".join(result.lines()))
    if result.error is not None:
        tell(f"ddbload: {result.error.name}: {result.error.message}")
    return result.exit_code


@click.command("rejects", short_help="The rows that were rejected, and why.")
@click.argument("run", callback=lambda _context, _parameter, run: _checked(run))
@ledger_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")
def rejects_command(run: str, as_json: bool, **place: Any) -> int:
    """Show RUN's rejects: as JSON lines, or on a terminal as a table."""
    from ddbload.pipeline.rejects import rejects

    lines = rejects(run, _context(**place))
    if as_json or not sys.stdout.isatty():
        for line in lines:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return 0
    _table(lines)
    return 0


def _table(lines: Any) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("line", "byte", "column", "cause", "row", box=None, pad_edge=False)
    causes: Counter[str] = Counter()
    for line in lines:
        reject = json.loads(line)
        causes[f"{reject['cause']} in {_printable(reject['column'] or 'the row')}"] += 1
        if table.row_count < 50:
            table.add_row(
                f"{reject['line']:,}",
                f"{reject['byte']:,}",
                Text(_printable(reject["column"] or "-")),
                reject["cause"],
                Text(_printable(reject["raw"][:60]), overflow="ellipsis", no_wrap=True),
            )
    console = Console()
    console.print(table)
    more = sum(causes.values()) - table.row_count
    if more > 0:
        console.print(f"... and {more:,} more; all of them: --json, or through a pipe")
    for cause, count in causes.most_common():
        console.print(Text(f"{count:>9,} {cause}"))


def _printable(text: str) -> str:
    """Nothing that a terminal would obey: whoever made the file may not move the cursor."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _checked(run: str) -> str:
    try:
        return run_id(run)
    except InvalidPayload as error:
        raise InvalidUsage(f"RUN {run!r}: {error.message}") from None


def _context(
    ledger: str | None, profile: str | None, region: str | None, endpoint_url: str | None
) -> Context:
    from ddbload.aws_http.clients import AwsSettings
    from ddbload.pipeline.local import LocalSettings, default_ledger

    aws = AwsSettings(profile, region, endpoint_url)
    return LocalSettings(ledger or default_ledger(), aws).context()
