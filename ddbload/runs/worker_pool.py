"""Workers that import chunks: the protocol of a pool, and a pool of this process alone.

`ddbload.runs.process_pool` has the pool of several processes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Protocol

from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.dynamodb.write_modes import INSERT
from ddbload.errors import DdbloadError, unexpected
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.import_chunk import import_chunk, worker_pacing
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.table_notices import has_statements
from ddbload.runs.local_settings import LocalSettings, step_seconds
from ddbload.write.drivers import driver_for
from ddbload.write.requests import EndpointFeatures

FinishedTask = tuple[ImportTask, ImportResult | DdbloadError]


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
                has_statements=options.mode != INSERT or has_statements(context.clients)
            ),
        )
        self._reader = RunReader(record)

    def step(self, task: ImportTask) -> ImportResult | DdbloadError:
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


class WorkerPool(Protocol):
    """Pool of workers that takes tasks and returns their results in any order."""

    @property
    def size(self) -> int:
        """Number of submitted tasks that keeps all workers busy."""

    def submit(self, task: ImportTask) -> None:
        """Give a task to a worker."""

    def wait(self, seconds: float) -> list[FinishedTask]:
        """Wait up to `seconds` for the first finished task; return all that are finished."""

    def stop(self) -> None:
        """Ask the workers to stop at their next settled row."""

    def close(self) -> None:
        """End all workers."""


class InProcessPool:
    """Pool of this process alone, which does one task at a time."""

    size = 1

    def __init__(self, settings: LocalSettings, context: Context, run: str) -> None:
        self._worker = ChunkWorker(settings, context, run)
        self._tasks: deque[ImportTask] = deque()

    def submit(self, task: ImportTask) -> None:
        """Queue a task."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[FinishedTask]:  # noqa: ARG002 - it works instead of waiting
        """Do the next task; return its result."""
        if not self._tasks:
            return []
        task = self._tasks.popleft()
        return [(task, self._worker.step(task))]

    def stop(self) -> None:
        """Do nothing: no task runs between two calls of `wait`."""

    def close(self) -> None:
        """End the worker."""
        self._worker.close()
