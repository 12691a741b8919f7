"""Runs a command that ends when who started it does: `python tied.py COMMAND ARGUMENT...`.

Whoever starts this holds the other end of its standard input, which the system closes however
that process ends. Then the command and everything that it started are killed. A program by
itself, which imports nothing of ddbload.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


def main() -> int:
    """Run the command in a process group of its own; its exit status."""
    process = subprocess.Popen(  # noqa: S603 - what it was started with
        sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True
    )

    def end_with_starter() -> None:
        while os.read(0, 4096):
            pass
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    threading.Thread(target=end_with_starter, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
