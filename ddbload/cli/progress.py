"""Show a run's progress: drawn on a terminal, as lines elsewhere, as steps with --verbose."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ddbload.cli.run_result import print_detected, source_format
from ddbload.cli.terminal import STEP_SECONDS, Output, counted, drawing, live_console, print_stderr
from ddbload.contracts.run_record import RunRecord
from ddbload.runs.progress import DONE_CHUNK, RUNNING_CHUNK, RunProgress, progress_line

LINE_SECONDS = 10.0
"""Seconds between two progress lines where nothing can be drawn, as in a CI log."""


def show_record(
    output: Output, record: RunRecord, payload: dict[str, Any] | None = None, *, writes: bool = True
) -> None:
    """Print the source's size and detected format before the first row is read.

    Args:
        output: Output options.
        record: Record of the run.
        payload: Input of the run; only values that it left to detection are printed.
        writes: True if the rows go to a table, false if they are only converted.
    """
    if payload is not None and not output.quiet:
        print_detected(record, payload)
    if not output.verbose:
        return
    size = record.size
    if size is None:
        size = record.pinned.get("bytes" if record.objects is not None else "size")
    output.step(f"found {counted(record.objects or 1, 'object')}, {size:,} bytes")
    types = Counter(record.types).most_common()
    columns = ", ".join(f"{count:,} {kind}" for kind, count in types) or "types of the values"
    start = record.data_start
    output.step(
        f"detected {source_format(record)}; attributes: {columns}; the first row is at byte"
        f" {start.byte:,}, line {start.line:,}"
    )
    if writes:
        keys = ", ".join(f"{key.name} {key.type}" for key in record.table.keys)
        options = record.payload.options
        output.step(
            f"table {record.table.name} with keys {keys}; mode {options.mode}, engine"
            f" {options.engine};"
            f" {counted(record.workers, 'worker')}, chunks of {record.chunk_bytes:,} bytes"
        )


@contextmanager
def show_progress(output: Output) -> Iterator[Callable[[RunProgress], None]]:
    """Yield a function that shows the progress of a run.

    On a terminal it draws a view that disappears at the end. Elsewhere it
    prints the latest progress as a line every ten seconds. --verbose prints steps instead.
    """
    if output.verbose:
        yield _step_printer(output)
    elif output.quiet:
        yield lambda _: None
    elif (console := live_console()) is None:
        with _printed_lines() as show:
            yield show
    else:
        from rich.live import Live

        from ddbload.cli.tables import ProgressView

        view = ProgressView()
        with drawing(Live(view, console=console, refresh_per_second=5, transient=True)):
            yield view.show


def _step_printer(output: Output) -> Callable[[RunProgress], None]:
    """Make a function that prints the chunks once, and the counts every two seconds."""
    shown_at, step, known = float("-inf"), "", 0

    def show(progress: RunProgress) -> None:
        nonlocal shown_at, step, known
        chunks = progress.chunks
        if len(chunks) != known:
            known = len(chunks)
            output.step(f"cut into {counted(known, 'chunk')}")
        now, work = time.monotonic(), progress.totals.work
        if progress.step == step and now < shown_at + STEP_SECONDS:
            return
        step, shown_at = progress.step, now
        done, running = chunks.count(DONE_CHUNK), chunks.count(RUNNING_CHUNK)
        output.step(
            f"{progress_line(progress)}; {done:,} of {counted(known, 'chunk')} done,"
            f" {running:,} under way; {counted(work.requests, 'request')},"
            f" {work.throttled:,} throttled, {work.retries:,} retried"
        )

    return show


@contextmanager
def _printed_lines() -> Iterator[Callable[[RunProgress], None]]:
    """Print the latest progress from a thread; the import itself may be busy for minutes."""
    last: RunProgress | None = None
    end = threading.Event()

    def show(progress: RunProgress) -> None:
        nonlocal last
        last = progress

    def print_until_end() -> None:
        # Signals must interrupt the main thread, which may be blocked in a read.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while not end.wait(LINE_SECONDS):
            print_stderr(f"ddbload: {progress_line(last)}")

    thread = threading.Thread(target=print_until_end, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        end.set()
        thread.join()
