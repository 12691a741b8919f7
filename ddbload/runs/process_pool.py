"""Pool of worker processes that import chunks in parallel."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, util
from typing import TYPE_CHECKING

from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.errors import DdbloadError, WorkerDied
from ddbload.pipeline.context import ChunkProgress
from ddbload.reading.span_pool import interrupts_blocked, unblock_interrupts
from ddbload.runs.local_settings import LocalSettings
from ddbload.runs.worker_pool import ChunkWorker, FinishedTask

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue


WORKER_PROGRESS_SECONDS = 0.1
"""Seconds between two progress reports of a worker, at least."""


class ProcessPool:
    """Pool of worker processes, which this process tells when to stop.

    They ignore Ctrl-C and SIGTERM, which a terminal or a service manager sends to all processes.
    """

    def __init__(
        self,
        count: int,
        settings: LocalSettings,
        run: str,
        *,
        should_stop: Callable[[], bool],
        progress: Callable[[ChunkProgress], None],
    ) -> None:
        # If this process is killed, multiprocessing's tracker cleans up and prints a warning, which
        # a user cannot act on.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
        # spawn, because a fork would copy locks that threads of this process hold.
        start = multiprocessing.get_context("spawn")
        self.size = 2 * count
        self._should_stop = should_stop
        self._progress = progress
        # Closing one end tells the workers to stop. An Event has a lock, which a worker could hold
        # when it is killed.
        self._stopped, self._stop = start.Pipe(duplex=False)
        # Closing this one ends them at once.
        self._ended, self._end = start.Pipe(duplex=False)
        self._reports: SimpleQueue[ChunkProgress] = start.SimpleQueue()
        self._pool = ProcessPoolExecutor(
            count, start, _init_worker, (settings, run, self._stopped, self._ended, self._reports)
        )
        self._futures: dict[Future[ImportResult | DdbloadError], ImportTask] = {}

    def submit(self, task: ImportTask) -> None:
        """Give a task to the next free worker."""
        with interrupts_blocked():
            try:
                future = self._pool.submit(_step, task)
            except BrokenProcessPool as error:
                future = Future()
                future.set_exception(error)
        self._futures[future] = task

    def wait(self, seconds: float) -> list[FinishedTask]:
        """Wait up to `seconds` for finished tasks, and pass on progress of the others."""
        done, _ = wait(self._futures, timeout=seconds, return_when=FIRST_COMPLETED)
        if self._should_stop():
            self.stop()
        while not self._reports.empty():
            self._progress(self._reports.get())
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            # The executor now ends the other workers by SIGTERM, which they ignore.
            self._end.close()
        return [(self._futures.pop(future), _outcome(future)) for future in done]

    def stop(self) -> None:
        """Ask the workers to stop at their next settled row."""
        self._stop.close()

    def close(self) -> None:
        """Stop the workers, and wait for their end."""
        self.stop()
        for future in list(self._futures):
            if future.cancel():
                del self._futures[future]
        # A full pipe of progress reports would block a worker, so they are read to the end.
        while self._futures:
            self.wait(WORKER_PROGRESS_SECONDS)
        # Shut down once, and waiting: with wait=False a worker that is still starting would find
        # its locks gone.
        self._pool.shutdown(wait=True)
        for pipe in (self._stopped, self._end, self._ended, self._reports):
            pipe.close()


def _outcome(future: Future[ImportResult | DdbloadError]) -> ImportResult | DdbloadError:
    try:
        return future.result()
    except BrokenProcessPool:
        return WorkerDied(
            "a worker process was killed or ran out of memory; resume the run, with fewer"
            " --processes if memory was short"
        )


# The code below runs in worker processes.
_worker: ChunkWorker | DdbloadError | None = None


def _init_worker(
    settings: LocalSettings,
    run: str,
    stopped: connection.Connection,
    ended: connection.Connection,
    reports: SimpleQueue[ChunkProgress],
) -> None:
    global _worker  # noqa: PLW0603 - a pool's initializer cannot return the worker
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    unblock_interrupts()
    threading.Thread(target=_end_with_parent, args=(ended,), daemon=True).start()
    last = 0.0

    def progress(now: ChunkProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= WORKER_PROGRESS_SECONDS:
            last = time.monotonic()
            reports.put(now)

    try:
        # Nothing is sent over the pipe; poll returns True once the other end is closed.
        context = settings.context(should_stop=stopped.poll, progress=progress)
        _worker = worker = ChunkWorker(settings, context, run)
        # Called when the pool shuts down; at-exit functions are not, in processes of a pool.
        util.Finalize(worker, worker.close, exitpriority=0)
    except DdbloadError as error:
        _worker = error


def _step(task: ImportTask) -> ImportResult | DdbloadError:
    if isinstance(_worker, ChunkWorker):
        return _worker.step(task)
    return _worker or WorkerDied("a worker process was not set up")


def _end_with_parent(ended: connection.Connection) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        # Nothing is sent over the pipe.
        connection.wait([parent.sentinel, ended])
        os._exit(1)
