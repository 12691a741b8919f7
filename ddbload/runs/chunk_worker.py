"""Worker that imports chunks, in this process or in one of a pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ddbload.aws.table_description import has_statements
from ddbload.context import ChunkProgress, Context
from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.errors import DdbloadError, unexpected
from ddbload.reading.row_blocks import RunReader
from ddbload.runs.local_settings import LocalSettings, step_seconds
from ddbload.steps.import_chunk import import_chunk, worker_pacing
from ddbload.write.drivers import driver_for
from ddbload.write.requests import EndpointFeatures

PROCESS_REPORT_SECONDS = 0.1
"""Seconds between two progress reports of a process, at least."""
TASKS_OF_PROCESS = 2
"""Tasks of a process that are queued or under way."""


class ChunkWorker:
    """Worker that imports chunks one after the other, with one driver for the whole run."""

    def __init__(self, settings: LocalSettings, context: Context, run: str) -> None:
        record = context.ledger(run).record()
        options = record.payload.options
        self._settings = settings
        self._context = replace(
            context,
            driver=driver_for(options),
            pacing=worker_pacing(record, context),
            endpoint=EndpointFeatures(
                has_statements=not record.mode.inserts or has_statements(context.clients)
            ),
        )
        self._reader = RunReader(record)

    def __call__(self, task: ImportTask) -> ImportResult | DdbloadError:
        """Import a chunk until a deadline; return an error instead of raising it."""
        context = self._context
        start = task.chunk.start if task.cursor is None else task.cursor.byte
        begin = task.chunk.start if self._reader.is_ranged or self._reader.is_seekable else 0
        deadline = context.clock() + step_seconds(self._settings.segment_seconds, start - begin)
        try:
            return import_chunk(task, replace(context, deadline=deadline), self._reader)
        except DdbloadError as error:
            return error
        except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is kept
            return unexpected(error, f"importing chunk {task.chunk.chunk}")

    def close(self) -> None:
        """End the threads, and tell the others that this worker sends nothing any more."""
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
    """Make the worker of a process, which is closed when the process ends."""
    # A run in one process does not need multiprocessing, which takes time to load.
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
    # Called when the pool shuts down; at-exit functions are not, in processes of a pool.
    util.Finalize(worker, worker.close, exitpriority=0)
    return worker
