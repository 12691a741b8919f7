"""`ddbload plan`: what an import would come to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.import_command import spooled
from ddbload.cli.options import aws_options
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, EXIT_REJECTS, tell
from ddbload.cli.payload import (
    limit_options,
    manifest_option,
    payload_of,
    place_named,
    reading_options,
)
from ddbload.errors import InvalidUsage

if TYPE_CHECKING:
    from ddbload.plan.plan import Sample


@click.command("plan", short_help="Read and check everything, write nothing: rows, price, time.")
@click.argument("source")
@click.argument("table")
@click.option(
    "--sample",
    metavar="ROWS|P%",
    help="Read the first so many rows, or so much of the file, and estimate the rest.",
)
@manifest_option
@reading_options
@limit_options
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress.")
def plan_command(
    source: str,
    manifest: bool,
    table: str,
    sample: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Say what an import of SOURCE into TABLE would come to, and write nothing.

    SOURCE is whatever ddbload import takes. Every row is read and checked as an import would:
    rows that would be rejected, keys that come twice, sizes of items, write units with those of
    every index, price, time, and what should be known of the table beforehand.

    Exit status: 0 when it would load every row, 3 when some would be rejected, 1 when it would
    fail.
    """
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.aws.clients import Clients
    from ddbload.contracts.payload import DEFAULT_WORKERS
    from ddbload.ledger.store import FolderStore
    from ddbload.pipeline.context import AccessPolicy, Context
    from ddbload.plan.plan import FAILS, FINE, make_plan

    wanted = _sample(sample)
    payload = payload_of(
        place_named(source, manifest=manifest), table, None, DEFAULT_WORKERS, given
    )
    context = Context(
        # Nothing is written, and so no ledger kept.
        store=FolderStore(Path()),
        clients=Clients(AwsSettings(profile, region, endpoint_url)),
        access=AccessPolicy(paths=True),
    )
    with spooled(source, payload), _progress(enabled=not quiet) as watch:
        plan = make_plan(payload, context, sample=wanted, watch=watch)
    value = plan.to_json()
    if source == "-":
        value["source"]["uri"] = source
    if as_json:
        click.echo(json.dumps(value))
    else:
        from ddbload.cli.plan_page import show

        show(value)
    if plan.error is not None:
        tell(f"ddbload: {plan.error.name}: {plan.error.message}")
    return {FINE: EXIT_DONE, FAILS: EXIT_FAILED}.get(plan.status, EXIT_REJECTS)


def _sample(text: str | None) -> Sample | None:
    from ddbload.plan.plan import Sample

    if text is None:
        return None
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if 0 < share <= 1:
                return Sample(share=share)
        elif int(text) > 0:
            return Sample(rows=int(text))
    except ValueError:
        pass
    raise InvalidUsage(f"--sample {text!r}: write a number of rows, or a share such as 10%")


@contextmanager
def _progress(*, enabled: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Give a function that draws how far reading is, where stderr is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield lambda _read, _size, _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield lambda _read, _size, _rows: None
        return
    columns = (
        BarColumn(bar_width=24),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[rows]:,} rows"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("plan", total=None, rows=0)

        def draw(read: int, size: int, rows: int) -> None:
            bar.update(task, completed=read, total=size, rows=rows)

        yield draw
