"""Status of a run on this machine: heartbeats of its process, and what its ledger proves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ddbload.contracts.control import CONTROL_SECONDS
from ddbload.contracts.results import (
    DONE,
    INTERRUPTED,
    Heartbeat,
    Report,
    RowCounts,
    WriteStats,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import DdbloadError, RunUnderWay
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.report import reconcile, with_last_report
from ddbload.runs.follow_progress import FOLDER_SECONDS_APART, RequestPace, follow_progress
from ddbload.runs.progress import RunProgress

RUNNING = "RUNNING"
"""Status of a run that a process works on."""
ALIVE, ENDED = "running", "ended"
"""States of a heartbeat."""
SPOOL, PREFLIGHT, IMPORT = "spool", "preflight", "import"
"""Steps that a heartbeat names."""

FOLDER_SECONDS, BUCKET_SECONDS = 2.0, 5.0
"""Seconds between two heartbeats, for a ledger in a folder and in S3."""
BEGIN_POLL_SECONDS = 0.25
"""Time between two looks whether a run has begun."""
MISSED = 3
"""Periods without a heartbeat after which a process counts as dead."""


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
                counts = found is not None and (self._has_written or is_alive(found, self._now()))
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


def is_alive(heartbeat: Heartbeat, now: float) -> bool:
    """Tell whether the process that wrote a heartbeat still works.

    Its heartbeat must be younger than three periods; on the same machine, its process id must
    exist as well.
    """
    if heartbeat.state != ALIVE or abs(now - heartbeat.at) > MISSED * heartbeat.every:
        return False
    return (heartbeat.host, heartbeat.boot) != machine() or _process_exists(heartbeat.pid)


def is_another(heartbeat: Heartbeat) -> bool:
    """Tell whether another process than this one wrote a heartbeat.

    The process id alone does not tell: a restarted container may get the same one.
    """
    return (*machine(), os.getpid()) != (heartbeat.host, heartbeat.boot, heartbeat.pid)


@cache
def machine() -> tuple[str, str]:
    """Return the host name, and the boot and namespace that process ids belong to."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not the path of a file
    except OSError:
        return os.uname().nodename, ""
    return os.uname().nodename, f"{boot} {space}"


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It exists and belongs to another user.
        return True
    return True


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


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run at one moment."""

    status: str
    """`RUNNING`, or the status of the last attempt: `INTERRUPTED` if that left no report."""
    running: bool
    """A process or execution works on the run."""
    done: bool
    """Nothing is left to import."""
    progress: Report
    """Progress that the ledger proves, or that a live run last wrote in a heartbeat."""
    heartbeat: Heartbeat | None
    """Heartbeat of the process that works on the run, or that died."""


def attempt_status(heartbeat: Heartbeat | None, last: Report | None, now: float) -> str:
    """Judge the last attempt of a run by its heartbeat and the last report."""
    if heartbeat is not None and is_alive(heartbeat, now):
        return RUNNING
    return INTERRUPTED if last is None or _is_unreported(heartbeat, last) else last.status


def unreported_until(record: RunRecord, context: Context) -> float | None:
    """Return the time until which an attempt without a report is known to have worked.

    None if the last attempt left a report; now if it is at work.
    """
    ledger, now = context.ledger(record.run), context.now()
    heartbeat, last = ledger.find_heartbeat(), ledger.find_report()
    if heartbeat is not None and is_alive(heartbeat, now):
        return now
    return _last_sign(record, heartbeat, ledger, now) if _is_unreported(heartbeat, last) else None


def _is_unreported(heartbeat: Heartbeat | None, last: Report | None) -> bool:
    """Tell whether the last attempt was killed: then a report is that of an earlier attempt.

    One that says that the run is done stays true, because nothing changes such a run.
    """
    if last is None:
        return True
    return heartbeat is not None and heartbeat.state == ALIVE and last.status not in DONE


def _last_sign(record: RunRecord, heartbeat: Heartbeat | None, ledger: Ledger, now: float) -> float:
    """Return when a process or worker of the run last wrote something, or when the run began."""
    signs = [record.created, *(now - each.age for each in ledger.workers())]
    if heartbeat is not None:
        signs.append(heartbeat.at)
    return min(now, max(signs))


def live_heartbeat(run: str, context: Context) -> Heartbeat | None:
    """Return the heartbeat of the process that works on a run, if there is such a process."""
    found = context.ledger(run).find_heartbeat()
    return found if found is not None and is_alive(found, context.now()) else None


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


def _work_so_far(settled: WriteStats, ledger: Ledger) -> WriteStats:
    """Add what live workers have consumed since their last segments; workers tell no more."""
    told = sum((each.progress.totals.work for each in ledger.workers()), WriteStats())
    return replace(
        settled,
        throttled=max(settled.throttled, told.throttled),
        consumed_wcu=max(settled.consumed_wcu, told.consumed_wcu),
    )


def run_state(record: RunRecord, context: Context) -> RunState:
    """Determine the state of a run that has a record, without writing anything."""
    ledger = context.ledger(record.run)
    # The heartbeat is read first: if the run ends meanwhile, its report is seen below.
    heartbeat = ledger.find_heartbeat()
    now = context.now()
    last = ledger.find_report()
    found = reconcile(record, ledger, now - record.created)
    if heartbeat is not None and is_alive(heartbeat, now):
        if heartbeat.rows.read >= found.rows.read:
            # The heartbeat counts rows whose segments are not written yet.
            found = replace(
                found,
                rows=heartbeat.rows,
                # The heartbeat may be older than the last segment.
                uncertain=min(found.uncertain, heartbeat.rows.written),
                bytes=heartbeat.bytes,
                size=heartbeat.size,
                work=_work_so_far(found.work, ledger),
            )
        return RunState(RUNNING, True, False, replace(found, error=None), heartbeat)
    if last is None or _is_unreported(heartbeat, last):
        found = replace(found, seconds=_last_sign(record, heartbeat, ledger, now) - record.created)
        was_killed = heartbeat is not None and heartbeat.state == ALIVE
        return RunState(INTERRUPTED, False, False, found, heartbeat if was_killed else None)
    found = with_last_report(replace(found, seconds=last.seconds), last)
    was_done = last.status in DONE
    if was_done and found.status in DONE:
        return RunState(last.status, False, True, found, None)
    # A report that says done: parts of the ledger are missing or damaged now.
    return RunState(found.status if was_done else last.status, False, False, found, None)
