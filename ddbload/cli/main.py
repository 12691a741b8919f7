"""Start the command line. Only light modules load before Ctrl-C is handled."""

from __future__ import annotations

# The C part of `signal`: importing `signal` itself is slow, because it builds enumerations.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C. Equals `Interrupted.exit_code`, whose module is not loaded yet."""


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
        _quit_on_interrupt()
        _print_interrupted()
        status = INTERRUPTED_STATUS
    finally:
        # The command has ended. From here on an interrupt would print a traceback during the
        # interpreter's shutdown, and a pending alarm would kill the process.
        try:
            _quit_on_interrupt()
        except KeyboardInterrupt:
            # The alarm that raises an interrupt again came after the command had handled it.
            _quit_on_interrupt()
    sys.exit(status)


def _quit_on_interrupt() -> None:
    """Make SIGINT and SIGTERM end the process at once, unless ignored; drop a pending alarm."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _quit)
    except ValueError:
        # Not in the main thread: another program has imported this module.
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
    """Reopen closed standard streams on /dev/null.

    Otherwise the next opened file would get the descriptor of a closed stream, and messages for the
    terminal would be written into that file. Writing to a standard output that was closed still
    fails. `sys.stdin` stays None if standard input was closed, so that it is not read as an empty
    file.
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


# Until `main` runs, an interrupt ends the process at once: there is nothing to clean up, and
# modules that are being imported would replace or print an exception.
_quit_on_interrupt()
