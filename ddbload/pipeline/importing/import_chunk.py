"""The second step: import one byte range, or as much of it as the deadline allows."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Failure, RowCounts, Segment
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.dynamodb.write_modes import PLAN
from ddbload.errors import (
    TAKE_UP,
    ConservationViolated,
    DdbloadError,
    InvalidPayload,
    NoProgress,
    TableNotActive,
    TableNotFound,
    TableReplaced,
    TooManyRejects,
)
from ddbload.ledger.attempts import Attempt
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import ChunkProgress, Context
from ddbload.pipeline.importing.row_feeder import RowFeeder
from ddbload.pipeline.reading.gc_tuning import rare_gc
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.source_objects import chunk_parts, open_parts
from ddbload.pipeline.table_description import require_same_table
from ddbload.write.drivers.driver import Job
from ddbload.write.drivers.engines import concurrency_for, driver_for, transport_for
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.requests import first_wins, requests_for
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.scheduler.scheduler import Scheduler

ATTEMPTS = 3
"""At asking for the table's id: then Report asks."""
MAX_STALLED = 3
PROGRESS_SECONDS = 0.1
"""How often it is told at most how far an import is."""


def import_chunk(
    task: ImportTask, context: Context, reading: RunReader | None = None
) -> ImportResult:
    """Import from the cursor on, and write the segment that says so.

    A segment that exists already is adopted, not redone. `reading` may be handed in by a
    caller that imports many chunks of one run. On an error the rows before it are settled and
    their segment is written, word of it is left in the ledger, and it is raised by name. With an
    `error` in the task nothing is imported: the ledger gets word of what a step that was killed,
    or never began, could not say itself.
    """
    ledger = context.ledger(task.run, None if reading is None else reading.record)
    chunk = task.chunk
    if task.error is not None:
        failure = replace(task.error, chunk=chunk.chunk)
        ledger.put_failure(failure)
        return ImportResult(task.run, chunk, task.cursor, task.stalled, None, error=failure)
    start = task.cursor or Cursor(chunk.start, chunk.first_line)
    if not chunk.start <= start.byte < chunk.end:
        raise InvalidPayload(f"the cursor, byte {start.byte}, lies outside chunk {chunk.chunk}")
    try:
        reading = reading or RunReader(ledger.record())
        _require_row_start(start, chunk, ledger)
        segment = ledger.find_segment(chunk.chunk, start.byte)
        if segment is not None:
            return _result(task, segment, adopted=True)
        if reading.record.payload.options.mode == PLAN:
            segment, work = _planned(chunk, start, reading, ledger, context), None
        else:
            work = _ChunkImport(task, start, reading, ledger, context)
            segment = work.run()
        if segment is None:
            return _stalled(task, start, context, work)
        return _result(task, segment)
    except DdbloadError as error:
        with suppress(DdbloadError):
            # What failed is to be raised, also when word of it cannot be left.
            ledger.put_failure(Failure(error.name, error.message, chunk.chunk))
        raise


def _require_row_start(start: Cursor, chunk: Chunk, ledger: Ledger) -> None:
    """Raise `InvalidPayload` for a cursor that is not where a segment of the chunk ends.

    Rows begin there, and at the chunk's own start. Anywhere else may be the middle of a row, whose
    rest would be taken for one.
    """
    if start == Cursor(chunk.start, chunk.first_line):
        return
    before = ledger.segment_before(chunk.chunk, start.byte)
    if before is None or before.end != start:
        raise InvalidPayload(
            f"the cursor, byte {start.byte}, line {start.line}, is not where an earlier invocation"
            f" of chunk {chunk.chunk} stopped: no row may begin there"
        )


def _result(task: ImportTask, segment: Segment, *, adopted: bool = False) -> ImportResult:
    cursor = None if segment.proven else segment.end
    return ImportResult(task.run, task.chunk, cursor, 0, segment, adopted)


def _planned(
    chunk: Chunk, start: Cursor, reading: RunReader, ledger: Ledger, context: Context
) -> Segment | None:
    # An import has no use for what this needs.
    from ddbload.pipeline.importing.plan_mode import plan_chunk

    return plan_chunk(chunk, start, reading, ledger, context)


def _stalled(
    task: ImportTask, start: Cursor, context: Context, work: _ChunkImport | None
) -> ImportResult:
    # Who waited for a budget and sent nothing has not tried: a row may take minutes of it.
    waited = work is not None and work.only_waited
    tried = not (context.should_stop() or waited)
    stalled = task.stalled + tried
    if stalled >= MAX_STALLED:
        where = f"line {start.line}, byte {start.byte}"
        raise NoProgress(
            f"chunk {task.chunk.chunk} settled no row in {stalled} invocations ({where}):"
            f" {_cause_of_stall(work)}, then {TAKE_UP}"
        )
    return ImportResult(task.run, task.chunk, start, stalled, None)


def _cause_of_stall(work: _ChunkImport | None) -> str:
    if work is not None and work.sent:
        last = f" (the last answer: {work.trouble})" if work.trouble else ""
        return (
            f"the table takes no writes, or its answers get lost{last}; check its capacity and the"
            " endpoint"
        )
    read = "" if work is None else f" ({work.bytes_read:,} bytes of whole rows were read)"
    return (
        f"nothing was sent, because reading and encoding rows took all of the time{read}; give the"
        " function more memory or time, or this machine less else to do, or write rows of fewer"
        " columns"
    )


def worker_pacing(record: RunRecord, context: Context) -> Pacing:
    """One worker's share of `max_wcu`, to be kept for all chunks that it imports."""
    limit = record.payload.options.max_wcu
    share = None if limit is None else limit / record.workers
    return Pacing(context.rng, share, context.clock())


class _ChunkImport:
    """One invocation's work on a chunk."""

    def __init__(
        self, task: ImportTask, start: Cursor, reading: RunReader, ledger: Ledger, context: Context
    ) -> None:
        self._task = task
        self._start = start
        self._reading = reading
        self._record: RunRecord = reading.record
        self._ledger = ledger
        self._context = context
        options = self._record.payload.options
        self._tell_at = float("-inf")
        # Only `insert` looks; where an earlier version began it, nobody knows what was sent.
        attempt = Attempt(ledger, task.chunk, start) if self._record.keeps_attempts else None
        self._attempt = attempt
        identical = RowOutcome.WRITTEN if attempt is None else RowOutcome.IDENTICAL
        self._requests = requests_for(options, self._record.table, identical)
        self._parts = chunk_parts(self._record, task.chunk, start, ledger)
        self._intake = RowFeeder(
            reading,
            task.chunk,
            start,
            options.max_rejects,
            clock=context.clock,
            attempt=attempt,
        )
        self._scheduler = Scheduler(
            concurrency=concurrency_for(options),
            deadline=context.deadline,
            rng=context.rng,
            pacing=context.pacing or worker_pacing(self._record, context),
            batch_rows=self._requests.most_rows,
            first_wins=first_wins(options),
            on_release=self._intake.release,
        )

    @property
    def only_waited(self) -> bool:
        """Whether no request went, because the rate or the budget had none to give."""
        return self._scheduler.waited_for_capacity and not self.sent

    @property
    def sent(self) -> int:
        """How many requests went."""
        return self._scheduler.stats.requests

    @property
    def bytes_read(self) -> int:
        """How much was read of whole rows."""
        return self._intake.bytes_read

    @property
    def trouble(self) -> str | None:
        """Why a request was last not answered well: a code."""
        return self._scheduler.last_error

    def run(self) -> Segment | None:
        """The segment, or None when no row was settled. Raises what ended the work early."""
        try:
            return self._run()
        finally:
            self._intake.detach()

    def _run(self) -> Segment | None:
        context, intake = self._context, self._intake
        self._require_same_table()
        parts = open_parts(self._parts, self._record, context)
        with closing(parts), rare_gc():
            intake.attach(parts, self._scheduler)
            self._drive()
        self._report_progress()
        segment = self._segment()
        if not segment.rows.conserved:
            raise ConservationViolated(
                f"chunk {segment.chunk} from byte {segment.start.byte}: {segment.rows} does not"
                " add up: please report it"
            )
        if segment.work.requests:
            self._require_same_table()
        done = segment.end.byte > self._start.byte
        written = self._write(self._judged(segment)) if done else None
        self._trim(segment, written)
        self._raise_pending_error()
        return written

    def _require_same_table(self) -> None:
        """Before the first request and after the last: no row goes to another table, nor counts.

        What only keeps DynamoDB from being asked now is no reason to stop: Report asks again.
        """
        context = self._context
        try:
            require_same_table(
                context.clients,
                self._record.table,
                retry_policy=replace(context.retry_policy, attempts=ATTEMPTS),
            )
        except (TableReplaced, TableNotFound, TableNotActive):
            raise
        except DdbloadError:
            pass

    def _drive(self) -> None:
        context = self._context
        options = self._record.payload.options
        job: Job[Any] = Job(
            scheduler=self._scheduler,
            feed=self._intake.feed,
            items=self._intake.items,
            body=self._intake.body,
            transport=transport_for(options, context.clients, self._requests),
            should_stop=self._report_progress_and_check_stop,
            clock=context.clock,
            sleep=context.sleep,
        )
        if context.driver is not None:
            context.driver.run(job)
            return
        with closing(driver_for(options)) as driver:
            driver.run(job)

    def _report_progress_and_check_stop(self) -> bool:
        # Asked thousands of times a second.
        now = self._context.clock()
        if now >= self._tell_at:
            self._tell_at = now + PROGRESS_SECONDS
            self._report_progress()
        return self._context.should_stop()

    def _report_progress(self) -> None:
        counts: RowCounts = self._scheduler.outcomes.counts
        self._context.progress(
            ChunkProgress(
                self._task.chunk.chunk, counts, self._scheduler.stats, self._intake.bytes_read
            )
        )

    def _segment(self) -> Segment:
        settlement = self._scheduler.outcomes
        end = self._intake.cursor(settlement.frontier)
        everything = self._intake.exhausted and not settlement.ahead
        return Segment(
            chunk=self._task.chunk.chunk,
            start=self._start,
            end=end,
            proven=everything and end.byte == self._task.chunk.end,
            rows=settlement.counts,
            work=self._scheduler.stats,
            rejects=None,
        )

    def _judged(self, segment: Segment) -> Segment:
        """Count identical items as written where another invocation may have put them."""
        if self._attempt is None:
            return segment
        settlement, own = self._scheduler.outcomes, 0
        identical = settlement.count(RowOutcome.IDENTICAL)
        if identical:
            own = self._intake.identical_within(self._attempt.others(segment.end.byte))
        rows = segment.rows
        rows = replace(rows, written=rows.written + own, skipped=rows.skipped - own)
        if settlement.count(RowOutcome.UNSEEN):
            # An emulator's: how many are identical is not known.
            return replace(segment, rows=rows)
        return replace(segment, rows=rows, identical=identical - own)

    def _trim(self, segment: Segment, counted: Segment | None) -> None:
        """Record in the ledger which rows this invocation put beyond the segment that counts.

        `segment` is its own. If another invocation's segment counts and ends elsewhere, the record
        stays as it is: it covers more rows than were put, which is safe. After the chunk's last
        segment no invocation reads the record.
        """
        if self._attempt is None:
            return
        if counted is not None and (counted.proven or counted.end != segment.end):
            return
        last, end = self._scheduler.last_possible_write(), segment.end.byte
        self._attempt.trim(end, end if last is None else self._intake.byte(last) + 1)

    def _write(self, segment: Segment) -> Segment:
        lines = self._intake.rejects(segment.rows.read)
        if lines:
            name = self._ledger.put_rejects(
                segment.chunk, segment.start.byte, segment.end.byte, lines
            )
            segment = replace(segment, rejects=name)
        return self._ledger.put_segment(segment)

    def _raise_pending_error(self) -> None:
        limit = self._record.payload.options.max_rejects
        if self._scheduler.fatal is not None:
            raise self._scheduler.fatal
        error = self._intake.error
        # What was given up for want of time, the next invocation tries again.
        if error is not None and (error.permanent or not self._context.must_end()):
            raise error
        if self._intake.rejected > limit:
            raise TooManyRejects(
                f"chunk {self._task.chunk.chunk} has more than {limit} rejects (max_rejects):"
                f" look at them, then mend the file, or allow more and {TAKE_UP}"
            )
