"""The state machine's part, on this machine: preflight, chunks, report, in that order."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import Failure, Report, RowCounts, Segment, WriteStats
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ImportTask, PreflightTask
from ddbload.errors import DdbloadError, Interrupted, RunUnderWay
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import ChunkProgress, Context, RunTotals
from ddbload.pipeline.preflight.preflight import preflight
from ddbload.pipeline.report import chunk_segments, done_before, write_report
from ddbload.runs.heartbeats import MISSED, HeartbeatWriter, is_alive, is_another
from ddbload.runs.local_settings import LocalSettings, step_seconds
from ddbload.runs.worker_pool import InProcessPool, WorkerPool

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to."""

    report: Report
    adopted_rows: int
    record: RunRecord
    already_done: bool = False
    """It was done before; nothing was written, and the report is the earlier one."""


def new_run_id(now: datetime | None = None) -> str:
    """A run id that sorts by time: `20261121T073000Z-1f2e3d`."""
    moment = now or datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_import(
    payload: Mapping[str, Any],
    settings: LocalSettings,
    *,
    run: str,
    processes: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[RunTotals], None] = lambda _: None,
    begun: Callable[[RunRecord], None] = lambda _: None,
) -> RunResult:
    """Import as the deployed state machine does, with `processes` in place of its Map.

    `begun` is told what the run is, before any row is written.

    A run that is done, and that its ledger still proves, is left as it is, report included.

    Raises what preflight raises, `RunUnderWay` while another process works on the run,
    `Interrupted` when it was stopped before there was anything to report, and what keeps the
    ledger from being read or written. A chunk that fails for reasons of its own does not stop its
    siblings; any other failure, such as a table that is gone, ends the run, and the report says
    what failed.
    """
    check_run_id(run)
    Payload.from_json(payload)
    tally = _Tally(watch)
    context = settings.context(should_stop=should_stop, progress=tally.progress)
    ledger = context.ledger(run)
    earlier = ledger.find_heartbeat()
    if earlier is not None and is_alive(earlier, context.now()) and is_another(earlier):
        raise RunUnderWay(
            f"run {run} is under way: process {earlier.pid} on {earlier.host} works on it; wait for"
            f" its end (ddbload status {run}), or stop it first; if that process is gone, give the"
            f" command again in {MISSED * earlier.every:.0f} seconds"
        )
    with HeartbeatWriter(ledger, context) as heart:
        tally.heart, context.begun = heart, heart.beat
        if earlier is not None:
            heart.beat()
        chunks = _preflight(payload, run, context, settings)
        if chunks is None:
            raise Interrupted(f"stopped during preflight; --run-id {run} continues it")
        record = ledger.record()
        begun(record)
        tally.begin(record)
        tasks = _remaining_tasks(run, ledger, tally)
        if not tasks and (done := done_before(ledger)) is not None:
            return RunResult(done, tally.adopted_rows, record, already_done=True)
        failed = _conduct(tasks, processes, tally, context, settings, record)
        final = write_report(run, context, interrupted=should_stop() and not failed)
        return RunResult(final, tally.adopted_rows, record)


def _conduct(
    tasks: deque[ImportTask],
    processes: int,
    tally: _Tally,
    context: Context,
    settings: LocalSettings,
    record: RunRecord,
) -> bool:
    """Import what is left with a crew of so many processes; whether any of it failed."""
    count = min(processes, len(tasks))
    if not tasks:
        return False
    crew: WorkerPool
    if count > 1:
        # One process alone does not wait for what several need.
        from ddbload.runs.process_pool import ProcessPool

        crew = ProcessPool(
            count, settings, record.run, should_stop=context.should_stop, progress=tally.progress
        )
    else:
        crew = InProcessPool(settings, context, record.run)
    try:
        return _import(tasks, crew, tally, context, record)
    finally:
        crew.close()


def _remaining_tasks(run: str, ledger: Ledger, tally: _Tally) -> deque[ImportTask]:
    """A task for each chunk that the ledger does not prove imported, from where it stands."""
    manifest = ledger.find_manifest() or ()
    tasks: deque[ImportTask] = deque()
    for chunk, chain in zip(manifest, chunk_segments(ledger, manifest), strict=True):
        for segment in chain:
            tally.add(segment, adopted=True)
        if not chain or not chain[-1].proven:
            tasks.append(ImportTask(run, chunk, chain[-1].end if chain else None))
    return tasks


def _preflight(
    payload: Mapping[str, Any], run: str, context: Context, settings: LocalSettings
) -> int | None:
    """How many chunks there are; None when it was stopped."""
    cursor = None
    while True:
        reached = 0 if cursor is None else cursor.byte - cursor.base
        deadline = context.clock() + step_seconds(settings.segment_seconds, reached)
        task = PreflightTask(payload, run, cursor)
        try:
            result = preflight(task, replace(context, deadline=deadline))
        except DdbloadError as error:
            if not error.permanent and context.should_stop():
                # It was told to give up what it would else have tried again.
                return None
            raise
        if result.cursor is None:
            return result.chunks
        if context.should_stop():
            return None
        cursor = result.cursor


def _import(
    tasks: deque[ImportTask],
    crew: WorkerPool,
    tally: _Tally,
    context: Context,
    record: RunRecord,
) -> bool:
    """Have all tasks done; whether any failed."""
    run, max_rejects = record.run, record.payload.options.max_rejects
    ledger = context.ledger(run)
    under_way = 0
    failed = enough = False
    while tasks or under_way:
        enough = enough or context.should_stop() or tally.rows.rejected > max_rejects
        if enough:
            tasks.clear()
            crew.stop()
        while tasks and under_way < crew.size:
            crew.submit(tasks.popleft())
            under_way += 1
        for task, result in crew.wait(POLL_SECONDS):
            under_way -= 1
            tally.finished(task.chunk.chunk)
            if isinstance(result, DdbloadError):
                if (enough or context.should_stop()) and not result.permanent:
                    # It was told to give up what it would else have tried again.
                    continue
                failed = True
                enough = enough or not result.chunk_local
                ledger.put_failure(Failure(result.name, result.message, task.chunk.chunk))
                continue
            if result.segment is not None:
                tally.add(result.segment, adopted=result.adopted)
            if result.cursor is not None:
                again = ImportTask(run, result.chunk, result.cursor, result.stalled)
                tasks.appendleft(again)
    return failed


class _Tally:
    """Adds up segments and what workers say of those under way."""

    def __init__(self, watch: Callable[[RunTotals], None]) -> None:
        self.rows = RowCounts()
        self.size = 0
        self.adopted_rows = 0
        self._work = WriteStats()
        self._bytes = 0
        self._watch = watch
        self.heart: HeartbeatWriter | None = None
        self._under_way: dict[int, ChunkProgress] = {}

    def begin(self, record: RunRecord) -> None:
        """The header is read; the rest is to come."""
        self.size, self._bytes = record.size or 0, record.data_start.byte
        self._tell()

    def progress(self, now: ChunkProgress) -> None:
        """A worker's word about a chunk."""
        self._under_way[now.chunk] = now
        self._tell()

    def finished(self, chunk: int) -> None:
        """A step on a chunk is over; what it said of itself counts no more."""
        self._under_way.pop(chunk, None)

    def add(self, segment: Segment, *, adopted: bool) -> None:
        """A segment that counts."""
        self.rows += segment.rows
        self._work += segment.work
        self._bytes += segment.end.byte - segment.start.byte
        if adopted:
            self.adopted_rows += segment.rows.read
        self._tell()

    def _tell(self) -> None:
        rows, work, read = self.rows, self._work, self._bytes
        for each in self._under_way.values():
            rows, work, read = rows + each.rows, work + each.work, read + each.bytes
        if self.heart is not None:
            self.heart.reached(rows, read, self.size)
        self._watch(RunTotals(rows, work, read, self.size, self.adopted_rows))
