"""Ending processes, and ending with who started us."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress


def end_process(process: subprocess.Popen[bytes], seconds: float = 5.0) -> None:
    """Ask the process to end, then make it; closes its pipes. Nothing if it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def on_stdin_eof(action: Callable[[], None]) -> None:
    """Run `action` once nobody holds the other end of our standard input any more.

    However a process ends, SIGKILL included, the system closes its pipes: so this is how a
    child learns that its parent is gone, on any system.
    """

    def wait() -> None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        action()

    threading.Thread(target=wait, name="stdin", daemon=True).start()
