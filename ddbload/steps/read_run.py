"""Read the facts about a run from its ledger and its last execution, and have them judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ddbload.context import Context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import DONE, Failure, Heartbeat, Report
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import RunRequest
from ddbload.errors import is_resumable
from ddbload.ledger.counted_chunks import CountedChunks, reconcile
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_objects import SeenWorker
from ddbload.ledger.run_state import ALIVE, RunState, StateFacts, is_alive, judge
from ddbload.source.local_file import is_removed_copy
from ddbload.steps.executions import Execution


@dataclass(frozen=True, slots=True)
class SeenRun:
    """Run as its ledger and its last execution show it at one moment."""

    run: str
    state: RunState
    record: RunRecord | None
    request: RunRequest | None
    """What was asked of a run that has no record; None for one that has."""
    report: Report
    """The run's sums, with the status and error of its state."""
    heartbeat: Heartbeat | None
    """Heartbeat of the process that works on the run, or that died."""
    began: float
    """Seconds since the epoch."""
    execution: Execution | None
    """Last execution of a deployed run."""

    @property
    def payload(self) -> Payload | None:
        """Payload of the run, as far as it is known."""
        known = self.record or self.request
        return None if known is None else known.payload


def finished_report(run: str, context: Context) -> Report | None:
    """Return the report of a run that is done, if `report.json` says so and the ledger proves it.

    Raises `LedgerDamaged`.
    """
    last = context.ledger(run).find_report()
    if last is None or last.status not in DONE:
        return None
    seen = read_run(run, context, processes=False)
    return seen.report if seen.state.recorded else None


def read_run(
    run: str,
    context: Context,
    find_execution: Callable[[Report | None], Execution | None] = lambda _: None,
    *,
    segments: bool = True,
    processes: bool = True,
) -> SeenRun:
    """Read a run, and judge its state. Writes nothing.

    `find_execution` returns the last execution of a deployed run; it gets `report.json`, which may
    make it unnecessary. Without `segments`, `report.json` is believed, and segments are read only
    if an execution ended without its report; without `processes`, no process is
    looked for. Raises `RunNotFound` for an unknown run, and `LedgerDamaged`.
    """
    ledger = context.ledger(run)
    # The heartbeat is read first: if the run ends meanwhile, its report is seen below.
    heartbeat = ledger.find_heartbeat() if processes else None
    record = ledger.find_record()
    request = ledger.find_request() if record is None else None
    now = context.now()
    last = ledger.find_report()
    execution = find_execution(last)
    began = _began(record, request, execution, now)
    gone = heartbeat is not None and is_gone(heartbeat)
    beats = heartbeat is not None and is_alive(heartbeat, now, process_gone=gone)
    if began is None:
        if not beats:
            ledger.record()
        began = now
    counted = None
    if record is not None and segments:
        counted = _count(record, ledger, now)
    at_work = beats or (execution is not None and execution.running)
    is_done = last is not None and last.status in DONE
    control = None if is_done else ledger.find_control()
    workers = ledger.workers() if at_work or (segments and not is_done) else []
    facts = StateFacts(
        began=began,
        has_record=record is not None,
        request_failure=None if request is None else request.failure,
        counted=counted,
        last=last,
        heartbeat=heartbeat,
        process_gone=gone,
        cancelled=control is not None and control.cancelled,
        execution_running=execution is not None and execution.running,
        ending=None if execution is None else execution.ending,
        last_sign=max((now - each.age for each in workers), default=None),
    )
    state = judge(facts, now)
    if record is not None and counted is None and facts.ending is not None and not state.reported:
        # Only the segments tell whether the run is complete, whatever the execution says.
        counted = _count(record, ledger, now)
        state = judge(replace(facts, counted=counted), now)
    if not state.running and (state.reported or heartbeat is None or heartbeat.state != ALIVE):
        heartbeat = None
    report = counted or last or empty_report(run, state.status, state.error)
    if state.recorded and last is not None:
        # The ledger may have been moved since.
        report = replace(last, rejects=report.rejects)
    if state.running:
        report = _at_work(report, heartbeat, workers)
    if state.running or state.stopped:
        report = replace(report, failures=())
    seconds = report.seconds if state.seconds is None else state.seconds
    report = replace(report, status=state.status, error=state.error, seconds=seconds)
    return SeenRun(run, state, record, request, report, heartbeat, began, execution)


def _count(record: RunRecord, ledger: Ledger, now: float) -> Report:
    return reconcile(record, ledger, CountedChunks.read(ledger), now - record.created)


def why_not_resumable(seen: SeenRun) -> str | None:
    """Return why a run cannot be resumed; None if it can, or has no need to."""
    state = seen.state
    if state.running or state.done:
        return None
    if is_input_gone(seen):
        return "its input is gone"
    if seen.payload is None:
        return "nothing is known of its input"
    # A run without a record starts over, and looks at everything anew.
    if seen.record is not None and state.error is not None and not is_resumable(state.error.name):
        return "it would fail again"
    return None


def is_input_gone(seen: SeenRun) -> bool:
    """Tell whether the run read a copy of standard input, a pipe or a file that was removed."""
    if seen.record is not None:
        path = seen.record.pinned.get("path")
    else:
        path = None if seen.request is None else seen.request.payload.source.path
    return isinstance(path, str) and is_removed_copy(path)


def _began(
    record: RunRecord | None,
    request: RunRequest | None,
    execution: Execution | None,
    now: float,
) -> float | None:
    if record is not None or request is not None:
        return (record or request).created  # type: ignore[union-attr]  # one of them is there
    return None if execution is None else execution.started or now


def _at_work(report: Report, heartbeat: Heartbeat | None, workers: Sequence[SeenWorker]) -> Report:
    """Add what workers tell of rows whose segments are not written yet."""
    totals = sum((each.progress.totals for each in workers), WorkTotals())
    rows, done, size = totals.rows, totals.bytes, report.size
    if heartbeat is not None:
        rows, done, size = heartbeat.rows, heartbeat.bytes, heartbeat.size
    work = replace(
        report.work,
        throttled=max(report.work.throttled, totals.work.throttled),
        consumed_wcu=max(report.work.consumed_wcu, totals.work.consumed_wcu),
    )
    if rows.read < report.rows.read:
        return report
    # The heartbeat may be older than the last segment.
    uncertain = min(report.uncertain, rows.written)
    report = replace(report, rows=rows, uncertain=uncertain, size=size, work=work)
    return replace(report, bytes=done or report.bytes)


def empty_report(run: str, status: str, error: Failure | None) -> Report:
    """Make the report of a run that has nothing in its ledger."""
    return Report(
        run=run,
        status=status,
        rows=RowCounts(),
        work=WriteStats(),
        bytes=0,
        size=0,
        chunks=0,
        chunks_done=0,
        seconds=0.0,
        rejects=None,
        error=error,
    )


# Processes of this machine.


def is_gone(heartbeat: Heartbeat) -> bool:
    """Tell whether a heartbeat's process is known not to exist; only on its own machine."""
    if (heartbeat.host, heartbeat.boot) != machine():
        return False
    try:
        os.kill(heartbeat.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        # It exists and belongs to another user.
        return False
    return False


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
