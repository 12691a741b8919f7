"""Run a command on a pseudo-terminal, and capture its output."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from pathlib import Path

from tests.cli.console import PROGRAM, SECONDS, Console, Ended

WIDTH = 100


def on_terminal(console: Console, *arguments: str, streams: str, **env: str | None) -> Ended:
    """Run ddbload with its ``streams`` ("out", "err" or "out err") on a terminal.

    The output of the terminal is in ``err``, or in ``out`` if only "out" is on the terminal.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    other = console.folder.parent / "other"
    with Path(other).open("wb") as rest:
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=console.folder,
            env=console.environment({"TERM": "xterm-256color", **env}),
            stdin=subprocess.DEVNULL,
            stdout=theirs if "out" in streams else rest,
            stderr=theirs if "err" in streams else rest,
        )
    os.close(theirs)
    sent = _all(ours)
    code = process.wait(SECONDS)
    shown = sent.decode().replace("\r\n", "\n")
    assert "Traceback" not in shown
    left = other.read_text("utf-8")
    return Ended(code, shown, left) if streams == "out" else Ended(code, left, shown)


def _all(terminal: int) -> bytes:
    found = b""
    try:
        while piece := os.read(terminal, 65536):
            found += piece
    except OSError:
        # So Linux says that the other end is closed.
        pass
    finally:
        os.close(terminal)
    return found
