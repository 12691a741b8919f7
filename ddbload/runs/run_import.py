"""Run an import on this machine: preflight, chunks, report, like the state machine."""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ddbload.aws.clients import Clients
from ddbload.aws.table_description import has_statements
from ddbload.context import ChunkProgress, Context
from ddbload.contracts.chunks import Chunk, PreflightCursor
from ddbload.contracts.control import NewLimits
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import Failure, Report, Segment
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ImportResult, ImportTask, PreflightResult, PreflightTask
from ddbload.errors import Cancelled, DdbloadError, Interrupted, RunUnderWay, unexpected
from ddbload.ledger.counted_chunks import iter_chains
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import MISSED, Ending
from ddbload.reading.row_batches import iter_row_batches
from ddbload.reading.row_blocks import RunReader
from ddbload.records import Record
from ddbload.runs.local_runs import (
    HeartbeatWriter,
    LocalSettings,
    live_heartbeat,
    step_seconds,
    works,
)
from ddbload.runs.progress import (
    CHECKING,
    DONE_CHUNK,
    FAILED_CHUNK,
    IMPORTING,
    REPORTING,
    RUNNING_CHUNK,
    WAITING,
    ProgressMeter,
    RunProgress,
)
from ddbload.runs.run_control import take_up
from ddbload.steps.import_chunk import import_chunk, worker_pacing
from ddbload.steps.preflight import keep_request, preflight
from ddbload.steps.report import finished_report, is_another, write_report
from ddbload.write.drivers import Driver, concurrency_for
from ddbload.write.requests import EndpointFeatures

if TYPE_CHECKING:
    from ddbload.items.transformed_rows import Transform

PROCESS_REPORT_SECONDS = 0.1
"""Minimum seconds between two progress reports of a process."""
TASKS_OF_PROCESS = 2
"""Maximum tasks per process that are queued or running."""


class ChunkWorker:
    """Worker that imports some chunks after the others, with one driver for the whole run."""

    def __init__(self, settings: LocalSettings, context: Context, run: str) -> None:
        record = context.ledger(run).record()
        options = record.payload.options
        self._settings = settings
        self._context = replace(
            context,
            driver=Driver(concurrency_for(options)),
            pacing=worker_pacing(record, context),
            endpoint=EndpointFeatures(
                has_statements=not record.mode.inserts or has_statements(context.clients)
            ),
        )
        self._reader = RunReader(record, context.transform)

    def __call__(self, task: ImportTask) -> ImportResult | DdbloadError:
        """Import chunks until a deadline; return an error instead of raising it."""
        context, (chunk, *others) = self._context, task.chunks
        skipped = 0 if self._reader.reads_from_chunk else chunk.end
        deadline = context.clock() + step_seconds(self._settings.segment_seconds, skipped)
        try:
            return import_chunk(task, replace(context, deadline=deadline), self._reader)
        except DdbloadError as error:
            return error
        except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is kept
            beside = f" and {len(others)} beside it" if others else ""
            return unexpected(error, f"importing chunk {chunk.chunk}{beside}")

    def close(self) -> None:
        """End the threads, and record that this worker sends nothing any more."""
        if self._context.driver is not None:
            self._context.driver.close()
        if self._context.control is not None:
            self._context.control.close()


def make_chunk_worker(
    settings: LocalSettings,
    run: str,
    should_stop: Callable[[], bool],
    report: Callable[[ChunkProgress], None],
) -> ChunkWorker:
    """Make the worker of a process. It is closed when the process ends."""
    # Imported here because multiprocessing is slow to load, and a run in one process does not need
    # it.
    from multiprocessing import util

    last = 0.0

    def progress(now: ChunkProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= PROCESS_REPORT_SECONDS:
            last = time.monotonic()
            report(now)

    worker = ChunkWorker(
        settings, settings.context(should_stop=should_stop, progress=progress), run
    )
    # Called when the pool shuts down. Processes of a pool do not call atexit functions.
    util.Finalize(worker, worker.close, exitpriority=0)
    return worker


class EndedImport(Record):
    """An import that has ended: its report and record."""

    report: Report
    adopted_rows: int
    """Rows imported by earlier attempts."""
    record: RunRecord
    already_done: bool = False
    """True if the run was done before: nothing was written, and the report is the earlier one."""


def new_run_id(now: datetime | None = None) -> str:
    """Return a run id that sorts by time: `20261121T073000Z-1f2e3d`."""
    moment = now or datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_import(
    payload: Mapping[str, Any],
    settings: LocalSettings,
    *,
    run: str,
    processes: int | None = 1,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[RunProgress], None] = lambda _: None,
    begun: Callable[[RunRecord], None] = lambda _: None,
    notice: Callable[[str], None] | None = None,
    limits: NewLimits | None = None,
    clients: Clients | None = None,
    transform: Transform | None = None,
) -> EndedImport:
    """Run the steps of the state machine on this machine, with processes in place of its Map.

    A chunk that fails because of its rows does not stop the other chunks. Any other failure, such
    as a missing table, ends the run; the report names it. A run that is done, with a ledger that
    proves it, is not imported again.

    Args:
        payload: Input of the run.
        settings: Ledger, AWS settings and concurrency.
        run: Run id. An unfinished run with this id is resumed.
        processes: Number of processes that import chunks; None for the record's workers.
        should_stop: Called often; True stops the run once rows in flight are settled.
        watch: Called with the progress whenever it changes.
        begun: Called with the run's record before any row is written.
        notice: Called with each warning about the table before any row is written.
        limits: New limits; None keeps those last set for the run, or those of the payload.
        clients: AWS clients to use; None creates them from the settings.
        transform: Function that changes the rows, in this process alone.

    Raises:
        RunUnderWay: If another process works on the run, or took it over while this one was
            suspended, or if workers of a cancelled run are still active.
        Interrupted: If the run was stopped during preflight.
        Cancelled: If the run was cancelled during preflight.
        TransformNotDeterministic: If the function gives two results for one of the first rows.
        DdbloadError: If preflight fails, or the ledger cannot be read or written.
    """
    check_run_id(run)
    if limits is None:
        limits = NewLimits.of(Payload.from_json(payload).options)
    totals = LocalProgress(watch, time.monotonic)
    context = settings.context(
        should_stop=lambda: should_stop() or totals.stopped,
        progress=totals.progress,
        clients=clients,
    )
    context.notice, context.transform = notice, transform
    ledger = context.ledger(run)
    earlier = ledger.find_heartbeat()
    if earlier is not None and works(earlier, context.now()) and is_another(earlier):
        raise RunUnderWay(
            f"run {run} is still running: process {earlier.pid} on {earlier.host} works on it; wait"
            f" for its end (ddbload status {run}), or stop it first; if that process is gone,"
            f" repeat the command in {MISSED * earlier.every:.0f} seconds"
        )
    with kept_failure(ledger, context):
        take_up(run, context, limits=limits)
    with kept_failure(ledger, context), HeartbeatWriter(ledger, context) as heartbeat:
        totals.heartbeat, context.begun = heartbeat, heartbeat.begin
        if earlier is not None:
            heartbeat.beat()
        with _reported(run, context, heartbeat):
            chunks = _preflight(PreflightTask(payload, run), context, settings)
            heartbeat.raise_overtaken()
            if chunks is None and heartbeat.cancelled:
                raise Cancelled.of(run)
            if chunks is None:
                raise Interrupted(f"stopped during preflight; --run-id {run} continues it")
            record = ledger.record()
            begun(record)
            if transform is not None and record.has_rows:
                _check_transform(record, transform, ledger, context)
        manifest = ledger.find_manifest() or ()
        totals.begin(record, len(manifest))
        tasks = _remaining_tasks(run, ledger, manifest, totals)
        if not tasks and (done := finished_report(run, context)) is not None:
            return EndedImport(done, totals.adopted_rows, record, already_done=True)
        count = processes or min(record.workers, os.cpu_count() or 1)
        failed = _import_tasks(tasks, count, totals, context, settings, record)
        # Checked before the report, which would be the other process's.
        heartbeat.look()
        totals.report()
        final = write_report(run, context, Ending(interrupted=context.should_stop() and not failed))
        return EndedImport(final, totals.adopted_rows, record)


def _check_transform(
    record: RunRecord, transform: Transform, ledger: Ledger, context: Context
) -> None:
    """Raise `TransformNotDeterministic` if a function differs on one of the first rows."""
    # Imported here because few runs have a function.
    from ddbload.items.transformed_rows import CHECKED_ROWS

    left = CHECKED_ROWS
    reader = RunReader(record, transform, left)
    # Small blocks, since the function is called with all rows of each.
    with closing(iter_row_batches(reader, ledger, context, piece_bytes=4096)) as batches:
        for batch in batches:
            left -= batch.count + batch.filtered
            if left <= 0:
                break


@contextmanager
def kept_failure(ledger: Ledger, context: Context) -> Generator[None]:
    """Keep the error of a run that ends before it has a record, and pass it on.

    That another process works on the run says nothing about it.
    """
    try:
        yield
    except RunUnderWay:
        raise
    except DdbloadError as error:
        # A ledger that cannot be written has been named by the error.
        with suppress(DdbloadError):
            ledger.keep_failure(Failure.of(error, at=context.now()))
        raise


@contextmanager
def asked_for(
    payload: Mapping[str, Any], settings: LocalSettings, run: str, clients: Clients
) -> Generator[None]:
    """Record a run's request before anything can fail, and the error that ends the run.

    An error of writing the ledger is left to the import, which raises it again.
    """
    try:
        context = settings.context(clients=clients)
        ledger = context.ledger(run)
        if live_heartbeat(run, context) is None:
            keep_request(ledger, Payload.from_json(payload), None, context)
    except DdbloadError:
        yield
        return
    with kept_failure(ledger, context):
        yield


def _import_tasks(
    tasks: deque[ImportTask],
    processes: int,
    totals: LocalProgress,
    context: Context,
    settings: LocalSettings,
    record: RunRecord,
) -> bool:
    """Import tasks and record their results; return whether any failed.

    The rest of a chunk that was not imported to its end becomes a new task.
    """
    run, limit = record.run, record.payload.options.reject_limit
    ledger = context.ledger(run)
    failed = enough = False

    def look() -> bool:
        """Return whether no more tasks should begin."""
        nonlocal enough
        rows, besides = totals.settled.rows, record.most_rows_besides(totals.settled.bytes)
        too_many = limit.surely_exceeded(rows.rejected, rows.read, besides)
        enough = enough or context.should_stop() or too_many
        if enough:
            tasks.clear()
        return enough

    def results() -> Generator[tuple[ImportTask, ImportResult | DdbloadError]]:
        """Yield tasks with their results from the processes, until no task is left."""
        count = min(processes, len(tasks))
        if look() or not tasks:
            return
        if count == 1:
            with closing(ChunkWorker(settings, context, run)) as worker:
                while tasks:
                    task = tasks.popleft()
                    yield task, worker(task)
                    look()
            return
        # Imported here because multiprocessing is slow to load, and one process does not need it.
        from ddbload.reading.processes import ProcessPool

        pool = ProcessPool[ImportTask, ImportResult | DdbloadError](
            count,
            partial(make_chunk_worker, settings, run),
            tasks_each=TASKS_OF_PROCESS,
            report=totals.progress,
            advice="resume the run",
        )
        yield from pool.map_as_done(tasks, look)

    with closing(results()) as found:
        for task, result in found:
            totals.finished(task.chunks)
            if isinstance(result, Cancelled):
                enough = True
            elif isinstance(result, DdbloadError):
                if (enough or context.should_stop()) and not result.permanent:
                    # The request was given up because of the stop; it would have been retried.
                    continue
                failed = True
                enough = enough or not result.chunk_local
                numbers = [each.chunk for each in task.chunks]
                for chunk in numbers if result.chunk is None else [result.chunk]:
                    totals.failed(chunk)
                    ledger.put_failure(Failure.of(result, chunk=chunk, at=context.now()))
            else:
                for segment in result.segments:
                    totals.add(segment, adopted=False)
                for failure in result.failed:
                    failed = True
                    totals.failed(failure.chunk or 0)
                if result.chunks:
                    tasks.appendleft(ImportTask(run, result.chunks, result.stalled))
    return failed


def _remaining_tasks(
    run: str, ledger: Ledger, manifest: Sequence[Chunk], totals: LocalProgress
) -> deque[ImportTask]:
    """List a task for each group of chunks, with those that are not fully imported."""
    left: set[Chunk] = set()
    for chunk, chain in iter_chains(ledger, manifest):
        for segment in chain:
            totals.add(segment, adopted=True)
        if not chain or not chain[-1].proven:
            left.add(chunk)
    totals.show()
    groups = (tuple(each for each in group if each in left) for group in ledger.find_groups() or ())
    return deque(ImportTask(run, group) for group in groups if group)


def _preflight(task: PreflightTask, context: Context, settings: LocalSettings) -> int | None:
    """Run preflight to its end; return the number of chunks, or None if it was stopped."""
    while True:
        cursor = task.cursor
        reached = cursor.byte - cursor.base if isinstance(cursor, PreflightCursor) else 0
        deadline = context.clock() + step_seconds(settings.segment_seconds, reached)
        try:
            result = preflight(task, replace(context, deadline=deadline))
        except DdbloadError as error:
            if not error.permanent and context.should_stop():
                # The request was given up because of the stop; it would have been retried.
                return None
            raise
        if isinstance(result, PreflightResult) and result.cursor is None:
            return result.chunks
        if context.should_stop():
            return None
        task = replace(task, cursor=result.cursor)


@contextmanager
def _reported(run: str, context: Context, heartbeat: HeartbeatWriter) -> Generator[None]:
    """Report an error that ends an attempt before its first chunk, once the attempt has begun."""
    try:
        yield
    except DdbloadError as error:
        if heartbeat.has_begun:
            # The report would be the other process's if one took up the run.
            heartbeat.look()
            ending = Ending(Failure.of(error), interrupted=isinstance(error, Interrupted))
            with suppress(DdbloadError):
                write_report(run, context, ending)
        raise


class LocalProgress:
    """Totals of a run: its segments, plus the progress of running tasks."""

    def __init__(self, watch: Callable[[RunProgress], None], clock: Callable[[], float]) -> None:
        self.settled = WorkTotals()
        """Totals of all segments."""
        self.adopted_rows = 0
        self.heartbeat: HeartbeatWriter | None = None
        self._watch = watch
        self._meter = ProgressMeter(clock)
        self._step = CHECKING
        # By the first chunk of a task.
        self._running: dict[int, WorkTotals] = {}
        # States of chunks by their last segments.
        self._states: dict[int, int] = {}

    @property
    def stopped(self) -> bool:
        """True if the run was cancelled, or taken over by another process."""
        return self.heartbeat is not None and self.heartbeat.stopped

    def begin(self, record: RunRecord, chunks: int) -> None:
        """Set the run and its number of chunks, once the source was checked."""
        self._meter.begin(record, chunks)
        self._step = IMPORTING

    def show(self) -> None:
        """Pass the progress to the watcher."""
        totals = sum(self._running.values(), self.settled)
        now = self._meter.progress(self._step, totals)
        if self.heartbeat is not None and self._step != CHECKING:
            self.heartbeat.set_progress(now.totals.rows, now.totals.bytes, now.size)
        self._watch(now)

    def progress(self, now: ChunkProgress) -> None:
        """Replace the progress of a running task."""
        states, (chunks, totals) = self._meter.chunks, now
        if states[chunks[0]] == DONE_CHUNK:
            # The report arrived after the end of its task.
            return
        self._running[chunks[0]] = totals
        for chunk in chunks:
            states[chunk] = RUNNING_CHUNK
        self.show()

    def finished(self, chunks: Sequence[Chunk]) -> None:
        """Drop the progress of a finished task, and show the state from its segments."""
        for chunk in (each.chunk for each in chunks):
            self._running.pop(chunk, None)
            self._meter.chunks[chunk] = self._states.get(chunk, WAITING)

    def failed(self, chunk: int) -> None:
        """Show a chunk as failed."""
        self._meter.chunks[chunk] = FAILED_CHUNK
        self.show()

    def add(self, segment: Segment, *, adopted: bool) -> None:
        """Add a segment; `adopted` if an earlier attempt wrote it."""
        self.settled += WorkTotals(segment.rows, segment.work, segment.bytes)
        state = DONE_CHUNK if segment.proven else RUNNING_CHUNK
        self._states[segment.chunk] = self._meter.chunks[segment.chunk] = state
        if not adopted:
            self.show()
            return
        # Adopted rows appear all at once, so they must not count for the speed.
        self.adopted_rows += segment.rows.read
        self._meter.adopted_rows = self.adopted_rows

    def report(self) -> None:
        """Show that the report is being written."""
        self._step = REPORTING
        self.show()
