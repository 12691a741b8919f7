"""Signs of life of a run on this machine: written by its process, read by `status` and `resume`."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ddbload.contracts.results import Heartbeat, RowCounts
from ddbload.errors import DdbloadError
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context

RUNNING, ENDED = "running", "ended"
SPOOL, PREFLIGHT, IMPORT = "spool", "preflight", "import"

FOLDER_SECONDS, BUCKET_SECONDS = 2.0, 5.0
"""Between two heartbeats, by where the ledger lies."""
MISSED = 3
"""Periods without a heartbeat after which a process is taken for dead."""


class HeartbeatWriter:
    """Writes heartbeats, from a thread of its own: a step may be silent for minutes.

    The first one is written when the ledger has the run's record, or after one period, so that a
    run that is refused at once leaves nothing. To leave the context writes that the run ended.
    """

    def __init__(self, ledger: Ledger, context: Context, step: str = PREFLIGHT) -> None:
        self._ledger = ledger
        self._now = context.now
        in_bucket = context.store.uri("").startswith("s3://")
        self._every = BUCKET_SECONDS if in_bucket else FOLDER_SECONDS
        self._step = step
        self._reached = (RowCounts(), 0, 0)
        self._beaten = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
        if self._beaten:
            self._write(ENDED)

    def beat(self) -> None:
        """Write that the run is alive, and how far it is."""
        self._beaten = True
        self._write(RUNNING)

    def reached(self, rows: RowCounts, bytes_read: int, size: int) -> None:
        """Remember how far the import is; the next heartbeat tells."""
        self._step, self._reached = IMPORT, (rows, bytes_read, size)

    def _go_on(self) -> None:
        # What a signal interrupts is to be the main thread's reading or waiting.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while not self._end.wait(self._every):
            self.beat()

    def _write(self, state: str) -> None:
        host, boot = machine()
        # A run does not end because its ledger takes no heartbeat: that its segments cannot be
        # written would end it.
        with self._lock, suppress(DdbloadError):
            self._ledger.put_heartbeat(
                Heartbeat(
                    *(state, self._step, host, boot, os.getpid(), self._now(), self._every),
                    *self._reached,
                )
            )


def is_alive(heartbeat: Heartbeat, now: float) -> bool:
    """Whether the process that wrote it works still.

    It must have written within three periods; on its own machine its process must be there, too.
    """
    if heartbeat.state != RUNNING or abs(now - heartbeat.at) > MISSED * heartbeat.every:
        return False
    return (heartbeat.host, heartbeat.boot) != machine() or _is_process(heartbeat.pid)


def is_another(heartbeat: Heartbeat) -> bool:
    """Whether it is not this process's own: a container that starts anew may get the same id."""
    return (*machine(), os.getpid()) != (heartbeat.host, heartbeat.boot, heartbeat.pid)


@cache
def machine() -> tuple[str, str]:
    """Name the machine, and the boot and namespace in which its process ids mean something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not the path of a file
    except OSError:
        return os.uname().nodename, ""
    return os.uname().nodename, f"{boot} {space}"


def _is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # Another user's.
        return True
    return True
