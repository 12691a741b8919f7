"""Heartbeats of the process that works on a run of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from ddbload.context import Context
from ddbload.contracts.control import CONTROL_SECONDS
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import DdbloadError, RunUnderWay
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import ALIVE, ENDED, is_alive
from ddbload.runs.follow_progress import FOLDER_SECONDS_APART, RequestPace, follow_progress
from ddbload.runs.progress import RunProgress
from ddbload.steps.report import is_another, is_gone, machine

SPOOL, PREFLIGHT, IMPORT = "spool", "preflight", "import"
"""Steps that a heartbeat names."""

FOLDER_SECONDS, BUCKET_SECONDS = 2.0, 5.0
"""Seconds between two heartbeats, for a ledger in a folder and in S3."""
BEGIN_POLL_SECONDS = 0.25
"""Time between two looks whether a run has begun."""


class HeartbeatWriter:
    """Thread that writes heartbeats, reads `control.json`, and notices when it is overtaken.

    The import itself may be busy for minutes. A process that was suspended counts as dead, and
    another may have taken up its run meanwhile: then this one must stop when it goes on.

    The first heartbeat is written with the run's record, or after one period, so that a run that
    is refused at once leaves nothing in the ledger. Leaving the context writes that the run ended.
    """

    def __init__(self, ledger: Ledger, context: Context, step: str = PREFLIGHT) -> None:
        self.cancelled = False
        """The run was cancelled."""
        self._overtaken_by: Heartbeat | None = None
        self._ledger = ledger
        self._now = context.now
        self._every = BUCKET_SECONDS if ledger.in_bucket else FOLDER_SECONDS
        self._step = step
        self._progress = (RowCounts(), 0, 0)
        self._has_written = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_end, name="heartbeat", daemon=True)

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
        if self._has_written and not self._is_overtaken():
            self._write(ENDED)

    @property
    def stopped(self) -> bool:
        """True if this process must stop; `look` says why."""
        return self.cancelled or self._overtaken_by is not None

    def look(self) -> None:
        """Look at the ledger now, and stop if another process works on the run.

        Raises `RunUnderWay`. Whether the run is cancelled is read, too.
        """
        self._read_control()
        if self._is_overtaken():
            self.raise_overtaken()

    def raise_overtaken(self) -> None:
        """Raise `RunUnderWay` if another process has taken up the run, as far as is known."""
        other = self._overtaken_by
        if other is not None:
            raise RunUnderWay(
                f"process {other.pid} on {other.host} has taken up run {self._ledger.run}, because"
                " this one had been silent, as if it were dead: this one stopped; ddbload status"
                f" {self._ledger.run} shows the other"
            )

    def beat(self) -> None:
        """Write a heartbeat with the latest progress, unless another process works on the run."""
        # Where the ledger is full, an earlier attempt's heartbeat stays: it has not overtaken this.
        if not self._is_overtaken() and self._write(ALIVE):
            self._has_written = True

    def set_progress(self, rows: RowCounts, bytes_read: int, size: int) -> None:
        """Keep the import's progress for the next heartbeat."""
        self._step, self._progress = IMPORT, (rows, bytes_read, size)

    def _beat_until_end(self) -> None:
        # Signals must interrupt the main thread, which may be blocked in a read.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        every = min(CONTROL_SECONDS, self._every)
        waited = 0.0
        while not self._end.wait(every):
            self._read_control()
            self._is_overtaken()
            waited += every
            if waited + every > self._every:
                waited = 0.0
                self.beat()

    def _read_control(self) -> None:
        with suppress(DdbloadError):
            # Read again soon. Workers that cannot read it stop by themselves.
            control = self._ledger.find_control()
            self.cancelled = control is not None and control.cancelled

    def _is_overtaken(self) -> bool:
        """Tell whether another process has written a heartbeat after this one."""
        if self._overtaken_by is None:
            with suppress(DdbloadError):
                found = self._ledger.find_heartbeat()
                # Before its first heartbeat, this one may find that of an earlier attempt.
                counts = found is not None and (self._has_written or works(found, self._now()))
                if found is not None and counts and is_another(found):
                    self._overtaken_by = found
        return self._overtaken_by is not None

    def _write(self, state: str) -> bool:
        host, boot = machine()
        # A lost heartbeat does not end a run. If the ledger is gone, writing a segment fails.
        with self._lock, suppress(DdbloadError):
            self._ledger.put_heartbeat(
                Heartbeat(
                    *(state, self._step, host, boot, os.getpid(), self._now(), self._every),
                    *self._progress,
                )
            )
            return True
        return False


def follow_process(run: str, context: Context, watch: Callable[[RunProgress], None]) -> None:
    """Pass the progress of a run to `watch` until no process of any machine works on it."""
    ledger, clock = context.ledger(run), context.clock
    pace = RequestPace(clock, context.sleep)
    if not ledger.in_bucket:
        pace = RequestPace(
            clock, context.sleep, burst=1, seconds=FOLDER_SECONDS_APART, least=FOLDER_SECONDS_APART
        )

    def has_ended() -> bool | None:
        return live_heartbeat(run, context) is None or None

    follow_progress(ledger, has_ended, watch=watch, pace=pace, clock=clock)


def live_heartbeat(run: str, context: Context) -> Heartbeat | None:
    """Return the heartbeat of the process that works on a run, if there is such a process."""
    found = context.ledger(run).find_heartbeat()
    return found if found is not None and works(found, context.now()) else None


def works(heartbeat: Heartbeat, now: float) -> bool:
    """Tell whether the process that wrote a heartbeat still works."""
    return is_alive(heartbeat, now, process_gone=is_gone(heartbeat))


def wait_for_begin(run: str, context: Context) -> bool:
    """Wait until a run that was just started on this machine can be seen; tell whether it can.

    Its id is printed before its first heartbeat, which comes within one period.
    """
    ledger = context.ledger(run)
    every = BUCKET_SECONDS if ledger.in_bucket else FOLDER_SECONDS
    until = context.clock() + every + BEGIN_POLL_SECONDS
    while ledger.find_record() is None and live_heartbeat(run, context) is None:
        if context.clock() >= until:
            return False
        context.sleep(BEGIN_POLL_SECONDS)
    return True
