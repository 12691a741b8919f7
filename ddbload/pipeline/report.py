"""The last step: reconcile the ledger, and never report a false success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import (
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
    ConservationViolated,
    DdbloadError,
    IncompleteRun,
    InvalidPayload,
    LedgerDamaged,
    NothingWritten,
    RunNotFound,
    TooManyRejects,
)
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.table_description import require_same_table


def write_report(run: str, context: LedgerContext, *, interrupted: bool = False) -> Report:
    """Add up the run's segments, check them, and write `report.json`.

    It succeeded only when the chunks tile the source, each is imported to its proven end, the
    conservation law holds, every reject is there, there are no more than `max_rejects`, some row
    was not rejected, and the table is still the one that the run began with. What is wrong stands
    in `error`. Raises what keeps the ledger from being read, or the table from being described
    for now.
    `interrupted`: somebody stopped it, so open chunks are no failure.
    """
    ledger = context.ledger(run)
    record = ledger.record()
    found = _checked(record, ledger, context)
    if interrupted:
        found = _as_interrupted(found)
    ledger.put_report(found)
    return found


def report_execution(task: ReportTask, context: LedgerContext) -> ExecutionOutput:
    """The deployed run's last step: report, with what the state machine caught in mind.

    An execution in which something was caught has failed, whatever the ledger proves; but the
    report of a run that was done before is kept as it is.
    """
    run = task.asked_for()
    caught = task.error
    try:
        ledger = context.ledger(check_run_id(run))
        record = ledger.record()
    except (InvalidPayload, RunNotFound) as error:
        # It never began. What was caught says why; there is nothing to reconcile.
        failure = caught or Failure(error.name, error.message)
        return ExecutionOutput(run, FAILED, RowCounts(), 0, 0, None, failure)
    earlier = done_before(ledger)
    found = _checked(record, ledger, context) if earlier is None else earlier
    # Failed chunks say more than what the Map's own error does; but where Preflight failed, none
    # was tried, and they are an earlier execution's.
    if caught is not None and (found.status in DONE or _says_little(found) or not task.planned):
        found = replace(found, status=FAILED, error=caught)
    if earlier is None:
        ledger.put_report(found)
    return ExecutionOutput(
        run, found.status, found.rows, found.chunks, found.chunks_done, found.rejects, found.error
    )


def _says_little(found: Report) -> bool:
    """Whether the ledger knows only that something is missing, and not why."""
    return found.error is not None and found.error.name == IncompleteRun.__name__


def current_report(run: str, context: LedgerContext) -> Report:
    """What the ledger says of a run now, in the words of its last report. Writes nothing."""
    ledger = context.ledger(run)
    record = ledger.record()
    last = ledger.find_report()
    found = reconcile(record, ledger, context.now() - record.created if last is None else 0.0)
    found = _with_rejects_checked(found, ledger)
    if last is None:
        # Whoever works on it has not come to its end, or never will: nobody compared the table.
        found = _as_interrupted(found)
        return replace(found, status=INTERRUPTED) if found.status in DONE else found
    found = as_last_told(replace(found, seconds=last.seconds), last)
    return _as_interrupted(found) if last.status == INTERRUPTED else found


def as_last_told(found: Report, last: Report) -> Report:
    """Add to what the ledger says what only the last report knew, unless more was done since.

    For example why preflight failed, or that the table was replaced.
    """
    if (found.rows, found.chunks_done) != (last.rows, last.chunks_done):
        return found
    if last.error is not None:
        return replace(found, status=FAILED, error=last.error)
    if last.status == SUCCEEDED and _differs_in_word(found):
        # Earlier versions had one word for every run that came to its end.
        return replace(found, status=SUCCEEDED, error=None)
    return found


def _differs_in_word(found: Report) -> bool:
    """Tell whether an earlier version would have said SUCCEEDED."""
    if found.error is not None:
        return found.error.name == NothingWritten.__name__
    return found.status == SUCCEEDED_WITH_REJECTS


def _checked(record: RunRecord, ledger: Ledger, context: LedgerContext) -> Report:
    """Reconcile the ledger, then check the rejects and the table before calling it a success."""
    found = reconcile(record, ledger, context.now() - record.created)
    found = _with_rejects_checked(found, ledger)
    if found.status not in DONE or record.payload.options.mode == PLAN:
        return found
    try:
        require_same_table(
            context.clients,
            record.table,
            retry_policy=context.retry_policy,
        )
    except DdbloadError as error:
        if not error.permanent:
            raise
        return replace(found, status=FAILED, error=Failure(error.name, error.message))
    return found


def done_before(ledger: Ledger) -> Report | None:
    """The report of a run that is done, where the ledger still proves it. Writes nothing."""
    last = ledger.find_report()
    if last is None or last.status not in DONE:
        return None
    found = _with_rejects_checked(reconcile(ledger.record(), ledger, last.seconds), ledger)
    found = as_last_told(found, last)
    return last if found.status in DONE and found.rows == last.rows else None


def _with_rejects_checked(found: Report, ledger: Ledger) -> Report:
    if not found.rows.rejected:
        # A run of many chunks has many segments to be read once more.
        return found
    try:
        for _ in ledger.rejects(counted_segments(ledger)):
            # Each segment's are counted as they are read.
            pass
    except LedgerDamaged as damaged:
        failure = found.error or Failure(damaged.name, damaged.message)
        return replace(found, status=FAILED, error=failure)
    return found


def _as_interrupted(found: Report) -> Report:
    # Chunks that are open are to be expected then, and what they failed of in an earlier
    # attempt is no news. Whatever else is wrong stays a failure.
    opened = _says_little(found) or (found.error is not None and found.error.chunk is not None)
    return replace(found, status=INTERRUPTED, error=None, failures=()) if opened else found


def reconcile(record: RunRecord, ledger: Ledger, seconds: float) -> Report:
    """What the ledger says of a run, now. Writes nothing."""
    chunks = ledger.find_manifest()
    chains = chunk_segments(ledger, chunks or ())
    segments = [segment for chain in chains for segment in chain]
    rows, work = RowCounts(), WriteStats()
    planned = PlanTotals() if record.payload.options.mode == PLAN else None
    for segment in segments:
        rows, work = rows + segment.rows, work + segment.work
        if planned is not None and segment.planned is not None:
            planned += segment.planned
    done = [bool(chain) and chain[-1].proven for chain in chains]
    open_chunks = {chunk.chunk for chunk, ok in zip(chunks or (), done, strict=True) if not ok}
    failures = [each for each in ledger.failures() if each.chunk in open_chunks]
    error = _first_error(record, chunks, chains, rows, failures)
    return Report(
        run=record.run,
        status=_status(error, rows),
        rows=rows,
        work=work,
        bytes=record.data_start.byte + sum(s.end.byte - s.start.byte for s in segments),
        size=record.size or 0,
        chunks=len(chunks or ()),
        chunks_done=sum(done),
        seconds=max(0.0, seconds),
        rejects=ledger.rejects_uri if rows.rejected else None,
        error=error,
        failures=tuple(failures),
        planned=planned,
        identical=_identical(segments),
    )


def _identical(segments: Sequence[Segment]) -> int | None:
    """Skipped rows that found an identical item; None where segments do not say it of all."""
    if any(each.identical is None and each.rows.skipped for each in segments):
        return None
    told = [each.identical for each in segments if each.identical is not None]
    return sum(told) if told else None


def counted_segments(ledger: Ledger) -> list[Segment]:
    """The segments that count, in the order of the source."""
    chains = chunk_segments(ledger, ledger.find_manifest() or ())
    return [segment for chain in chains for segment in chain]


def chunk_segments(ledger: Ledger, chunks: Sequence[Chunk]) -> list[list[Segment]]:
    """For each chunk, its segments in order: those that count."""
    segments = {(each.chunk, each.start.byte): each for each in ledger.segments()}
    return [_linked_segments(chunk, segments) for chunk in chunks]


def _linked_segments(chunk: Chunk, segments: dict[tuple[int, int], Segment]) -> list[Segment]:
    """Chain a chunk's segments: each begins where the one before ends; others do not count.

    `segments`: by chunk and start byte.
    """
    chain: list[Segment] = []
    position = chunk.start
    while position < chunk.end:
        segment = segments.get((chunk.chunk, position))
        if segment is None or not position < segment.end.byte <= chunk.end:
            break
        chain.append(segment)
        position = segment.end.byte
    return chain


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
    """What is missing for a proof that every byte was imported."""
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
