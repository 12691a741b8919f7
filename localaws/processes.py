"""End child processes, and detect the end of the parent process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def end_process(process: subprocess.Popen[bytes], seconds: float = 5.0) -> None:
    """Terminate the process, kill it after `seconds`, and close its pipes.

    Does nothing to a process that has ended.
    """
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


@contextmanager
def group_killed_at_end(group: int) -> Iterator[None]:
    """Kill a process group if this process ends inside the block for any reason.

    A shell waits for the end of a pipe from this process, which the operating system closes.
    """
    guard = subprocess.Popen(  # noqa: S603 - a group of our own
        ["/bin/sh", "-c", 'read -r end; kill -s KILL -- "-$0"', str(group)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C reaches the terminal's whole process group.
        process_group=0,
    )
    try:
        yield
    finally:
        guard.kill()
        end_process(guard)


def on_stdin_eof(action: Callable[[], None]) -> None:
    """Run `action` in a thread when standard input reaches its end.

    The operating system closes a process's pipes when it ends for any reason, including SIGKILL. So
    a child whose standard input is such a pipe detects the end of its parent on every system.
    """

    def wait() -> None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        action()

    threading.Thread(target=wait, name="stdin", daemon=True).start()
