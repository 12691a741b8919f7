"""Start the command line: import the commands where Ctrl-C is already handled."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from ddbload.cli.interrupts import raise_on_interrupt
from ddbload.errors import Interrupted


def main() -> NoReturn:
    """Run a command; print errors as one line on stderr, never as a traceback."""
    _repair_streams()
    interrupted = raise_on_interrupt()
    try:
        from ddbload.cli.commands import run
        from ddbload.cli.output import buffer_stdout

        buffer_stdout()
        status = run(sys.argv[1:], interrupted)
    except (Exception, KeyboardInterrupt) as error:
        if not interrupted() and isinstance(error, Exception):
            raise
        with contextlib.suppress(OSError):
            os.write(2, b"ddbload: interrupted\n")
        status = Interrupted.exit_code
    sys.exit(status)


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
