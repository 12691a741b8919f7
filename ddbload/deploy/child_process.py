"""Run a command that ends with its parent: `python child_process.py COMMAND ARGUMENT...`.

The parent holds the other end of standard input, which the system closes when the parent ends for
any reason. Then the command and all of its child processes are killed. This file runs as a program,
so it imports nothing from ddbload.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


def main() -> int:
    """Run the command in a new process group; return its exit status."""
    process = subprocess.Popen(  # noqa: S603 - the command is the parent's
        sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True
    )

    def end_with_parent() -> None:
        while os.read(0, 4096):
            pass
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
