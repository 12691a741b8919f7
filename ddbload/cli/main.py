"""Start the command line: import the commands where Ctrl-C is already handled."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NoReturn

from ddbload.cli.interrupts import raise_on_interrupt
from ddbload.errors import Interrupted


def main() -> NoReturn:
    """Run a command; print errors as one line on stderr, never as a traceback."""
    _mend_streams()
    interrupted = raise_on_interrupt()
    try:
        from ddbload.cli.commands import run

        status = run(sys.argv[1:], interrupted)
    except (Exception, KeyboardInterrupt) as error:
        if not interrupted() and isinstance(error, Exception):
            raise
        with contextlib.suppress(OSError):
            os.write(2, b"ddbload: interrupted\n")
        status = Interrupted.exit_code
    sys.exit(status)


def _mend_streams() -> None:
    """Have the standard streams take anything: closed ones nothing, all of them every character.

    What is opened next would get a closed stream's number, and what is meant for a terminal
    would land there. Closed standard input stays None: it is not the same as an empty one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken; workers are to have it too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr does it. A file's name may be no text at all.
        sys.stdout.reconfigure(errors="backslashreplace")
