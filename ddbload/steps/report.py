"""Reconcile a run's ledger into its report, never a false success; read and judge a run's state."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from ddbload.aws.table_description import require_same_table
from ddbload.context import Context
from ddbload.contracts.control import SeenWorker
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    ExecutionAttempt,
    ExecutionOutput,
    Failure,
    Heartbeat,
    Report,
)
from ddbload.contracts.row_counts import RowCounts, WorkTotals
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ReportCursor, ReportTask, RunRequest
from ddbload.errors import Cancelled, DdbloadError, InvalidPayload, RunNotFound, is_resumable
from ddbload.ledger.counted_chunks import CountedChunks, SegmentSums, reconcile
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_objects import LastReport
from ddbload.ledger.run_state import (
    ALIVE,
    Ending,
    RunState,
    StateFacts,
    is_alive,
    judge,
    judge_attempt,
)
from ddbload.records import Record
from ddbload.report_page.page import put_page
from ddbload.report_page.reject_causes import RejectTally
from ddbload.source.local_file import is_removed_copy
from ddbload.steps.executions import Execution
from ddbload.steps.load_history import write_history

END_SECONDS = 120.0
"""Seconds that must be left to write the report once all segments are read."""


def write_report(run: str, context: Context, ending: Ending | None = None) -> Report:
    """Add up the run's segments, check them, and write `report.json` and `report.html`.

    A run succeeds only if its chunks tile the source, each is imported to its proven end, the
    conservation law holds, every reject is in the ledger, there are at most `max_rejects`, some
    row was not rejected, and the table is still the one the run began with. Otherwise `error`
    names the first check that failed. Raises errors of reading the ledger, and transient errors
    of describing the table. Open chunks are expected in a run that was cancelled, or stopped by the
    user according to `ending`.
    """
    ledger = context.ledger(run)
    record = ledger.record()
    while True:
        last = ledger.last_report()
        found, tally = CountedChunks(ledger.find_manifest(), keeps=True), RejectTally(record)
        found.add_all(ledger, tally.add)
        report, _ = _judged(found, record, ledger, context, ending or Ending())
        if _put_report(report, last, record, ledger, context, found, tally):
            return report


def report_execution(
    task: ReportTask,
    context: Context,
    *,
    redrives: int = 0,
    stopped: Ending | None = None,
) -> ExecutionOutput | ReportCursor:
    """Report a deployed run, and the error that the state machine caught, if any.

    Returns a cursor if time ended before all segments were read; the task with it is reported next.
    `stopped`: how an execution ended without Report, whose invocation is repeated with the task
    alone.

    The ledger's proof decides: a run that is complete is done, whatever was caught. The report of a
    run that had finished before is kept unchanged, and so is that of a run which the execution only
    named: its input was refused before it began or resumed the run, so the attempt alone failed.

    Invocations may overlap, and an old one may be repeated by a redrive. So each writes only over
    the report that it found before it read the first segment; otherwise it begins again. If a later
    attempt or another execution has taken up the run, it writes only that the run is done, which
    stays true.
    """
    run = task.requested_run()
    caught, ended = task.error, stopped or Ending()
    aborted = ended.aborted
    try:
        ledger = context.ledger(check_run_id(run))
        record = ledger.record()
    except InvalidPayload as invalid:
        return _failed(run, caught or Failure.of(invalid), aborted=aborted)
    except RunNotFound as missing:
        # The run never began: there is nothing to reconcile, and the caught error says why.
        failure = Failure.of(Cancelled.of(run)) if aborted else caught or Failure.of(missing)
        with suppress(DdbloadError):
            # The execution keeps it, too.
            ledger.keep_failure(replace(failure, at=context.now()))
        return _failed(run, failure, aborted=aborted)
    attempt = ExecutionAttempt.of(task.execution, redrives)

    def must_end() -> bool:
        return context.clock() + END_SECONDS >= context.deadline

    while True:
        last = ledger.last_report()
        # Asked after the report is read: whoever takes up the run is noticed here, or by the
        # report's write. A success is true, whichever attempt reports it.
        is_own = cache(lambda: task.execution in (None, ledger.find_execution()))
        if caught is not None and not is_own() and not ledger.is_cancelled:
            return _failed(run, caught, aborted=aborted)
        parts = _parts_name(attempt, last, stopped=stopped is not None)
        found = CountedChunks(
            ledger.find_manifest(),
            _find_sums(task, ledger, parts, stopped=stopped is not None),
            keeps=True,
        )
        tally = RejectTally(record)
        if not found.add_all(ledger, tally.add, must_end):
            cursor = ReportCursor(parts, found.sums.chunks)
            ledger.put_report_part(cursor, found.sums.to_json())
            return cursor
        ending = replace(ended, failure=caught, planned=task.planned, attempt=attempt)
        report, state = _judged(found, record, ledger, context, ending, last.report)
        if state.recorded:
            break
        if not state.done and (not is_own() or _is_later(last.report, attempt)):
            break
        report = replace(report, attempt=attempt)
        if _put_report(report, last, record, ledger, context, found, tally):
            break
    if report.status in DONE and report.warning and context.notice is not None:
        context.notice(f"run {run}: {report.warning}")
    status, error = judge_attempt(state, ending, own=caught is None or is_own())
    if status == CANCELLED and not aborted:
        error = Failure.of(Cancelled.of(run))
    return ExecutionOutput.of(report, status, error)


def _judged(
    found: CountedChunks,
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    ending: Ending,
    last: Report | None = None,
) -> tuple[Report, RunState]:
    """Judge a run by its sums, or by the `last` report if that is final; return its report."""
    now = context.now()
    counted = reconcile(record, ledger, found, now - record.created)
    facts = StateFacts(
        began=record.created,
        counted=counted,
        last=last,
        # A run that is complete is done, whoever cancelled it meanwhile.
        cancelled=counted.status not in DONE and ledger.is_cancelled,
        ending=ending,
    )
    if last is not None:
        state = judge(facts, now)
        if state.recorded:
            return last, state
    counted = _check_table(counted, record, context)
    state = judge(replace(facts, counted=counted, last=None), now)
    failures = () if state.stopped else counted.failures
    return replace(counted, status=state.status, error=state.error, failures=failures), state


def _parts_name(attempt: ExecutionAttempt | None, last: LastReport, *, stopped: bool) -> str:
    """Name the parts of a report: segments of later attempts, and of later reports, are in none."""
    text = json.dumps([attempt and attempt.to_json(), last.version])
    # Report may have written some before all functions had stopped.
    kind = "stopped" if stopped else "ended"
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _find_sums(
    task: ReportTask, ledger: Ledger, parts: str, *, stopped: bool
) -> SegmentSums | None:
    """Read the sums of an earlier invocation; None if there are none that count."""
    begun = task.report
    if stopped:
        chunk = ledger.last_report_part(parts)
        begun = None if chunk is None else ReportCursor(parts, chunk)
    if begun is None or begun.name != parts:
        return None
    chunks = begun.chunk

    def decode(value: object) -> SegmentSums:
        sums = SegmentSums.from_json(value)
        if sums.chunks != chunks:
            raise ValueError("sums of other chunks")
        return sums

    return ledger.report_part(begun, decode)


def _is_later(report: Report | None, attempt: ExecutionAttempt | None) -> bool:
    """Return whether a report is of a later attempt of the same execution."""
    found = None if report is None else report.attempt
    if found is None or attempt is None:
        return False
    return found.execution == attempt.execution and found.redrives > attempt.redrives


def _put_report(
    report: Report,
    last: LastReport,
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    found: CountedChunks,
    tally: RejectTally,
) -> bool:
    """Write the history, the report and its page; False if another report was written meanwhile."""
    write_history(record, report, ledger, context)
    if not ledger.put_report(report, last):
        return False
    put_page(report, record, ledger, context, found, tally)
    return True


def _failed(run: str, failure: Failure, *, aborted: bool) -> ExecutionOutput:
    """Return the output of an execution that worked on no run."""
    status, error = judge_attempt(RunState(FAILED), Ending(failure, aborted), own=False)
    return ExecutionOutput(run, status, RowCounts(), 0, 0, None, error)


def _check_table(report: Report, record: RunRecord, context: Context) -> Report:
    """Fail a report that would be a success if the table is not the one the run began with."""
    if report.status not in DONE or not record.mode.writes:
        return report
    try:
        require_same_table(context.clients, record.table, retry_policy=context.retry_policy)
    except DdbloadError as error:
        if not error.permanent:
            raise
        return replace(report, status=FAILED, error=Failure.of(error))
    return report


class SeenRun(Record):
    """Run as its ledger and its last execution show it at one moment."""

    run: str
    state: RunState
    record: RunRecord | None
    request: RunRequest | None
    """Request of a run that has no record; None for one that has."""
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
    known = record or request
    began = None if execution is None else execution.started or now
    if known is not None:
        began = known.created
    gone = heartbeat is not None and is_gone(heartbeat)
    beats = heartbeat is not None and is_alive(heartbeat, now, process_gone=gone)
    if began is None:
        if not beats:
            ledger.record()
        began = now
    counted = _count(record, ledger, now) if record is not None and segments else None
    at_work = beats or (execution is not None and execution.running)
    is_done = last is not None and last.status in DONE
    workers = ledger.workers() if at_work or (segments and not is_done) else []
    facts = StateFacts(
        began=began,
        has_record=record is not None,
        request_failure=None if request is None else request.failure,
        counted=counted,
        last=last,
        heartbeat=heartbeat,
        process_gone=gone,
        cancelled=not is_done and ledger.is_cancelled,
        execution_running=execution is not None and execution.running,
        ending=None if execution is None else execution.ending,
        last_sign=max((now - each.age for each in workers), default=None),
    )
    state = judge(facts, now)
    if record is not None and counted is None and facts.ending is not None and not state.reported:
        # Only the segments show whether the run is complete, whatever the execution says.
        counted = _count(record, ledger, now)
        state = judge(replace(facts, counted=counted), now)
    if not state.running and (state.reported or heartbeat is None or heartbeat.state != ALIVE):
        heartbeat = None
    report = counted or last or Report(run, state.status, error=state.error)
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
    """Return whether the run read a copy of standard input, a pipe or a file that was removed."""
    path = None if seen.request is None else seen.request.payload.source.path
    if seen.record is not None:
        path = seen.record.pinned.get("path")
    return isinstance(path, str) and is_removed_copy(path)


def _at_work(report: Report, heartbeat: Heartbeat | None, workers: Sequence[SeenWorker]) -> Report:
    """Add the progress of workers on rows whose segments are not written yet."""
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


def is_gone(heartbeat: Heartbeat) -> bool:
    """Return whether a heartbeat's process is known not to exist; only on its own machine."""
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
    """Return whether another process than this one wrote a heartbeat.

    The process id alone is not enough: a restarted container may get the same one.
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
