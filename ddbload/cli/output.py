"""Write to the terminal: exit statuses, lines on stderr, live progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ddbload.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

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


def print_notice(notice: str) -> None:
    """Write a warning about a run's table to stderr."""
    print_stderr(f"ddbload: warning: {notice}")


def printable(text: str) -> str:
    """Escape control characters: the text of a file must not control the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@contextmanager
def live_progress(*, enabled: bool) -> Iterator[Callable[[RunTotals], None]]:
    """Yield a function that draws a run's totals in a progress bar."""
    with _live_bar(enabled=enabled) as draw_line:
        if draw_line is None:
            yield lambda _: None
            return
        started: tuple[float, int] | None = None

        def draw(totals: RunTotals) -> None:
            nonlocal started
            now, rows = time.monotonic(), totals.rows
            if started is None:
                started = (now, totals.adopted_rows)
            elapsed = now - started[0]
            rate = (rows.read - max(started[1], totals.adopted_rows)) / elapsed if elapsed else 0.0
            words = [f"{rows.read:,} rows", f"{max(rate, 0.0):,.0f} rows/s"]
            words += [f"{rows.rejected:,} rejected"] if rows.rejected else []
            words += [f"{totals.work.throttled:,} throttled"] if totals.work.throttled else []
            draw_line(totals.bytes, totals.size, words)

        yield draw


@contextmanager
def live_reading(*, enabled: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that draws bytes read, bytes in all, and rows in a progress bar."""
    with _live_bar(enabled=enabled) as draw_line:
        if draw_line is None:
            yield lambda _read, _size, _rows: None
            return

        def draw(read: int, size: int, rows: int) -> None:
            draw_line(read, size, [f"{rows:,} rows"])

        yield draw


@contextmanager
def _live_bar(*, enabled: bool) -> Iterator[Callable[[int, int, list[str]], None] | None]:
    """Yield a function that draws bytes done, bytes in all, and words after them.

    Yields None if progress is off or stderr is not a terminal. The bar is removed at the end.
    """
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield None
        return
    from rich.filesize import decimal
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("checking the source", total=None)

        def draw(done: int, size: int, words: list[str]) -> None:
            line = ", ".join([f"{decimal(done)} of {decimal(size)}", *words])
            bar.update(task, description=line, total=size, completed=done)

        yield draw
