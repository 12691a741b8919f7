"""Show the progress of a run on stderr: a live view on a terminal, else a line now and then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from ddbload.cli.output import live_console, print_stderr
from ddbload.cli.progress_text import progress_line

if TYPE_CHECKING:
    from ddbload.runs.progress import RunProgress

LINE_SECONDS = 10.0
"""Seconds between two lines where nothing can be drawn, as in a log of CI."""


@contextmanager
def show_progress(*, enabled: bool) -> Iterator[Callable[[RunProgress], None]]:
    """Yield a function that shows the progress of a run.

    On a terminal it draws a bar and a grid of the chunks, which are removed at the end. Elsewhere
    the last progress is printed as a line every ten seconds.
    """
    if not enabled:
        yield lambda _: None
        return
    console = live_console(enabled=True)
    if console is None:
        with _PrintedLines() as lines:
            yield lines.show
        return
    from rich.live import Live

    from ddbload.cli.progress_view import ProgressView

    view = ProgressView()
    with Live(view, console=console, refresh_per_second=5, transient=True):
        yield view.show


class _PrintedLines:
    """Thread that prints the last progress; the import itself may be busy for minutes."""

    def __init__(self) -> None:
        self._last: RunProgress | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._print_until_end, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def show(self, progress: RunProgress) -> None:
        """Keep the progress for the next line."""
        self._last = progress

    def _print_until_end(self) -> None:
        # Signals must interrupt the main thread, which may be blocked in a read.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while not self._end.wait(LINE_SECONDS):
            print_stderr(f"ddbload: {progress_line(self._last)}")
