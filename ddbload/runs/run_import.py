"""Run an import on this machine: preflight, chunks, report, as the state machine does."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ddbload.aws.clients import Clients
from ddbload.contracts.chunks import Chunk, ListingCursor, PreflightCursor
from ddbload.contracts.control import NewLimits
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import Failure, Report
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ImportTask, PreflightResult, PreflightTask
from ddbload.errors import Cancelled, DdbloadError, Interrupted, RunUnderWay
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import MISSED
from ddbload.pipeline.context import Context
from ddbload.pipeline.counted_chunks import iter_chains
from ddbload.pipeline.preflight.preflight import preflight
from ddbload.pipeline.read_run import finished_report, is_another
from ddbload.pipeline.report import write_report
from ddbload.pipeline.run_requests import keep_request, kept_failure
from ddbload.runs.local_progress import LocalProgress
from ddbload.runs.local_settings import LocalSettings, step_seconds
from ddbload.runs.progress import RunProgress
from ddbload.runs.run_control import take_up
from ddbload.runs.run_status import HeartbeatWriter, live_heartbeat, works
from ddbload.runs.worker_pool import InProcessPool, WorkerPool

WORKER_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of an import."""

    report: Report
    adopted_rows: int
    """Rows that earlier attempts had imported."""
    record: RunRecord
    already_done: bool = False
    """The run was done before: nothing was written, and the report is the earlier one."""


def new_run_id(now: datetime | None = None) -> str:
    """Make a run id that sorts by time: `20261121T073000Z-1f2e3d`."""
    moment = now or datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_import(
    payload: Mapping[str, Any],
    settings: LocalSettings,
    *,
    run: str,
    processes: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[RunProgress], None] = lambda _: None,
    begun: Callable[[RunRecord], None] = lambda _: None,
    notice: Callable[[str], None] | None = None,
    limits: NewLimits | None = None,
    clients: Clients | None = None,
) -> RunResult:
    """Run the steps of the state machine on this machine, with processes instead of its Map.

    A chunk that fails because of its rows does not stop the other chunks. Any other failure, such
    as a missing table, ends the run; the report names it. A run that is done, and that its ledger
    still proves, is not imported again.

    Args:
        payload: Input of the run.
        settings: Ledger, AWS settings and concurrency.
        run: Run id; an unfinished run of this id is resumed.
        processes: Processes that import chunks.
        should_stop: Asked often; True stops the run at the next settled rows.
        watch: Called with the progress whenever it changes.
        begun: Called with the run's record before any row is written.
        notice: Called with each warning about the table before any row is written.
        limits: Limits that replace those which an earlier attempt was given meanwhile; by default
            those of the payload.
        clients: Clients of the settings that the caller has made, so that none are made again.

    Raises:
        RunUnderWay: If another process works on the run, or has taken it up while this one was
            suspended, or if workers of a cancelled run still work.
        Interrupted: If the run was stopped during preflight.
        Cancelled: If the run was cancelled during preflight.
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
    context.notice = notice
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
    with kept_failure(ledger, context), HeartbeatWriter(ledger, context) as heart:
        totals.heart, context.begun = heart, heart.beat
        if earlier is not None:
            heart.beat()
        chunks = _preflight(payload, run, context, settings)
        heart.raise_overtaken()
        if chunks is None and heart.cancelled:
            raise Cancelled.of(run)
        if chunks is None:
            raise Interrupted(f"stopped during preflight; --run-id {run} continues it")
        record = ledger.record()
        begun(record)
        manifest = ledger.find_manifest() or ()
        totals.begin(record, manifest)
        tasks = _remaining_tasks(run, ledger, manifest, totals)
        if not tasks and (done := finished_report(run, context)) is not None:
            return RunResult(done, totals.adopted_rows, record, already_done=True)
        failed = _import_tasks(tasks, processes, totals, context, settings, record)
        # Before the report, which would be that of the other process.
        heart.look()
        totals.report()
        final = write_report(run, context, interrupted=context.should_stop() and not failed)
        return RunResult(final, totals.adopted_rows, record)


@contextmanager
def asked_for(
    payload: Mapping[str, Any], settings: LocalSettings, run: str, clients: Clients
) -> Generator[None]:
    """Write what is asked of a run before anything can fail, and keep the error that ends it.

    A ledger that cannot be written is named by the import itself.
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
    """Import the remaining tasks with a pool of workers; return whether any failed."""
    count = min(processes, len(tasks))
    if not tasks:
        return False
    pool: WorkerPool
    if count > 1:
        # One process does not need multiprocessing, which takes time to load.
        from ddbload.runs.process_pool import ProcessPool

        pool = ProcessPool(
            count, settings, record.run, should_stop=context.should_stop, progress=totals.progress
        )
    else:
        pool = InProcessPool(settings, context, record.run)
    try:
        return _run_tasks(tasks, pool, totals, context, record)
    finally:
        pool.close()


def _remaining_tasks(
    run: str, ledger: Ledger, manifest: Sequence[Chunk], totals: LocalProgress
) -> deque[ImportTask]:
    """List a task for each chunk that is not imported yet, from its last cursor on."""
    tasks: deque[ImportTask] = deque()
    for chunk, chain in iter_chains(ledger, manifest):
        for segment in chain:
            totals.add(segment, adopted=True)
        if not chain or not chain[-1].proven:
            tasks.append(ImportTask(run, chunk, chain[-1].end if chain else None))
    totals.show()
    return tasks


def _preflight(
    payload: Mapping[str, Any], run: str, context: Context, settings: LocalSettings
) -> int | None:
    """Run preflight to its end; return the number of chunks, or None if it was stopped."""
    cursor: PreflightCursor | ListingCursor | None = None
    while True:
        reached = cursor.byte - cursor.base if isinstance(cursor, PreflightCursor) else 0
        deadline = context.clock() + step_seconds(settings.segment_seconds, reached)
        task = PreflightTask(payload, run, cursor)
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
        cursor = result.cursor


def _run_tasks(
    tasks: deque[ImportTask],
    pool: WorkerPool,
    totals: LocalProgress,
    context: Context,
    record: RunRecord,
) -> bool:
    """Pass all tasks to the pool, and record results; return whether any failed."""
    run, limit = record.run, record.payload.options.reject_limit
    ledger = context.ledger(run)
    running = 0
    failed = enough = False
    while tasks or running:
        rows, besides = totals.settled.rows, record.most_rows_besides(totals.settled.bytes)
        too_many = limit.surely_exceeded(rows.rejected, rows.read, besides)
        enough = enough or context.should_stop() or too_many
        if enough:
            tasks.clear()
            pool.stop()
        while tasks and running < pool.size:
            pool.submit(tasks.popleft())
            running += 1
        for task, result in pool.wait(WORKER_POLL_SECONDS):
            running -= 1
            totals.finished(task.chunk.chunk)
            if isinstance(result, Cancelled):
                enough = True
                continue
            if isinstance(result, DdbloadError):
                if (enough or context.should_stop()) and not result.permanent:
                    # The request was given up because of the stop; it would have been retried.
                    continue
                failed = True
                totals.failed(task.chunk.chunk)
                enough = enough or not result.chunk_local
                chunk = task.chunk.chunk
                ledger.put_failure(Failure.of(result, chunk=chunk, at=context.now()))
                continue
            if result.segment is not None:
                totals.add(result.segment, adopted=result.adopted)
            if result.cursor is not None:
                again = ImportTask(run, result.chunk, result.cursor, result.stalled)
                tasks.appendleft(again)
    return failed
