"""Reconcile a run's ledger into its report, and never report a false success."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ddbload.contracts.options import EDGES
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    ExecutionAttempt,
    ExecutionOutput,
    Failure,
    Report,
    RowCounts,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ReportCursor, ReportTask
from ddbload.dynamodb.write_modes import PLAN, written_word
from ddbload.errors import (
    TAKE_UP,
    Cancelled,
    ConservationViolated,
    DamagedCompression,
    DdbloadError,
    IncompleteRun,
    InvalidPayload,
    NothingWritten,
    RowTooLong,
    RunNotFound,
    SplitMismatch,
    TooManyRejects,
    UnterminatedQuote,
)
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_objects import LastReport
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.counted_chunks import CountedChunks, SegmentSums, units_consumed
from ddbload.pipeline.load_history import write_history
from ddbload.pipeline.report_page.run_page import put_page, reject_tally
from ddbload.pipeline.table_description import require_same_target

if TYPE_CHECKING:
    from ddbload.pipeline.report_page.reject_causes import RejectTally

END_SECONDS = 120.0
"""Seconds that must be left to write the report once all segments are read."""
_FOUND_BY_WHOLE_SCAN = frozenset(
    each.__name__ for each in (DamagedCompression, RowTooLong, SplitMismatch, UnterminatedQuote)
)
_STOPPED = (INTERRUPTED, CANCELLED)
"""Statuses of a run in which open chunks are expected."""


def write_report(run: str, context: LedgerContext, *, interrupted: bool = False) -> Report:
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
        report = _reconcile_and_check(record, ledger, context, found)
        if _is_cancelled(ledger):
            report = _as_stopped(report, CANCELLED)
        elif interrupted:
            report = _as_stopped(report, INTERRUPTED)
        if _put_report(report, last, record, ledger, context, found, tally):
            return report


def report_execution(
    task: ReportTask,
    context: LedgerContext,
    *,
    redrives: int = 0,
    continues: bool = True,
    stopped: bool = False,
) -> ExecutionOutput | ReportCursor:
    """Report a deployed run, and the error that the state machine caught, if any.

    Returns a cursor if time ended before all segments were read; the task with it continues,
    unless the state machine, of an earlier version, would not know what that is. `stopped`: the
    execution ended without Report, so the invocation is repeated with the task alone.

    An execution with a caught error has failed, whatever the ledger proves; but the report of a
    run that had finished before is kept unchanged, and so is that of a run which the execution only
    named: its input was refused before it began or resumed the run.

    Invocations may overlap, and an old one may be repeated by a redrive. So each writes only over
    the report that it found before it read the first segment; otherwise it begins again. If a later
    attempt or another execution has taken up the run, it writes only that the run is done, which
    stays true.
    """
    run = task.requested_run()
    caught = task.error
    try:
        ledger = context.ledger(check_run_id(run))
        record = ledger.record()
    except (InvalidPayload, RunNotFound) as error:
        # The run never began: there is nothing to reconcile, and the caught error says why.
        return _failed(run, caught or Failure.of(error))
    attempt = None if task.execution is None else ExecutionAttempt(task.execution, redrives)

    def must_end() -> bool:
        return continues and context.clock() + END_SECONDS >= context.deadline

    while True:
        last = ledger.last_report()
        # Read after the report: whoever takes up the run is noticed here, or by the report's write.
        is_own = task.execution in (None, ledger.find_execution())
        if caught is not None and not is_own and not _is_cancelled(ledger):
            return _failed(run, caught)
        parts = _parts_name(attempt, last, stopped=stopped)
        found = CountedChunks(
            ledger.find_manifest(), _find_sums(task, ledger, parts, stopped=stopped), keeps=True
        )
        tally = reject_tally(record)
        if not found.add_all(ledger, tally.add, must_end):
            cursor = ReportCursor(parts, found.sums.chunks)
            ledger.put_report_part(cursor, found.sums.to_json())
            return cursor
        tally.leave_out(found.sums.rows.rejected)
        earlier = _proven_report(last.report, record, ledger, found)
        report = earlier or _reconcile_and_check(record, ledger, context, found)
        if _is_cancelled(ledger) and report.status not in DONE:
            report = _as_stopped(report, CANCELLED)
        # The error of a failed chunk tells more than that of the Map. But if Preflight failed, no
        # chunk was tried, and their failures are from an earlier execution.
        cause = None if report.status == CANCELLED else caught
        if cause is not None and (
            report.status in DONE or _lacks_cause(report) or not task.planned
        ):
            report = replace(report, status=FAILED, error=cause)
        is_kept = not is_own or _is_later(last.report, attempt)
        if earlier is not None or (is_kept and report.status not in DONE):
            break
        report = replace(report, attempt=attempt)
        if _put_report(report, last, record, ledger, context, found, tally):
            break
    if context.tag_loaded and report.tags is None and report.status in DONE:
        report = _tag_loaded(report, record, ledger, context)
    if report.status in DONE and report.rows.warning and context.notice is not None:
        context.notice(f"run {run}: {report.rows.warning}")
    return ExecutionOutput(
        run,
        report.status,
        report.rows,
        report.chunks,
        report.chunks_done,
        report.rejects,
        Failure.of(Cancelled.of(run)) if report.status == CANCELLED else report.error,
        report.uncertain,
    )


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
    return ledger.report_part(begun, lambda value: SegmentSums.from_json(value, chunks))


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
    context: LedgerContext,
    found: CountedChunks,
    tally: RejectTally,
) -> bool:
    """Write the history, the report and its page; False if another report was written meanwhile."""
    write_history(record, report, ledger, context)
    if not ledger.put_report(report, last):
        return False
    put_page(report, record, ledger, context, found, tally)
    return True


def _tag_loaded(
    report: Report, record: RunRecord, ledger: Ledger, context: LedgerContext
) -> Report:
    """Tag the objects of a run that is done, and add to its report how many."""
    # Imported here: most deployments tag nothing.
    from ddbload.pipeline.tag_loaded import tag_loaded

    tags = tag_loaded(record, report, ledger, context)
    if tags is None:
        return report
    last = ledger.last_report()
    if last.report is not None and last.report.status in DONE:
        # Another invocation that writes meanwhile has tagged the same objects.
        ledger.put_report(replace(last.report, tags=tags), last)
    if tags.failed and context.notice is not None:
        context.notice(
            f"run {report.run}: {tags.failed:,} of its objects could not be tagged, the first"
            f" because of {tags.error}"
        )
    return replace(report, tags=tags)


def _failed(run: str, failure: Failure) -> ExecutionOutput:
    """Return the output of an execution that worked on no run."""
    return ExecutionOutput(run, FAILED, RowCounts(), 0, 0, None, failure)


def _lacks_cause(report: Report) -> bool:
    """Tell whether the ledger shows only that rows are missing, and not why."""
    return report.error is not None and report.error.name == IncompleteRun.__name__


def current_report(
    run: str, context: LedgerContext, *, unreported_until: float | None = None
) -> Report:
    """Reconcile a run's ledger now, and add what only its last report knows. Writes nothing.

    `unreported_until`: time until which the last attempt is known to have worked, if it wrote no
    report: then the one there is of an earlier attempt, and does not count unless the run is done.
    """
    ledger = context.ledger(run)
    record = ledger.record()
    last = ledger.find_report()
    until = context.now() if unreported_until is None else unreported_until
    if last is not None and unreported_until is not None and last.status not in DONE:
        last = None
    found = CountedChunks.read(ledger)
    report = _add_up(record, ledger, found, until - record.created if last is None else 0.0)
    report = _check_rejects(report, found)
    if last is None:
        # Still running, or killed: no report has compared the table.
        report = _as_stopped(report, INTERRUPTED)
        return replace(report, status=INTERRUPTED) if report.status in DONE else report
    report = with_last_report(replace(report, seconds=last.seconds), last)
    return _as_stopped(report, last.status) if last.status in _STOPPED else report


def with_last_report(report: Report, last: Report) -> Report:
    """Add what only the last report knows, unless rows were imported since.

    That is why preflight failed, for example, or that the table was replaced.
    """
    if (report.rows, report.chunks_done) != (last.rows, last.chunks_done):
        return report
    if last.error is not None:
        return replace(report, status=FAILED, error=last.error)
    if last.status == SUCCEEDED and _succeeded_in_earlier_version(report):
        # Earlier versions had one status for every run that finished.
        return replace(report, status=SUCCEEDED, error=None)
    return report


def _succeeded_in_earlier_version(report: Report) -> bool:
    """Tell whether an earlier version would have reported SUCCEEDED."""
    if report.error is not None:
        return report.error.name == NothingWritten.__name__
    return report.status == SUCCEEDED_WITH_REJECTS


def _reconcile_and_check(
    record: RunRecord,
    ledger: Ledger,
    context: LedgerContext,
    found: CountedChunks,
) -> Report:
    """Reconcile the ledger, then check the rejects and the table before calling it a success."""
    report = _add_up(record, ledger, found, context.now() - record.created)
    report = _check_rejects(report, found)
    if report.status not in DONE or record.payload.options.mode == PLAN:
        return report
    try:
        require_same_target(record, context.clients, retry_policy=context.retry_policy, ended=True)
    except DdbloadError as error:
        if not error.permanent:
            raise
        return replace(report, status=FAILED, error=Failure.of(error))
    return report


def done_before(ledger: Ledger) -> Report | None:
    """Return the report of a finished run if the ledger still proves it. Writes nothing."""
    last = ledger.find_report()
    if last is None or last.status not in DONE:
        return None
    return _proven_report(last, ledger.record(), ledger, CountedChunks.read(ledger))


def _proven_report(
    last: Report | None, record: RunRecord, ledger: Ledger, found: CountedChunks
) -> Report | None:
    """Return the last report if the run is finished, and these chunks prove it."""
    if last is None or last.status not in DONE:
        return None
    report = _check_rejects(_add_up(record, ledger, found, last.seconds), found)
    report = with_last_report(report, last)
    return last if report.status in DONE and report.rows == last.rows else None


def _check_rejects(report: Report, found: CountedChunks) -> Report:
    """Fail a report if rejects could not be read."""
    damaged = found.sums.damaged
    if damaged is None:
        return report
    return replace(report, status=FAILED, error=report.error or damaged)


def _is_cancelled(ledger: Ledger) -> bool:
    control = ledger.find_control()
    return control is not None and control.cancelled


def _as_stopped(report: Report, status: str) -> Report:
    # Open chunks are expected, and their failures are those of an earlier attempt. Any other
    # error stays a failure.
    is_expected = _lacks_cause(report) or (
        report.error is not None and report.error.chunk is not None
    )
    return replace(report, status=status, error=None, failures=()) if is_expected else report


def reconcile(record: RunRecord, ledger: Ledger, seconds: float) -> Report:
    """Make the report of a run from its ledger. Writes nothing."""
    return _add_up(record, ledger, CountedChunks.read(ledger, rejects=False), seconds)


def _add_up(record: RunRecord, ledger: Ledger, found: CountedChunks, seconds: float) -> Report:
    sums, rows = found.sums, found.sums.rows
    open_chunks = set(sums.open)
    failures = [each for each in ledger.failures() if each.chunk in open_chunks]
    error = _first_error(record, found, failures)
    causes = dict(sorted(sums.causes.items(), key=lambda each: (-each[1], each[0])))
    size = read = record.data_start.byte + sums.bytes
    if record.size is not None or not found.chunks or sums.done < len(found.chunks):
        # What preflight has not read is known once it is imported.
        size = record.size or 0
    return Report(
        run=record.run,
        status=_status(error, rows),
        rows=rows,
        work=replace(sums.work, consumed_wcu=units_consumed(sums, ledger)),
        bytes=read,
        size=size,
        chunks=len(found.chunks or ()),
        chunks_done=sums.done,
        seconds=max(0.0, seconds),
        rejects=ledger.rejects_uri if rows.rejected else None,
        error=error,
        failures=tuple(failures),
        planned=sums.planned if record.payload.options.mode == PLAN else None,
        write_price=record.write_price,
        identical=sums.identical if sums.identical_known else None,
        uncertain=sums.uncertain,
        mode=record.payload.options.mode,
        causes=causes or None,
        target=None if record.table.is_table else record.table.kind,
        delivery=record.table.delivery,
        repeated=sums.repeated,
    )


def _status(error: Failure | None, rows: RowCounts) -> str:
    if error is not None:
        return FAILED
    return SUCCEEDED_WITH_REJECTS if rows.rejected else SUCCEEDED


def _first_error(
    record: RunRecord, found: CountedChunks, failures: Sequence[Failure]
) -> Failure | None:
    rows = found.sums.rows
    if failures:
        first = failures[0]
        others = len(failures) - 1
        more = f" (and {others} more chunk{'s' * (others > 1)} failed)" if others else ""
        message = first.message + _rows_before(first, record, rows) + more
        return Failure(first.name, message, first.chunk)
    if not rows.conserved or not found.sums.conserved:
        return Failure(
            ConservationViolated.__name__,
            f"{rows.read} rows read are not {rows.written}"
            f" {written_word(record.payload.options.mode)} + {rows.rejected} rejected +"
            f" {rows.superseded} superseded + {rows.skipped} skipped + {rows.filtered} filtered:"
            " please report it",
        )
    incomplete = _incomplete(record, found)
    if rows.all_rejected and not incomplete:
        return Failure(
            NothingWritten.__name__,
            NothingWritten.of(
                rows.read,
                f"{_causes(found)}ddbload rejects {record.run} --summary says why",
                next(iter(dict(found.sums.causes.most_common(1))), None),
                written_word(record.payload.options.mode),
            ).message,
        )
    limit = record.payload.options.reject_limit
    # The rows that an incomplete run lacks may still bring a share below the limit.
    if (
        limit.surely_exceeded(rows.rejected, rows.read, record.most_rows_besides(found.sums.bytes))
        if incomplete
        else limit.exceeded(rows.rejected, rows.read)
    ):
        return Failure(
            TooManyRejects.__name__,
            f"{limit.describe(rows.rejected, rows.read)}: look at them, then mend the file, or"
            f" allow more and {TAKE_UP}",
        )
    if incomplete:
        return Failure(IncompleteRun.__name__, incomplete)
    return None


def _causes(found: CountedChunks) -> str:
    """Return the most frequent causes of rejects, for an error; empty where they are unknown."""
    causes = found.sums.causes.most_common(2)
    return "".join(f"{count:,} {cause}, " for cause, count in causes).removesuffix(", ") + (
        "; " if causes else ""
    )


def _rows_before(failure: Failure, record: RunRecord, rows: RowCounts) -> str:
    """Return how many rows were written before an error that a whole scan would have found."""
    found_late = failure.name in _FOUND_BY_WHOLE_SCAN and record.payload.options.scan == EDGES
    if not found_late or not rows.written:
        return ""
    were = "1 row was" if rows.written == 1 else f"{rows.written:,} rows were"
    return (
        f". {were} {written_word(record.payload.options.mode)} before; a new run with --scan whole"
        " (in a payload, options.scan) finds such errors before its first write"
    )


def _incomplete(record: RunRecord, found: CountedChunks) -> str | None:
    """Return what is missing from the proof that every byte was imported; None if complete."""
    again = f"; {TAKE_UP}"
    if found.chunks is None:
        return f"preflight did not finish{again}"
    position = record.data_start.byte
    for number, chunk in enumerate(found.chunks):
        if (chunk.chunk, chunk.start) != (number, position) or chunk.end <= chunk.start:
            return f"the manifest does not tile the source at byte {position}; start a new run"
        position = chunk.end
    if record.size is not None and position != record.size:
        return f"the manifest ends at byte {position} of {record.size}; start a new run"
    stopped = found.sums.stopped
    if stopped is None:
        return None
    reached = found.sums.reached
    return f"chunk {stopped.chunk} is imported to byte {reached} of {stopped.end}{again}"
