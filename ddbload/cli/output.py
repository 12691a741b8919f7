"""Write to the terminal: exit statuses, lines on stderr, live progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ddbload.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from ddbload.pipeline.context import RunTotals

EXIT_DONE, EXIT_FAILED, EXIT_REJECTS = 0, 1, 3
EXIT_INTERRUPTED = Interrupted.exit_code


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Ignore errors of stderr: there is no other place to report them."""
    try:
        yield
    except OSError:
        # Otherwise the flush at exit would fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def print_stderr(text: str) -> None:
    """Write a line to stderr."""
    with ignore_closed_stderr():
        click.echo(text, err=True)


def printable(text: str) -> str:
    """Escape control characters: the text of a file must not control the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _live_console(*, enabled: bool) -> Console | None:
    """Return a console on stderr, or None if progress is off or stderr is not a terminal."""
    if not enabled or not sys.stderr.isatty():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console


@contextmanager
def live_progress(*, enabled: bool) -> Iterator[Callable[[RunTotals], None]]:
    """Yield a function that draws a run's totals in a progress bar."""
    console = _live_console(enabled=enabled)
    if console is None:
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


@contextmanager
def live_reading(*, enabled: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that draws bytes read, bytes in all, and rows in a progress bar."""
    console = _live_console(enabled=enabled)
    if console is None:
        yield lambda _read, _size, _rows: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

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
