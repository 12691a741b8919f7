"""Import chunks side by side: byte ranges, or as much of them as the deadline allows.

An invocation writes one segment to the ledger for each chunk: the rows that have an outcome,
counted. The chunks lie far apart, so that the rows that are sent together load several partitions,
even where a file is sorted. One scheduler has the rows of all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace

from ddbload.aws.table_description import require_same_table
from ddbload.context import Context
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.column_mapping import row_writes
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import ProgressSamples, RowCounts, WorkTotals, WriteStats
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
from ddbload.parallel import each_in_threads
from ddbload.reading.row_blocks import RunReader, rare_gc, read_chunk
from ddbload.run_worker import WorkerSession
from ddbload.steps.places import Place
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
    """Import chunks from where their segments end, and write segments that count their rows.

    `reader` may be passed by a caller that imports many chunks. After an error the rows before it
    are finished, their segments and the failure are written, and the error is raised; that of one
    chunk once no other is left. A cancelled run is no failure of a chunk. Of a task with an `error`
    only that is written, for a function that was killed, or never started.
    """
    ledger = context.ledger(task.run, None if reader is None else reader.record)
    chunks = task.chunks
    if task.error is not None:
        return _record_error(task, task.error, ledger, context)
    record = ledger.record() if reader is None else reader.record
    for chunk in chunks:
        # A caller with a reader has the chunks from the ledger.
        if reader is None and not context.manifests.has_chunk(ledger, record, chunk):
            raise InvalidPayload(
                f"chunk {chunk.chunk}, byte {chunk.start} to {chunk.end}, is not one of run"
                f" {task.run}: its manifest.json has the chunks"
            )
    try:
        reader = reader or RunReader(record, context.transform)
        context = context.confined(record.payload.source)
        starts = _starts(chunks, ledger)
        chunks = tuple(starts)
        if not chunks:
            return ImportResult(task.run, (), 0, ())
        control, alone = context.control, context.is_whole_run
        with (
            nullcontext()
            if control is None
            else control.importing(ledger, record, alone=alone) as session
        ):
            return _import(replace(task, chunks=chunks), starts, reader, ledger, context, session)
    except Cancelled:
        raise
    except DdbloadError as error:
        failed = [each.chunk for each in chunks] if error.chunk is None else [error.chunk]
        failures = [Failure.of(error, chunk=chunk, at=context.now()) for chunk in failed]
        with suppress(DdbloadError):
            # The error is raised even if the ledger cannot be written.
            each_in_threads(ledger.put_failure, failures)
        raise


def _starts(chunks: Sequence[Chunk], ledger: Ledger) -> dict[Chunk, Cursor]:
    """Read where the chunks that are not imported completely are to be continued."""
    known = ledger.page("chunks") if len(chunks) > 1 else None
    last = each_in_threads(lambda chunk: ledger.last_segment(chunk, known), chunks)
    return {
        chunk: Cursor(chunk.start, chunk.first_line) if segment is None else segment.end
        for chunk, segment in zip(chunks, last, strict=True)
        if segment is None or not segment.proven
    }


def _record_error(
    task: ImportTask, error: Failure, ledger: Ledger, context: Context
) -> ImportResult:
    """Write the failure of the chunks that are not imported completely."""
    if error.name != Cancelled.__name__:
        left = _starts(task.chunks, ledger)
        failures = [replace(error, chunk=each.chunk, at=context.now()) for each in left]
        each_in_threads(ledger.put_failure, failures)
    shown = replace(error, chunk=task.chunks[0].chunk, at=context.now())
    return ImportResult(task.run, task.chunks, task.stalled, (), error=shown)


def _import(
    task: ImportTask,
    starts: Mapping[Chunk, Cursor],
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    session: WorkerSession | None,
) -> ImportResult:
    """Import rows from the cursors on, until the deadline, a stop, or the end of all chunks."""
    if session is not None:
        worker, must_stop, clock = session, context.should_stop, context.clock
        context = replace(
            context, should_stop=lambda: worker.stop_requested(clock()) or must_stop()
        )
    work = None
    errors: list[DdbloadError] = []
    if not reader.record.mode.writes:
        # Imported here: an import does not need it.
        from ddbload.steps.plan_mode import plan_chunks

        segments = plan_chunks(starts, errors, reader, ledger, context, session)
    else:
        work = _GroupImport(starts, errors, reader, ledger, context, session)
        segments = work.run()
    ended = {each.chunk for each in segments if each.proven} | {each.chunk for each in errors}
    left = tuple(chunk for chunk in task.chunks if chunk.chunk not in ended)
    failures = _finish_failed(errors, left, ledger, context)
    if session is not None and left:
        session.raise_pending()
    if not segments and not errors:
        context.measure({STALLED_INVOCATIONS: 1})
        return _stalled_result(task, starts[task.chunks[0]], context, work)
    rows = sum((each.rows for each in segments), RowCounts())
    wrote = sum((each.work for each in segments), WriteStats())
    context.measure(
        {
            **dict(zip(ROW_METRICS, (rows.read, *rows.outcomes.values()), strict=True)),
            THROTTLED_REQUESTS: wrote.throttled,
            CONSUMED_WRITE_UNITS: wrote.consumed_wcu,
        }
    )
    return ImportResult(task.run, left, 0, tuple(segments), failures)


def _finish_failed(
    errors: Sequence[DdbloadError], left: Sequence[Chunk], ledger: Ledger, context: Context
) -> tuple[Failure, ...]:
    """Write the failures of chunks; raise an error if it is not of one chunk, or none is left."""
    general = [error for error in errors if not (error.permanent and error.chunk_local)]
    raised = next(iter(general or ([] if left else errors)), None)
    others = [error for error in errors if error is not raised]
    failures = [Failure.of(error, chunk=error.chunk, at=context.now()) for error in others]
    each_in_threads(ledger.put_failure, failures)
    if raised is not None:
        raise raised
    return tuple(failures)


def _stalled_result(
    task: ImportTask, start: Cursor, context: Context, work: _GroupImport | None
) -> ImportResult:
    """Return the same chunks; raise `NoProgress` after too many invocations without an outcome."""
    waited, cause = (False, _SENT_NOTHING.format("")) if work is None else work.stall
    # Waiting for the WCU budget does not count as a stall: one row may take minutes of it.
    stalled = task.stalled + (not (context.should_stop() or waited))
    if stalled >= MAX_STALLED:
        chunk, *others = task.chunks
        where = f"byte {start.byte}"
        if chunk.first_line:
            where = f"line {start.line}, {where}"
        beside = f" and {len(others)} beside it" if others else ""
        raise NoProgress(
            f"chunk {chunk.chunk}{beside} settled no row in {stalled} invocations ({where}):"
            f" {cause}, then {TAKE_UP}"
        )
    return ImportResult(task.run, task.chunks, stalled, ())


def worker_pacing(record: RunRecord, context: Context) -> Pacing:
    """Make the pacing of one worker, with its share of the capacity, for all chunks it imports."""
    limit, budget = record.payload.options.max_wcu, None
    if context.control is not None:
        budget = context.control.session(context.ledger(record.run, record), record).budget
    share = None if limit is None else limit / record.workers
    known = None if record.capacity is None else record.capacity / record.workers
    return Pacing(context.rng, share, context.clock(), budget=budget, capacity=known)


@dataclass(eq=False)
class _GroupImport:
    """Work of one invocation on its chunks."""

    starts: Mapping[Chunk, Cursor]
    errors: list[DdbloadError]
    """Errors that ended chunks, added at the end."""
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
        # Positions decide between rows of one key, whatever their order.
        has_own_keys = len(self.starts) > 1 and record.mode.keeps_position
        self._places = [
            Place(
                *(reader, chunk, start, number),
                # Only conditions need attempts.
                Attempt(self.ledger, chunk, start) if record.keeps_attempts else None,
                has_own_keys=has_own_keys,
            )
            for number, (chunk, start) in enumerate(self.starts.items())
        ]
        identical = RowOutcome.IDENTICAL if record.keeps_attempts else RowOutcome.WRITTEN
        writes = row_writes(record.payload, record.table)
        merging = writes if writes is not None and writes.merges else None
        self._feeder = RowFeeder(
            record, reader.encoder, self._places, clock=context.clock, writes=merging
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

    def run(self) -> list[Segment]:
        """Write rows until the deadline or the end of all chunks; return the segments that count.

        Raises the error that ended all of the work early, after the segments are written.
        """
        try:
            self._require_same_table()
            self._write_rows()
            self._report_progress()
            segments = self._make_segments()
            if self._scheduler.stats.requests:
                self._require_same_table()
            counted = self._write_segments(segments)
            self._raise_pending_error({each.chunk for each in counted if each.proven})
            return counted
        finally:
            self._feeder.attach(None)

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
        with ExitStack() as opened, rare_gc():
            for place in self._places:
                blocks = read_chunk(
                    *(self.reader, place.chunk, place.start, self.ledger, context),
                    *(FEED_READ_BYTES, place.trail),
                )
                place.blocks = opened.enter_context(closing(blocks))
            feeder.attach(self._scheduler)
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
        now = self.context.clock()
        if now >= self._report_at:
            self._report_at = now + PROGRESS_SECONDS
            self._report_progress()
        return self.context.should_stop()

    def _report_progress(self) -> None:
        outcomes, work = self._scheduler.outcomes, self._scheduler.stats
        settled = filtered = answered = 0
        unsettled = self._feeder.unsettled(outcomes.frontier)
        for place, first in zip(self._places, unsettled, strict=True):
            bytes_settled, block_start = place.settled_bytes(first)
            place.trail.discard_before(block_start)
            settled += bytes_settled
            filtered += place.filtered_before(first)
            answered += place.filtered
        # Rows beyond the frontier, too: their write units are consumed now.
        answered += outcomes.answered
        self._samples.add(self.context.clock(), answered, work.consumed_wcu, work.throttled)
        rows = outcomes.counts + RowCounts(read=filtered, filtered=filtered)
        totals = WorkTotals(rows, work, settled)
        self.context.progress((tuple(place.chunk.chunk for place in self._places), totals))
        if self.session is not None:
            place = self._places[0]
            self.session.progress(place.chunk.chunk, place.start.byte, totals)

    def _make_segments(self) -> list[Segment]:
        """Count the rows of each place before the first one without an outcome.

        The first segment that counts rows has the requests of all.
        """
        outcomes, now = self._scheduler.outcomes, self.context.clock()
        unsettled = self._feeder.unsettled(outcomes.frontier)
        segments, work = list[Segment](), self._scheduler.stats
        # Rows whose key came before count only where the last request to arrive wins.
        repeated = self._scheduler.repeated if self._record.mode.last_request_wins else 0
        read = outcomes.frontier + sum(map(Place.filtered_before, self._places, unsettled))
        for place, first in zip(self._places, unsettled, strict=True):
            end, filtered = place.cursor(first), place.filtered_before(first)
            rows = outcomes.counts_of(place.number) + RowCounts(read=filtered, filtered=filtered)
            times = self._samples.times(now, rows.read / max(1, read), of_work=bool(work.requests))
            segment = Segment(
                chunk=place.chunk.chunk,
                start=place.start,
                end=end,
                proven=first is None and end.byte == place.chunk.end,
                rows=rows,
                work=work,
                rejects=None,
                times=times,
                padding=place.padding_before(end.byte) or None,
                repeated=repeated,
            )
            if not rows.conserved:
                raise ConservationViolated(
                    f"chunk {segment.chunk} from byte {segment.start.byte}: {rows} does not"
                    " add up: please report it"
                )
            segments.append(segment)
            if end.byte > place.start.byte:
                work, repeated = WriteStats(), 0
        return segments

    def _write_segments(self, segments: Sequence[Segment]) -> list[Segment]:
        """Write the segments that count rows; return those that count."""
        last, frontier = self._scheduler.last_possible_write(), self._scheduler.outcomes.frontier
        by_condition = self._record.payload.options.condition is not None

        def write(each: tuple[Place, Segment]) -> tuple[Segment | None, bool]:
            place, segment = each
            counted, is_own = None, False
            try:
                if segment.end.byte > place.start.byte:
                    own = place.with_own_items(segment, self._scheduler.outcomes, by_condition)
                    rejects = place.rejects(frontier)
                    counted, is_own = write_segment(own, rejects, place.trail, self.ledger)
                self._trim_attempt(place, segment, counted, last)
            except DdbloadError as error:
                error.chunk = segment.chunk
                raise
            return counted, is_own

        found = each_in_threads(write, [*zip(self._places, segments, strict=True)])
        own = [counted for counted, is_own in found if counted is not None and is_own]
        if self.session is not None and own:
            rows = sum((each.rows for each in own), RowCounts())
            size = sum(each.bytes for each in own)
            self.session.settle(WorkTotals(rows, self._scheduler.stats, size))
        return [counted for counted, _ in found if counted is not None]

    def _trim_attempt(
        self, place: Place, segment: Segment, counted: Segment | None, last: int | None
    ) -> None:
        """Record in the ledger which rows this invocation put beyond the segment that counts.

        If another's segment counts, the record stays: it covers more rows than were put. After the
        last segment no invocation reads it. `last`: the last row that may have been put.
        """
        if place.attempt is None:
            return
        if counted is not None and (counted.proven or counted.end != segment.end):
            return
        end = segment.end.byte
        beyond = 0 if last is None else self._feeder.pending.byte_after(place.number, last)
        place.attempt.trim(end, max(end, beyond))

    def _raise_pending_error(self, done: Collection[int]) -> None:
        """Raise what ended all work, with a chunk that is not `done`; add others to `errors`."""
        left = [each for each in self._places if each.chunk.chunk not in done] or self._places
        # A request that was given up at the deadline is repeated by the next invocation.
        is_late = self.context.must_end()
        error = self._scheduler.fatal or self._feeder.error
        if error is not None and (error.permanent or not is_late or self._scheduler.fatal):
            error.chunk = left[0].chunk.chunk
            raise error
        for place in self._places:
            error = place.error
            if error is not None and (error.permanent or not is_late):
                error.chunk = place.chunk.chunk
                self.errors.append(error)
        if self._feeder.has_too_many_rejects:
            worst = max(left, key=lambda place: len(place.rejected)).chunk.chunk
            limit = self._record.payload.options.reject_limit
            rejected, read = self._feeder.rejected, self._feeder.rows_read
            of_rows = "" if limit.percent is None else f", {rejected:,} of the {read:,} rows read"
            too_many = TooManyRejects(
                f"more rejects than max_rejects allows ({limit}{of_rows}), most in chunk {worst}:"
                f" look at them, then mend the file, or allow more and {TAKE_UP}"
            )
            too_many.chunk = worst
            self.errors.append(too_many)
