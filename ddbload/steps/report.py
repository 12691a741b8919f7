"""Reconcile a run's ledger into its report, and never report a false success."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ddbload.aws.table_description import require_same_table
from ddbload.context import Context
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    ExecutionAttempt,
    ExecutionOutput,
    Failure,
    Report,
)
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ReportCursor, ReportTask
from ddbload.errors import (
    Cancelled,
    DdbloadError,
    InvalidPayload,
    RunNotFound,
)
from ddbload.ledger.counted_chunks import CountedChunks, SegmentSums, reconcile
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_objects import LastReport
from ddbload.ledger.run_state import Ending, RunState, StateFacts, judge, judge_attempt
from ddbload.report_page import put_page, reject_tally
from ddbload.steps.load_history import write_history
from ddbload.steps.run_requests import keep_failure

if TYPE_CHECKING:
    from ddbload.report_page.reject_causes import RejectTally

END_SECONDS = 120.0
"""Seconds that must be left to write the report once all segments are read."""


def write_report(run: str, context: Context, *, interrupted: bool = False) -> Report:
    """Add up the run's segments, check them, and write `report.json` and `report.html`.

    A run succeeds only if its chunks tile the source, each is imported to its proven end, the
    conservation law holds, every reject is in the ledger, there are at most `max_rejects`, some
    row was not rejected, and the table is still the one the run began with. Otherwise `error`
    names the first check that failed. Raises errors of reading the ledger, and transient errors
    of describing the table. `interrupted`: the user stopped the run, so open chunks are expected,
    as they are in a run that was cancelled.
    """
    ledger = context.ledger(run)
    record = ledger.record()
    while True:
        last = ledger.last_report()
        found, tally = CountedChunks(ledger.find_manifest(), keeps=True), reject_tally(record)
        found.add_all(ledger, tally.add)
        counted = reconcile(record, ledger, found, context.now() - record.created)
        counted = _check_table(counted, record, context)
        report, _ = _judged(counted, record, ledger, context, Ending(interrupted=interrupted))
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
    caught = task.error
    ended = stopped or Ending()
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
            keep_failure(ledger, replace(failure, at=context.now()))
        return _failed(run, failure, aborted=aborted)
    attempt = None if task.execution is None else ExecutionAttempt(task.execution, redrives)

    def must_end() -> bool:
        return context.clock() + END_SECONDS >= context.deadline

    while True:
        last = ledger.last_report()
        # Read after the report: whoever takes up the run is noticed here, or by the report's write.
        is_own = task.execution in (None, ledger.find_execution())
        if caught is not None and not is_own and not _is_cancelled(ledger):
            return _failed(run, caught, aborted=aborted)
        parts = _parts_name(attempt, last, stopped=stopped is not None)
        found = CountedChunks(
            ledger.find_manifest(),
            _find_sums(task, ledger, parts, stopped=stopped is not None),
            keeps=True,
        )
        tally = reject_tally(record)
        if not found.add_all(ledger, tally.add, must_end):
            cursor = ReportCursor(parts, found.sums.chunks)
            ledger.put_report_part(cursor, found.sums.to_json())
            return cursor
        tally.leave_out(found.sums.rows.rejected)
        ending = replace(ended, failure=caught, planned=task.planned, attempt=attempt)
        counted = reconcile(record, ledger, found, context.now() - record.created)
        report, state = _judged(counted, record, ledger, context, ending, last.report)
        if not state.recorded:
            counted = _check_table(counted, record, context)
            report, state = _judged(counted, record, ledger, context, ending)
        is_kept = not is_own or _is_later(last.report, attempt)
        if state.recorded or (is_kept and not state.done):
            break
        report = replace(report, attempt=attempt)
        if _put_report(report, last, record, ledger, context, found, tally):
            break
    if report.status in DONE and report.warning and context.notice is not None:
        context.notice(f"run {run}: {report.warning}")
    status, error = judge_attempt(state, ending, own=is_own)
    if status == CANCELLED and not aborted:
        error = Failure.of(Cancelled.of(run))
    return ExecutionOutput(
        *(run, status, report.rows, report.chunks, report.chunks_done, report.rejects, error),
        uncertain=report.uncertain,
        loaded_before=report.loaded_before,
    )


def _judged(
    counted: Report,
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    ending: Ending,
    last: Report | None = None,
) -> tuple[Report, RunState]:
    """Judge a run by its sums, and by the `last` report where that counts; return its report."""
    facts = StateFacts(
        began=record.created,
        counted=counted,
        last=last,
        cancelled=_is_cancelled(ledger),
        ending=ending,
    )
    state = judge(facts, context.now())
    if last is not None and state.recorded:
        return last, state
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
    """Tell whether a report is of a later attempt of the same execution."""
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


def _is_cancelled(ledger: Ledger) -> bool:
    control = ledger.find_control()
    return control is not None and control.cancelled
