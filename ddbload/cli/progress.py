"""Show the progress of a run: in words, as lines, and for --verbose step by step."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from ddbload.cli.output import drawing, live_console, print_stderr
from ddbload.cli.run_result import source_format
from ddbload.contracts.run_record import RunRecord
from ddbload.runs.progress import RunProgress, progress_line

LINE_SECONDS = 10.0
"""Seconds between two lines where nothing can be drawn, as in a log of CI."""
_STEP_SECONDS = 2.0
"""Shortest time between two lines of --verbose about rows."""
_SHOWN_CHUNKS = 8


class Steps:
    """Printer of what a command does, step by step, on stderr: for --verbose.

    It prints counts, sizes, offsets and the table's names, and nothing from the source: even a
    name of a column may be data, where a file has no header.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._began = time.monotonic()
        self._shown_at = float("-inf")
        self._step: str | None = None
        self._chunks = 0

    def say(self, text: str) -> None:
        """Print a line with the seconds since the command began."""
        if self.enabled:
            print_stderr(f"ddbload: [{time.monotonic() - self._began:.1f} s] {text}")

    def show_record(self, record: RunRecord, *, writes: bool = True) -> None:
        """Print what was found and detected before the first row is read.

        `writes`: the rows are for a table, and not only converted.
        """
        if not self.enabled:
            return
        size = record.size
        if size is None:
            size = record.pinned.get("bytes" if record.objects is not None else "size")
        self.say(f"found {_counted(record.objects or 1, 'object')}, {size:,} bytes")
        types = Counter(record.types).most_common()
        columns = ", ".join(f"{count:,} {kind}" for kind, count in types) or "types of the values"
        start = record.data_start
        self.say(
            f"detected {source_format(record)}; attributes: {columns}; the first row is at byte"
            f" {start.byte:,}, line {start.line:,}"
        )
        if not writes:
            return
        keys = ", ".join(f"{key.name} {key.type}" for key in record.table.keys)
        options = record.payload.options
        self.say(
            f"table {record.table.name} with keys {keys}; mode {options.mode}, engine"
            f" {options.engine};"
            f" {_counted(record.workers, 'worker')}, chunks of {record.chunk_bytes:,} bytes"
        )

    def show_progress(self, progress: RunProgress) -> None:
        """Print the edges of chunks once, and then figures at most every two seconds."""
        if not self.enabled:
            return
        chunks = progress.chunks
        if len(chunks) != self._chunks:
            self._chunks = len(chunks)
            shown = [chunks.chunk(number) for number in range(min(len(chunks), _SHOWN_CHUNKS))]
            edges = ", ".join(f"{each.start:,} to {each.end:,}" for each in shown)
            more = len(chunks) - len(shown)
            self.say(
                f"cut into {_counted(len(chunks), 'chunk')}, bytes {edges}"
                + (f" and {more:,} more" if more else "")
            )
        now, work = time.monotonic(), progress.totals.work
        if progress.step == self._step and now < self._shown_at + _STEP_SECONDS:
            return
        self._step, self._shown_at = progress.step, now
        self.say(
            f"{progress_line(progress)}; {chunks.done:,} of {_counted(len(chunks), 'chunk')} done,"
            f" {chunks.running:,} under way; {_counted(work.requests, 'request')},"
            f" {work.throttled:,} throttled, {work.retries:,} retried"
        )

    def show_reading(self, read: int, size: int, rows: int) -> None:
        """Print how far a source is read, at most every two seconds."""
        if self.enabled and time.monotonic() >= self._shown_at + _STEP_SECONDS:
            self._shown_at = time.monotonic()
            self.say(f"read {read:,} of {size:,} bytes, {_counted(rows, 'row')}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


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
    with drawing(Live(view, console=console, refresh_per_second=5, transient=True)):
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
