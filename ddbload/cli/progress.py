"""A live line on stderr, for terminals only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddbload.pipeline.context import RunTotals


@contextmanager
def live_progress(*, enabled: bool) -> Iterator[Callable[[RunTotals], None]]:
    """Give a function that draws totals; one that does nothing where stderr is no terminal."""
    if not enabled or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TextColumn("{task.fields[rejected]}{task.fields[throttled]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("import", total=None, rows=0, rate=0.0, rejected="", throttled="")
        started: tuple[float, int] | None = None

        def draw(totals: RunTotals) -> None:
            nonlocal started
            now, rows = bar.get_time(), totals.rows
            if started is None:
                started = (now, totals.adopted_rows)
            elapsed = now - started[0]
            rate = (rows.read - max(started[1], totals.adopted_rows)) / elapsed if elapsed else 0.0
            bar.update(
                task,
                total=totals.size,
                completed=totals.bytes,
                rows=rows.read,
                rate=max(rate, 0.0),
                rejected=f"{rows.rejected:,} rejected  " if rows.rejected else "",
                throttled=f"{totals.work.throttled:,} throttled" if totals.work.throttled else "",
            )

        yield draw
