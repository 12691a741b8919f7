"""Start processes, interrupt them, and find those that are left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.cli.console import SECONDS, Console, Ended

PROC = Path("/proc")
"""Linux only; elsewhere, such as on macOS, `ps` is used."""

NOT_LONG = 30.0
"""Seconds within which a process ends, even on a busy machine."""


@dataclass
class Running:
    """Process in a new session and process group, as in a separate terminal."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    def ctrl_c(self) -> None:
        """Send SIGINT to the process and all its children, as a terminal does at Ctrl-C."""
        os.killpg(self.pid, signal.SIGINT)

    def members(self) -> list[int]:
        """List the live processes of its group, including the process itself."""
        return [pid for pid, _, group, state in _all() if group == self.pid and state[0] != "Z"]

    def workers(self) -> list[int]:
        """List its worker processes."""
        return [pid for pid in children(self.pid) if "spawn_main" in command_of(pid)]

    def ended(self) -> Ended:
        """Wait until the process and its group have ended; return its result."""
        code = self.process.wait(SECONDS)
        until(lambda: not self.members(), f"processes are left: {self.members()}")
        found = Ended(code, self.out.read_text("utf-8"), self.err.read_text("utf-8"))
        assert "Traceback" not in found.err, found.err
        return found


@contextmanager
def started(console: Console, command: Sequence[str | Path], **env: str) -> Iterator[Running]:
    """Start a command, and kill its process group at the end of the block."""
    folder = console.folder.parent
    out, err = folder / "out", folder / "err"
    with out.open("wb") as to, err.open("wb") as errors:
        running = Running(_open(console, command, to, errors, env), out, err)
    try:
        yield running
    finally:
        for pid in running.members():
            os.kill(pid, signal.SIGKILL)
        running.process.wait()


def _open(
    console: Console,
    command: Sequence[str | Path],
    out: IO[bytes],
    err: IO[bytes],
    env: dict[str, str],
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=console.folder,
        env=console.environment(env),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )


def until(holds: Callable[[], object], otherwise: str, seconds: float = NOT_LONG) -> None:
    """Wait until a condition holds. Raises AssertionError after a while."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """List the children of a process."""
    return [child for child, parent, _, state in _all() if parent == pid and state[0] != "Z"]


def alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    return any(pid == each and state[0] != "Z" for each, _, _, state in _all())


def _all() -> list[tuple[int, int, int, str]]:
    """List id, parent, group and state of each process."""
    if not PROC.is_dir():
        lines = _ps("-A", "-o", "pid=,ppid=,pgid=,stat=")
        parts = (line.split() for line in lines)
        return [(int(pid), int(parent), int(group), state) for pid, parent, group, state in parts]
    found = []
    for path in PROC.glob("[0-9]*/stat"):
        # Gone since it was listed.
        with suppress(OSError):
            # The name stands in brackets, and may have brackets and blanks in it.
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
            found.append((int(path.parent.name), int(parent), int(group), state))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process."""
    if not PROC.is_dir():
        return "".join(_ps("-p", str(pid), "-ww", "-o", "command="))
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_text().replace("\0", " ")
    return ""


def _ps(*arguments: str) -> list[str]:
    shown = subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False)
    return shown.stdout.splitlines()
