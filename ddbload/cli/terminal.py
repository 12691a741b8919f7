"""Terminal input and output: exit statuses, results, drawings, questions, and Ctrl-C.

Ctrl-C and SIGTERM act the same: they end a command by KeyboardInterrupt. While a run writes, the
first signal stops the run: no new row is sent, rows in flight are settled and recorded, and the run
can be resumed. A second signal ends the process at once.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ddbload.errors import DdbloadError, Interrupted, InvalidUsage, OutputUnwritable, visible
from ddbload.records import MutableRecord

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console
    from rich.live import Live

    from ddbload.contracts.results import Failure


EXIT_DONE, EXIT_FAILED, EXIT_REJECTS = 0, 1, 3
EXIT_INTERRUPTED = Interrupted.exit_code
_EXIT_STATUSES = {
    **dict.fromkeys(("SUCCEEDED", "ALREADY_LOADED", "FINE", "EQUAL"), EXIT_DONE),
    **dict.fromkeys(("SUCCEEDED_WITH_REJECTS", "REJECTS", "DIFFERENT"), EXIT_REJECTS),
    **dict.fromkeys(("INTERRUPTED", "CANCELLED"), EXIT_INTERRUPTED),
}
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE
"""Exit status if the reader closed standard output, as `head` does."""
STDOUT = 1
"""File descriptor of standard output."""
STEP_SECONDS = 2.0
"""Minimum seconds between two --verbose lines about rows."""


def exit_status(status: str) -> int:
    """Return the exit status for a run's, plan's or comparison's status.

    EXIT_FAILED for any status that is not listed.
    """
    return _EXIT_STATUSES.get(status, EXIT_FAILED)


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Ignore errors of stderr, because there is no other place to report them."""
    try:
        yield
    except OSError:
        # Otherwise the flush at exit would fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class Stdout(io.FileIO):
    """Standard output that remembers its write error, even if the caller caught the exception."""

    error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def buffer_stdout() -> None:
    """Buffer standard output, and let it print any character.

    Python leaves it unbuffered if `PYTHONUNBUFFERED` is set, as in many containers. A write may
    then be incomplete without an error.
    """
    raw = Stdout(STDOUT, "w", closefd=False)
    # The same as stderr, because file names may not be valid UTF-8.
    sys.stdout = io.TextIOWrapper(
        *(io.BufferedWriter(raw), sys.stdout.encoding, "backslashreplace"),
        line_buffering=raw.isatty(),
    )


def stdout_error() -> OSError | None:
    """Return the write error of standard output, such as a full disk or a closed pipe; else None.

    After an error, standard output is redirected to /dev/null, so that the flush at exit does not
    fail.
    """
    error: OSError | None = None
    try:
        sys.stdout.flush()
    except OSError as failed:
        error = failed
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if error is None and isinstance(raw, Stdout):
        error = raw.error
    if error is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return error


def report_stdout_error(error: OSError) -> int:
    """Print the write error of standard output; return the exit status."""
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    print_stderr(f"ddbload: {OutputUnwritable.__name__}: standard output: {error.strerror}")
    return EXIT_FAILED


@contextmanager
def keep_result(done: str) -> Iterator[None]:
    """Raise `OutputUnwritable` with the outcome `done` if standard output cannot be written.

    A closed pipe raises `BrokenPipeError` without a message.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        failed = stdout_error() or error
        raise OutputUnwritable(f"standard output: {failed.strerror}; {done}") from None


# Current drawing on the terminal, if any.
_drawn: list[Live] = []


@contextmanager
def drawing(live: Live) -> Iterator[None]:
    """Draw live on the terminal, and move the drawing below lines that are printed meanwhile."""
    with live:
        _drawn.append(live)
        try:
            yield
        finally:
            _drawn.pop()


@contextmanager
def _cleared() -> Iterator[None]:
    """Clear the drawing while lines are written, then draw it again below them.

    Needed because click writes to the stream directly, which rich cannot see.
    """
    live = _drawn[-1] if _drawn else None
    if live is None:
        yield
        return
    live.stop()
    try:
        yield
    finally:
        live.start(refresh=True)


def print_stdout(*lines: str) -> None:
    """Write lines to stdout, with control characters escaped."""
    with _cleared():
        click.echo("\n".join(map(visible, lines)))


_COLOURS = {EXIT_DONE: "green", EXIT_REJECTS: "yellow"}


def print_result(lines: Sequence[str], exit_code: int) -> None:
    """Write a result to stdout. On a terminal its first line is printed last, in color."""
    first, *rest = map(visible, lines)
    shown = [first, *rest]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        shown = [*rest, click.style(first, fg=_COLOURS.get(exit_code, "red"), bold=True)]
    with _cleared():
        click.echo("\n".join(shown))


def print_json(value: object) -> None:
    """Write a value to stdout as one line of JSON, with control characters escaped."""
    with _cleared():
        click.echo(json.dumps(value))


def print_stderr(*lines: str) -> None:
    """Write lines to stderr, with control characters escaped."""
    with ignore_closed_stderr(), _cleared():
        click.echo("\n".join(map(visible, lines)), err=True)


_SHOWN_CELL = 60
"""Characters of a cell in the rows that options make."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as in `1 row` and `2 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def print_notice(notice: str) -> None:
    """Write a warning about a run's table to stderr."""
    print_stderr(f"ddbload: warning: {notice}")


def print_error(error: Failure | DdbloadError | None) -> None:
    """Write the error that ended a command to stderr, if there is one."""
    if error is not None:
        print_stderr(f"ddbload: {error.name}: {error.message}", *option_lines(error.options))


def option_lines(options: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what each option of an error makes of the source's first rows."""
    for each in options:
        if each.get("rows"):
            yield f"  {shlex.join(each['options'])}{' (best)' * bool(each['best'])}"
            for row in [*([each["names"]] if each.get("names") else []), *each["rows"]]:
                yield "    " + " | ".join(visible(cell, _SHOWN_CELL) for cell in row)


def has_terminal_input() -> bool:
    """Return whether questions can be asked; closed standard input counts as non-interactive."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask_to_agree(question: str, *, unasked: str, declined: str) -> None:
    """Ask a yes-or-no question on the terminal.

    Raises `InvalidUsage` with the text `declined` if the answer is no, and with the text `unasked`
    if standard input is not a terminal.
    """
    if not has_terminal_input():
        raise InvalidUsage(unasked)
    with _cleared():
        is_agreed = click.confirm(visible(question), err=True)
    if not is_agreed:
        raise InvalidUsage(declined)


class Output(MutableRecord):
    """Output options of a command: --json, --all, --quiet and --verbose."""

    as_json: bool = False
    show_all: bool = False
    quiet: bool = False
    verbose: bool = False
    _began: float = field(default_factory=time.monotonic, init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    @property
    def notice(self) -> Callable[[str], None] | None:
        """Printer of warnings about the table; None with --quiet, which skips the checks."""
        return None if self.quiet else print_notice

    def show(self, value: object, *lines: str) -> None:
        """Print a result on stdout: as JSON, or as lines unless --quiet is given."""
        if self.as_json:
            print_json(value)
        elif lines and not self.quiet:
            print_stdout(*lines)

    def warn(self, text: str) -> None:
        """Print a warning on stderr, unless --quiet is given."""
        if not self.quiet:
            print_notice(text)

    def say(self, text: str) -> None:
        """Print a line on stderr, unless --quiet is given."""
        if not self.quiet:
            print_stderr(f"ddbload: {text}")

    def step(self, text: str) -> None:
        """Print a step of --verbose, with the seconds since the command began.

        Steps contain only counts, sizes, offsets and names of the table. They quote nothing from
        the source: even a column name may be row data if the file has no header.
        """
        if self.verbose:
            print_stderr(f"ddbload: [{time.monotonic() - self._began:.1f} s] {text}")

    def step_reading(self, read: int, size: int, rows: int) -> None:
        """Print how much of a source has been read, at most every two seconds."""
        if self.verbose and time.monotonic() >= self._read_at + STEP_SECONDS:
            self._read_at = time.monotonic()
            self.step(f"read {read:,} of {size:,} bytes, {counted(rows, 'row')}")


@contextmanager
def live_reading(
    output: Output, doing: str = "reading the source"
) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that shows bytes read, total bytes, and rows: as a bar, or as steps."""
    console = None if output.quiet or output.verbose else live_console()
    if console is None:
        yield output.step_reading
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
        TextColumn(doing),
        BarColumn(bar_width=24, complete_style="cyan", finished_style="cyan"),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    with drawing(bar.live):
        task = bar.add_task("", total=None)

        def draw(read: int, size: int, rows: int) -> None:
            line = f"{decimal(read)} of {decimal(size)}, {rows:,} rows"
            bar.update(task, description=line, total=size, completed=read)

        yield draw


def live_console() -> Console | None:
    """Make a console that draws on stderr; None if stderr cannot draw."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_SECONDS = 0.01
"""Seconds until an exception that was dropped or could not be raised is raised again."""


def raise_on_interrupt() -> Callable[[], bool]:
    """Raise KeyboardInterrupt on SIGINT or SIGTERM.

    Returns a function that returns true once a signal arrived. The interrupted code may replace the
    exception: a partly imported module raises ImportError. So it is raised after pending imports,
    and raised again if a callback of the interpreter has printed and dropped it.
    """
    raised = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        raised = True
        is_again, is_importing = number == signal.SIGALRM, _is_importing(frame)
        if is_again and isinstance(sys.exception(), KeyboardInterrupt | click.Abort):
            return
        if is_again or is_importing:
            # After imports, too: botocore's first calls fail and go on, and Python 3.11.2 loses an
            # interrupt in the making of their errors.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        if not is_importing:
            raise KeyboardInterrupt

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            sys.__unraisablehook__(unraisable)

    for number in (*_handled_signals(), signal.SIGALRM):
        signal.signal(number, handle)
    sys.unraisablehook = dropped
    return lambda: raised


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns true once a signal asked the run to stop."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's contract
        if asked.is_set():
            os._exit(Interrupted.exit_code)
        asked.set()
        # os.write, because the handler may interrupt code that holds the lock of sys.stderr.
        words = (
            "\nddbload: stopping after the requests in flight, in 10 seconds at most; interrupt"
            " again to quit now\n"
        )
        with suppress(OSError):
            os.write(2, words.encode())

    before = [(number, signal.signal(number, handle)) for number in _handled_signals()]
    try:
        yield asked.is_set
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported in this frame or its callers."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _handled_signals() -> list[signal.Signals]:
    # Ignored signals stay ignored: a shell ignores Ctrl-C for background jobs of a script.
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
