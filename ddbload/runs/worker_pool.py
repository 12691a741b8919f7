"""Who imports chunks on this machine: this process, or several (`ddbload.runs.worker_pool`)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Protocol

from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.errors import DdbloadError, unexpected
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.import_chunk import import_chunk, worker_pacing
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.runs.local_settings import LocalSettings, step_seconds
from ddbload.write.drivers.engines import driver_for

FinishedTask = tuple[ImportTask, ImportResult | DdbloadError]


class Worker:
    """Does import steps one after the other, with one driver and one reading for a run."""

    def __init__(self, settings: LocalSettings, context: Context, run: str) -> None:
        record = context.ledger(run).record()
        options = record.payload.options
        self._settings = settings
        self._context = replace(
            context, driver=driver_for(options), pacing=worker_pacing(record, context)
        )
        self._reading = RunReader(record)

    def step(self, task: ImportTask) -> ImportResult | DdbloadError:
        """One step, with a deadline of its own. Errors are returned, unexpected ones named."""
        context = self._context
        start = task.chunk.start if task.cursor is None else task.cursor.byte
        skipped = start - (task.chunk.start if self._reading.is_ranged else 0)
        deadline = context.clock() + step_seconds(self._settings.segment_seconds, skipped)
        try:
            return import_chunk(task, replace(context, deadline=deadline), self._reading)
        except DdbloadError as error:
            return error
        except Exception as error:  # noqa: BLE001 - its text may hold row data: its place may not
            return unexpected(error, f"importing chunk {task.chunk.chunk}")

    def close(self) -> None:
        """End the driver's threads."""
        if self._context.driver is not None:
            self._context.driver.close()


class WorkerPool(Protocol):
    """Takes tasks and gives back what came of them, in any order."""

    @property
    def size(self) -> int:
        """How many tasks are worth having submitted at once."""

    def submit(self, task: ImportTask) -> None:
        """Have a task done."""

    def wait(self, seconds: float) -> list[FinishedTask]:
        """What is finished, after waiting for the first up to so long."""

    def stop(self) -> None:
        """Have the tasks under way hand on their cursors soon."""

    def close(self) -> None:
        """End all workers."""


class InProcessPool:
    """This process, one task at a time."""

    size = 1

    def __init__(self, settings: LocalSettings, context: Context, run: str) -> None:
        self._worker = Worker(settings, context, run)
        self._tasks: deque[ImportTask] = deque()

    def submit(self, task: ImportTask) -> None:
        """Remember a task."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[FinishedTask]:  # noqa: ARG002 - the work itself is the wait
        """Do one task."""
        if not self._tasks:
            return []
        task = self._tasks.popleft()
        return [(task, self._worker.step(task))]

    def stop(self) -> None:
        """Nothing is under way between two calls of `wait`."""

    def close(self) -> None:
        """End the driver's threads."""
        self._worker.close()
