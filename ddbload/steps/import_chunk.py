"""Import a chunk: one byte range, or as much of it as the deadline allows.

An invocation writes one segment to the ledger: the rows that have an outcome, counted.
"""

from __future__ import annotations

from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace

from ddbload.aws.table_description import require_same_table
from ddbload.context import Context
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.column_mapping import row_writes
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import ProgressSamples, WorkTotals
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.states import (
    CONSUMED_WRITE_UNITS,
    ROW_METRICS,
    STALLED_INVOCATIONS,
    THROTTLED_REQUESTS,
    ImportResult,
    ImportTask,
)
from ddbload.errors import (
    TAKE_UP,
    Cancelled,
    ConservationViolated,
    DdbloadError,
    InvalidPayload,
    NoProgress,
    TableNotActive,
    TableNotFound,
    TableReplaced,
    TooManyRejects,
)
from ddbload.ledger.ledger import Attempt, Ledger
from ddbload.reading.row_blocks import RunReader, rare_gc, read_chunk
from ddbload.run_worker import WorkerSession
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.steps.row_feeder import FEED_READ_BYTES, RowFeeder, write_segment
from ddbload.write.drivers import Driver, Job, concurrency_for, transport_for
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.requests import EndpointFeatures, WriteRequests
from ddbload.write.scheduler.answers import RowOutcome
from ddbload.write.scheduler.scheduler import Scheduler

TABLE_CHECK_ATTEMPTS = 3
"""Tries to describe the table. Without an answer the import continues: Report checks again."""
MAX_STALLED = 3
"""Invocations in a row that may end without an outcome for any row."""
PROGRESS_SECONDS = 0.1
"""Shortest time between two reports of progress."""
_SENT_NOTHING = (
    "nothing was sent, because reading and encoding rows took all of the time{}; give the function"
    " more memory or time, or this machine less else to do, or write rows of fewer columns"
)


def import_chunk(
    task: ImportTask, context: Context, reader: RunReader | None = None
) -> ImportResult:
    """Import a chunk from its cursor on, and write the segment that counts its rows.

    An existing segment is adopted. `reader` may be passed by a caller that imports many chunks of
    one run. After an error the rows before it are finished, their segment and the failure are
    written to the ledger, and the error is raised. That a run was cancelled is no failure of a
    chunk, and is not written. A task with an `error` is not imported: its error is written to the
    ledger for a function that was killed, or never started.
    """
    ledger = context.ledger(task.run, None if reader is None else reader.record)
    chunk = task.chunk
    if task.error is not None:
        failure = replace(task.error, chunk=chunk.chunk, at=context.now())
        if failure.name != Cancelled.__name__:
            ledger.put_failure(failure)
        return ImportResult(task.run, chunk, task.cursor, task.stalled, None, error=failure)
    start = task.cursor or Cursor(chunk.start, chunk.first_line)
    if not chunk.start <= start.byte < chunk.end:
        raise InvalidPayload(f"the cursor, byte {start.byte}, lies outside chunk {chunk.chunk}")
    record = ledger.record() if reader is None else reader.record
    # A caller with a reader has the chunks from the ledger.
    if reader is None and not context.manifests.has_chunk(ledger, record, chunk):
        raise InvalidPayload(
            f"chunk {chunk.chunk}, byte {chunk.start} to {chunk.end}, is not one of run"
            f" {task.run}: its manifest.json has the chunks"
        )
    try:
        reader = reader or RunReader(record, context.transform)
        context = context.confined(record.payload.source)
        _require_row_start(start, chunk, ledger)
        segment = ledger.find_segment(chunk.chunk, start.byte)
        if segment is not None:
            return _result(task, segment, adopted=True)
        control = context.control
        alone = context.is_whole_run
        with (
            nullcontext()
            if control is None
            else control.importing(ledger, record, alone=alone) as session
        ):
            return _import(task, start, reader, ledger, context, session)
    except Cancelled:
        raise
    except DdbloadError as error:
        with suppress(DdbloadError):
            # The error is raised even if the ledger cannot be written.
            ledger.put_failure(Failure.of(error, chunk=chunk.chunk, at=context.now()))
        raise


def _import(
    task: ImportTask,
    start: Cursor,
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    session: WorkerSession | None,
) -> ImportResult:
    """Import the rows from the cursor on, until the deadline, a stop, or the chunk's end."""
    if session is not None:
        worker, must_stop, clock = session, context.should_stop, context.clock
        context = replace(
            context, should_stop=lambda: worker.stop_requested(clock()) or must_stop()
        )
    work = None
    if not reader.record.mode.writes:
        # Imported here: an import does not need it.
        from ddbload.steps.plan_mode import plan_chunk

        segment = plan_chunk(task.chunk, start, reader, ledger, context, session)
    else:
        work = _ChunkImport(task.chunk, start, reader, ledger, context, session)
        segment = work.run()
    if session is not None and (segment is None or not segment.proven):
        session.raise_pending()
    if segment is None:
        context.measure({STALLED_INVOCATIONS: 1})
        return _stalled_result(task, start, context, work)
    rows, wrote = segment.rows, segment.work
    context.measure(
        {
            **dict(zip(ROW_METRICS, (rows.read, *rows.outcomes.values()), strict=True)),
            THROTTLED_REQUESTS: wrote.throttled,
            CONSUMED_WRITE_UNITS: wrote.consumed_wcu,
        }
    )
    return _result(task, segment)


def _require_row_start(start: Cursor, chunk: Chunk, ledger: Ledger) -> None:
    """Raise `InvalidPayload` for a cursor at which no segment of the chunk ends.

    Rows begin there, and at the chunk's start. Any other byte may lie within a row.
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


def _stalled_result(
    task: ImportTask, start: Cursor, context: Context, work: _ChunkImport | None
) -> ImportResult:
    """Return the same cursor; raise `NoProgress` after too many invocations without an outcome."""
    waited, cause = (False, _SENT_NOTHING.format("")) if work is None else work.stall
    # Waiting for the WCU budget does not count as a stall: one row may take minutes of it.
    stalled = task.stalled + (not (context.should_stop() or waited))
    if stalled >= MAX_STALLED:
        where = f"byte {start.byte}"
        if task.chunk.first_line:
            where = f"line {start.line}, {where}"
        raise NoProgress(
            f"chunk {task.chunk.chunk} settled no row in {stalled} invocations ({where}):"
            f" {cause}, then {TAKE_UP}"
        )
    return ImportResult(task.run, task.chunk, start, stalled, None)


def worker_pacing(record: RunRecord, context: Context) -> Pacing:
    """Make the pacing of one worker, with its share of the capacity, for all chunks it imports."""
    limit, budget = record.payload.options.max_wcu, None
    if context.control is not None:
        budget = context.control.session(context.ledger(record.run, record), record).budget
    share = None if limit is None else limit / record.workers
    known = None if record.capacity is None else record.capacity / record.workers
    return Pacing(context.rng, share, context.clock(), budget=budget, capacity=known)


@dataclass(eq=False)
class _ChunkImport:
    """Work of one invocation on a chunk."""

    chunk: Chunk
    start: Cursor
    reader: RunReader
    ledger: Ledger
    context: Context
    session: WorkerSession | None

    def __post_init__(self) -> None:
        context, session, reader = self.context, self.session, self.reader
        self._record = record = reader.record
        self._report_at = float("-inf")
        self._samples = ProgressSamples(
            context.worker if session is None else session.worker, context.now(), context.clock()
        )
        options = record.payload.options
        # Only conditions need attempts.
        self._attempt = None
        if record.keeps_attempts:
            self._attempt = Attempt(self.ledger, self.chunk, self.start)
        identical = RowOutcome.WRITTEN if self._attempt is None else RowOutcome.IDENTICAL
        writes = row_writes(record.payload, record.table)
        merging = writes if writes is not None and writes.merges else None
        self._feeder = RowFeeder(
            *(reader, self.chunk, self.start),
            clock=context.clock,
            attempt=self._attempt,
            writes=merging,
        )
        endpoint = context.endpoint or EndpointFeatures()
        self._requests = WriteRequests(
            options,
            record.table,
            writes,
            endpoint=endpoint,
            identical=identical,
            same_types=record.payload.source.kind.has_columns,
        )
        self._trail = SeekTrail()
        self._scheduler = Scheduler(
            concurrency=concurrency_for(options),
            deadline=context.deadline,
            rng=context.rng,
            now=context.clock(),
            pacing=context.pacing or worker_pacing(record, context),
            batch_rows=self._requests.most_rows if reader.encoder.batches else 1,
            order=self._requests.order,
            merger=None if merging is None else self._feeder.pending,
            unanswered=endpoint.unanswered,
            is_proven=lambda: options.condition is None or endpoint.proven_condition,
            on_release=self._feeder.release,
        )

    @property
    def stall(self) -> tuple[bool, str]:
        """True if the rate or the WCU budget allowed no request; and the probable cause of a stall.

        The cause says what to do.
        """
        scheduler = self._scheduler
        if not scheduler.stats.requests:
            read = f" ({self._feeder.bytes_read:,} bytes of whole rows were read)"
            return scheduler.waited_for_capacity, _SENT_NOTHING.format(read)
        # Never the answer's message: that may quote row data.
        last = f" (the last answer: {scheduler.last_error})" if scheduler.last_error else ""
        return False, (
            f"the table takes no writes, or its answers get lost{last}; check its capacity and the"
            " endpoint"
        )

    def run(self) -> Segment | None:
        """Write rows until the deadline or the chunk's end; their segment, None without outcomes.

        Raises the error that ended the work early, after the segment is written.
        """
        try:
            self._require_same_table()
            self._write_rows()
            self._report_progress()
            segment = self._make_segment()
            if segment.work.requests:
                self._require_same_table()
            counted = None
            if segment.end.byte > self.start.byte:
                rejects = self._feeder.rejects(segment.rows.read - segment.rows.filtered)
                own = self._count_own_items(segment)
                counted = write_segment(own, rejects, self._trail, self.ledger, self.session)
            self._trim_attempt(segment, counted)
            self._raise_pending_error()
            return counted
        finally:
            self._feeder.attach(iter(()), None)

    def _require_same_table(self) -> None:
        """Raise an error if the table was replaced: checked before and after all requests.

        Other errors of its description are ignored: Report checks again.
        """
        context = self.context
        if context.is_whole_run:
            return
        policy = replace(context.retry_policy, attempts=TABLE_CHECK_ATTEMPTS)
        try:
            require_same_table(context.clients, self._record.table, retry_policy=policy)
        except (TableReplaced, TableNotFound, TableNotActive):
            raise
        except DdbloadError:
            pass

    def _write_rows(self) -> None:
        """Run a driver: it gets rows from the feeder, and asks the scheduler which to send when."""
        context, feeder = self.context, self._feeder
        options = self._record.payload.options
        blocks = read_chunk(
            *(self.reader, self.chunk, self.start, self.ledger, context, FEED_READ_BYTES),
            trail=self._trail,
        )
        with closing(blocks), rare_gc():
            feeder.attach(blocks, self._scheduler)
            job = Job(
                scheduler=self._scheduler,
                feed=feeder.feed,
                items=feeder.pending.items,
                body=feeder.pending.body,
                transport=transport_for(options, context.clients, self._requests),
                should_stop=self._report_progress_and_check_stop,
                clock=context.clock,
                sleep=context.sleep,
            )
            if context.driver is not None:
                context.driver.run(job)
                return
            with closing(Driver(concurrency_for(options))) as driver:
                driver.run(job)

    def _report_progress_and_check_stop(self) -> bool:
        # Called thousands of times a second.
        now = self.context.clock()
        if now >= self._report_at:
            self._report_at = now + PROGRESS_SECONDS
            self._report_progress()
        return self.context.should_stop()

    def _report_progress(self) -> None:
        counts, work = self._feeder.counts(self._scheduler), self._scheduler.stats
        # Rows beyond the frontier, too: their write units are consumed now.
        answered = self._scheduler.outcomes.answered + self._feeder.pending.filtered
        self._samples.add(self.context.clock(), answered, work.consumed_wcu, work.throttled)
        settled, block_start = self._feeder.settled_bytes(self._scheduler.outcomes.frontier)
        self._trail.discard_before(block_start)
        totals = WorkTotals(counts, work, settled)
        self.context.progress((self.chunk.chunk, totals))
        if self.session is not None:
            self.session.progress(self.chunk.chunk, self.start.byte, totals)

    def _make_segment(self) -> Segment:
        """Count the rows before the first one without an outcome."""
        outcomes = self._scheduler.outcomes
        end = self._feeder.cursor(outcomes.frontier)
        all_rows = self._feeder.exhausted and not outcomes.ahead
        segment = Segment(
            chunk=self.chunk.chunk,
            start=self.start,
            end=end,
            proven=all_rows and end.byte == self.chunk.end,
            rows=self._feeder.counts(self._scheduler),
            work=self._scheduler.stats,
            rejects=None,
            times=self._samples.times(self.context.clock()),
            padding=self._feeder.padding_before(end.byte) or None,
            # Rows whose key came before count only where the last request to arrive wins.
            repeated=self._scheduler.repeated if self._record.mode.last_request_wins else 0,
        )
        if not segment.rows.conserved:
            raise ConservationViolated(
                f"chunk {segment.chunk} from byte {segment.start.byte}: {segment.rows} does not"
                " add up: please report it"
            )
        return segment

    def _count_own_items(self, segment: Segment) -> Segment:
        """Count identical items as written where another invocation may have written them.

        They are uncertain, and so are those that a request without an answer may have written.
        """
        if self._attempt is None:
            return segment
        outcomes, own = self._scheduler.outcomes, 0
        identical, unseen = map(outcomes.count, (RowOutcome.IDENTICAL, RowOutcome.UNSEEN))
        if identical or unseen:
            own = self._feeder.identical_within(self._attempt.others(segment.end.byte))
        rows = segment.rows
        rows = replace(rows, written=rows.written + own, skipped=rows.skipped - own)
        uncertain = own + outcomes.count(RowOutcome.UNCERTAIN)
        segment = replace(segment, rows=rows, uncertain=uncertain)
        if unseen or self._record.payload.options.condition is not None:
            # An emulator does not return the item, so it may or may not be identical. Rows that
            # a user's condition skips have other reasons.
            return segment
        return replace(segment, identical=identical - own)

    def _trim_attempt(self, segment: Segment, counted: Segment | None) -> None:
        """Record in the ledger which rows this invocation put beyond the segment that counts.

        If another invocation's segment counts and ends elsewhere, the record stays as it is: it
        covers more rows than were put, which is safe. After the chunk's last segment no
        invocation reads the record.
        """
        if self._attempt is None:
            return
        if counted is not None and (counted.proven or counted.end != segment.end):
            return
        last, end = self._scheduler.last_possible_write(), segment.end.byte
        self._attempt.trim(end, end if last is None else self._feeder.pending.byte(last) + 1)

    def _raise_pending_error(self) -> None:
        limit = self._record.payload.options.reject_limit
        if self._scheduler.fatal is not None:
            raise self._scheduler.fatal
        error = self._feeder.error
        # A request that was given up at the deadline is repeated by the next invocation.
        if error is not None and (error.permanent or not self.context.must_end()):
            raise error
        if self._feeder.has_too_many_rejects:
            rejected, read = self._feeder.rejected, self._feeder.pending.rows
            of_rows = "" if limit.percent is None else f", {rejected:,} of the {read:,} rows read"
            raise TooManyRejects(
                f"chunk {self.chunk.chunk} has more rejects than max_rejects allows ({limit}"
                f"{of_rows}): look at them, then mend the file, or allow more and {TAKE_UP}"
            )
