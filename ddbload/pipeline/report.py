"""Reconcile a run's ledger into its report, and never report a false success."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    ExecutionOutput,
    Failure,
    PlanTotals,
    Report,
    RowCounts,
    Segment,
    WriteStats,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ReportTask
from ddbload.dynamodb.write_modes import PLAN
from ddbload.errors import (
    TAKE_UP,
    Cancelled,
    ConservationViolated,
    DdbloadError,
    IncompleteRun,
    InvalidPayload,
    LedgerDamaged,
    NothingWritten,
    RunNotFound,
    TooManyRejects,
    unexpected,
)
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.counted_chunks import CountedChunks, units_consumed
from ddbload.pipeline.load_history import write_history
from ddbload.pipeline.table_description import require_same_table

if TYPE_CHECKING:
    from ddbload.pipeline.report_page.reject_causes import RejectTally

PAGE_SECONDS = 60.0
"""Seconds that must be left for `report.html` to be written: drawing it, and two tries."""
PAGE_ATTEMPTS = 2
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
    found, tally = CountedChunks.read(ledger), _reject_tally(record)
    report = _reconcile_and_check(record, ledger, context, found, tally)
    if _is_cancelled(ledger):
        report = _as_stopped(report, CANCELLED)
    elif interrupted:
        report = _as_stopped(report, INTERRUPTED)
    write_history(record, report, ledger, context)
    ledger.put_report(report)
    _put_page(report, record, ledger, context, found, tally)
    return report


def report_execution(task: ReportTask, context: LedgerContext) -> ExecutionOutput:
    """Report a deployed run, and the error that the state machine caught, if any.

    An execution with a caught error has failed, whatever the ledger proves; but the report of a
    run that had finished before is kept unchanged, and so is that of a run which the execution only
    named: its input was refused before it began or resumed the run.
    """
    run = task.requested_run()
    caught = task.error
    try:
        ledger = context.ledger(check_run_id(run))
        record = ledger.record()
    except (InvalidPayload, RunNotFound) as error:
        # The run never began: there is nothing to reconcile, and the caught error says why.
        return _failed(run, caught or Failure.of(error))
    is_own = task.execution in (None, ledger.find_execution()) or _is_cancelled(ledger)
    if caught is not None and not is_own:
        return _failed(run, caught)
    earlier = done_before(ledger)
    found, tally = CountedChunks.read(ledger), _reject_tally(record)
    report = earlier or _reconcile_and_check(record, ledger, context, found, tally)
    if _is_cancelled(ledger) and report.status not in DONE:
        report = _as_stopped(report, CANCELLED)
    # The error of a failed chunk tells more than that of the Map. But if Preflight failed, no chunk
    # was tried, and their failures are from an earlier execution.
    if report.status == CANCELLED:
        caught = None
    if caught is not None and (report.status in DONE or _lacks_cause(report) or not task.planned):
        report = replace(report, status=FAILED, error=caught)
    if earlier is None:
        write_history(record, report, ledger, context)
        ledger.put_report(report)
        _put_page(report, record, ledger, context, found, tally)
    if context.tag_loaded and report.tags is None and report.status in DONE:
        # Imported here: most deployments tag nothing.
        from ddbload.pipeline.tag_loaded import tag_loaded

        report = replace(report, tags=tag_loaded(record, report, ledger, context))
        if report.tags is not None:
            ledger.put_report(report)
            if report.tags.failed and context.notice is not None:
                context.notice(
                    f"run {run}: {report.tags.failed:,} of its objects could not be tagged, the"
                    f" first because of {report.tags.error}"
                )
    return ExecutionOutput(
        run,
        report.status,
        report.rows,
        report.chunks,
        report.chunks_done,
        report.rejects,
        Failure.of(Cancelled.of(run)) if report.status == CANCELLED else report.error,
    )


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
    report = _check_rejects(report, ledger, found)
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


def run_page(report: Report, context: LedgerContext, *, show_rows: bool = False) -> str:
    """Draw the page of a run anew, with the status of this report; `report.html` stays as it is.

    Raises errors of reading the ledger. With `show_rows`, rejected rows are not masked.
    """
    ledger = context.ledger(report.run)
    record = ledger.find_record()
    if record is None:
        return _draw_page(report, None, ledger, context, CountedChunks(None, []), None)
    found, tally = CountedChunks.read(ledger), _reject_tally(record, show_rows=show_rows)
    with suppress(LedgerDamaged):
        # The report says it: the page shows what can be read.
        for line in found.rejects(ledger):
            tally.add(line)
    return _draw_page(report, record, ledger, context, found, tally)


def _reject_tally(record: RunRecord, *, show_rows: bool = False) -> RejectTally:
    # Imported here: OnUpload and others that read reports do not need it.
    from ddbload.pipeline.report_page.reject_causes import RejectTally

    return RejectTally(record, show_rows=show_rows)


def _put_page(
    report: Report,
    record: RunRecord,
    ledger: Ledger,
    context: LedgerContext,
    found: CountedChunks,
    tally: RejectTally,
) -> None:
    """Write `report.html` if there is time. Its failure is told, and never fails the run."""
    failure: DdbloadError | None = None
    try:
        if context.clock() + PAGE_SECONDS < context.deadline:
            page = _draw_page(report, record, ledger, context, found, tally)
            ledger.put_page(page, attempts=PAGE_ATTEMPTS)
    except DdbloadError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - nothing about the page may fail a run
        failure = unexpected(error, "drawing the page")
    if failure is not None and context.notice is not None:
        context.notice(f"report.html was not written: {failure.name}: {failure.message}")


def _draw_page(
    report: Report,
    record: RunRecord | None,
    ledger: Ledger,
    context: LedgerContext,
    found: CountedChunks,
    tally: RejectTally | None,
) -> str:
    from ddbload.pipeline.report_page.page import draw_page
    from ddbload.pipeline.report_page.run_facts import RunFacts

    facts = RunFacts(
        report=report,
        record=record,
        ledger=context.store.uri(""),
        deployed=ledger.find_execution() is not None,
        now=context.now(),
        control=ledger.find_control(),
        chunks=found.chunks or (),
        chains=found.chains,
        rejects=tally,
    )
    return draw_page(facts)


def _reconcile_and_check(
    record: RunRecord,
    ledger: Ledger,
    context: LedgerContext,
    found: CountedChunks,
    tally: RejectTally,
) -> Report:
    """Reconcile the ledger, then check the rejects and the table before calling it a success."""
    report = _add_up(record, ledger, found, context.now() - record.created)
    report = _check_rejects(report, ledger, found, tally.add)
    if report.status not in DONE or record.payload.options.mode == PLAN:
        return report
    try:
        require_same_table(
            context.clients,
            record.table,
            retry_policy=context.retry_policy,
        )
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
    found = CountedChunks.read(ledger)
    report = _add_up(ledger.record(), ledger, found, last.seconds)
    report = _check_rejects(report, ledger, found)
    report = with_last_report(report, last)
    return last if report.status in DONE and report.rows == last.rows else None


def _check_rejects(
    report: Report,
    ledger: Ledger,
    found: CountedChunks,
    watch: Callable[[bytes], object] = lambda _: None,
) -> Report:
    """Read all rejects, which compares their number with each segment's count.

    `watch` is called with each line.
    """
    if not report.rows.rejected:
        return report
    try:
        for line in found.rejects(ledger):
            watch(line)
    except LedgerDamaged as damaged:
        failure = report.error or Failure.of(damaged)
        return replace(report, status=FAILED, error=failure)
    return report


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
    return _add_up(record, ledger, CountedChunks.read(ledger), seconds)


def _add_up(record: RunRecord, ledger: Ledger, found: CountedChunks, seconds: float) -> Report:
    chunks, chains, segments = found.chunks, found.chains, found.segments
    rows, work = RowCounts(), WriteStats()
    planned = PlanTotals() if record.payload.options.mode == PLAN else None
    for segment in segments:
        rows, work = rows + segment.rows, work + segment.work
        if planned is not None and segment.planned is not None:
            planned += segment.planned
    work = replace(work, consumed_wcu=units_consumed(segments, ledger))
    done = [bool(chain) and chain[-1].proven for chain in chains]
    open_chunks = {chunk.chunk for chunk, ok in zip(chunks or (), done, strict=True) if not ok}
    failures = [each for each in ledger.failures() if each.chunk in open_chunks]
    error = _first_error(record, chunks, chains, rows, failures)
    size = read = record.data_start.byte + sum(each.bytes for each in segments)
    if record.size is not None or not chunks or not all(done):
        # What preflight has not read is known once it is imported.
        size = record.size or 0
    return Report(
        run=record.run,
        status=_status(error, rows),
        rows=rows,
        work=work,
        bytes=read,
        size=size,
        chunks=len(chunks or ()),
        chunks_done=sum(done),
        seconds=max(0.0, seconds),
        rejects=ledger.rejects_uri if rows.rejected else None,
        error=error,
        failures=tuple(failures),
        planned=planned,
        write_price=record.write_price,
        identical=_identical(segments),
        causes=_causes(segments),
    )


def _identical(segments: Sequence[Segment]) -> int | None:
    """Add up the skipped rows with identical items; None if a segment does not count them."""
    if any(each.identical is None and each.rows.skipped for each in segments):
        return None
    counts = [each.identical for each in segments if each.identical is not None]
    return sum(counts) if counts else None


def _causes(segments: Sequence[Segment]) -> dict[str, int] | None:
    """Add up the rejects by cause, the most frequent cause first; None if no segment counts them.

    Segments of earlier versions do not, so the sum may be less than the rejected rows.
    """
    counts: Counter[str] = Counter()
    for each in segments:
        counts.update(each.causes or {})
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))) or None


def _status(error: Failure | None, rows: RowCounts) -> str:
    if error is not None:
        return FAILED
    return SUCCEEDED_WITH_REJECTS if rows.rejected else SUCCEEDED


def _first_error(
    record: RunRecord,
    chunks: Sequence[Chunk] | None,
    chains: Sequence[Sequence[Segment]],
    rows: RowCounts,
    failures: Sequence[Failure],
) -> Failure | None:
    if failures:
        first = failures[0]
        more = f" (and {len(failures) - 1} more chunks failed)" if len(failures) > 1 else ""
        return Failure(first.name, first.message + more, first.chunk)
    if not rows.conserved or not all(s.rows.conserved for chain in chains for s in chain):
        return Failure(
            ConservationViolated.__name__,
            f"{rows.read} rows read are not {rows.written} written + {rows.rejected} rejected +"
            f" {rows.superseded} superseded + {rows.skipped} skipped: please report it",
        )
    incomplete = _incomplete(record, chunks, chains)
    if rows.all_rejected and not incomplete:
        return Failure(
            NothingWritten.__name__,
            NothingWritten.of(
                rows.read, f"ddbload rejects {record.run} --summary says why"
            ).message,
        )
    limit = record.payload.options.max_rejects
    if rows.rejected > limit:
        return Failure(
            TooManyRejects.__name__,
            f"{rows.rejected} rows were rejected, and max_rejects is {limit}: look at"
            f" them, then mend the file, or allow more and {TAKE_UP}",
        )
    if incomplete:
        return Failure(IncompleteRun.__name__, incomplete)
    return None


def _incomplete(
    record: RunRecord, chunks: Sequence[Chunk] | None, chains: Sequence[Sequence[Segment]]
) -> str | None:
    """Return what is missing from the proof that every byte was imported; None if complete."""
    again = f"; {TAKE_UP}"
    if chunks is None:
        return f"preflight did not finish{again}"
    position = record.data_start.byte
    for number, chunk in enumerate(chunks):
        if (chunk.chunk, chunk.start) != (number, position) or chunk.end <= chunk.start:
            return f"the manifest does not tile the source at byte {position}; start a new run"
        position = chunk.end
    if record.size is not None and position != record.size:
        return f"the manifest ends at byte {position} of {record.size}; start a new run"
    for chunk, chain in zip(chunks, chains, strict=True):
        reached = chain[-1].end.byte if chain else chunk.start
        if not chain or not chain[-1].proven or reached != chunk.end:
            return f"chunk {chunk.chunk} is imported to byte {reached} of {chunk.end}{again}"
    return None
