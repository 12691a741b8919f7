"""Start the command line. Only light modules load before Ctrl-C is handled."""

from __future__ import annotations

# The built-in part of `signal`, which takes time to make enumerations of its numbers.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C: `Interrupted.exit_code`, whose module is not loaded yet."""


def main() -> None:
    """Run a command; print errors as one line on stderr, never as a traceback."""
    _repair_streams()
    from ddbload.cli.commands import run
    from ddbload.cli.terminal import buffer_stdout, raise_on_interrupt

    interrupted = None
    try:
        interrupted = raise_on_interrupt()
        buffer_stdout()
        status = run(sys.argv[1:], interrupted)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, Exception) and not (interrupted and interrupted()):
            raise
        _print_interrupted()
        status = INTERRUPTED_STATUS
    finally:
        # The command has ended; an exception in what the interpreter does now would be printed, and
        # an alarm that is still to raise KeyboardInterrupt would kill the process.
        signal.setitimer(signal.ITIMER_REAL, 0)
        _quit_on_interrupt()
    sys.exit(status)


def _quit_on_interrupt() -> None:
    """End the process at once on SIGINT and SIGTERM, unless they are ignored."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _quit)
    except ValueError:
        # Not the main thread: another program has imported this module.
        pass


def _quit(number: int, frame: object) -> None:  # noqa: ARG001 - signal's contract
    _print_interrupted()
    os._exit(INTERRUPTED_STATUS)


def _print_interrupted() -> None:
    try:
        # os.write, because a signal may interrupt code that holds the lock of sys.stderr.
        os.write(2, b"ddbload: interrupted\n")
    except OSError:
        pass


def _repair_streams() -> None:
    """Reopen closed standard streams on nowhere.

    The next file that is opened would get the number of a closed stream, and messages for the
    terminal would be written into it. What is written to a closed standard output fails.
    `sys.stdin` stays None if standard input was closed, so that a closed input is not taken for an
    empty one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            mode = os.O_RDONLY if number == 1 else os.O_RDWR
            # open takes the lowest free number; worker processes inherit it.
            os.set_inheritable(os.open(os.devnull, mode), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good


# Before the command's modules load, and before the program that imports this calls `main`: nothing
# has begun that would have to be ended in order. An exception would not do, because modules that
# are loading turn it into others, or print it.
_quit_on_interrupt()
