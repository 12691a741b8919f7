"""Worker processes, which take any free chunk and report how far each is."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TYPE_CHECKING

from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.errors import DdbloadError, WorkerDied
from ddbload.pipeline.context import ChunkProgress
from ddbload.runs.local_settings import LocalSettings
from ddbload.runs.worker_pool import FinishedTask, Worker

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue


PROGRESS_SECONDS = 0.1


class ProcessPool:
    """Worker processes. They ignore Ctrl-C: who started them says when to stop."""

    def __init__(
        self,
        count: int,
        settings: LocalSettings,
        run: str,
        *,
        should_stop: Callable[[], bool],
        progress: Callable[[ChunkProgress], None],
    ) -> None:
        # When this process is killed, or told twice to stop, multiprocessing's tracker tidies up
        # after it. That is not worth a warning in the user's terminal.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
        # spawn: a fork would copy whatever locks this process's threads hold just then.
        start = multiprocessing.get_context("spawn")
        self.size = 2 * count
        self._should_stop = should_stop
        self._progress = progress
        # Closing one end tells the others. Unlike an Event it has no lock that a worker could
        # take with it when it is killed.
        self._stopped, self._stop = start.Pipe(duplex=False)
        self._reports: SimpleQueue[ChunkProgress] = start.SimpleQueue()
        self._pool = ProcessPoolExecutor(
            count, start, _init_worker, (settings, run, self._stopped, self._reports)
        )
        self._futures: dict[Future[ImportResult | DdbloadError], ImportTask] = {}

    def submit(self, task: ImportTask) -> None:
        """Have a task done by the next free worker."""
        with _interrupts_blocked():
            try:
                future = self._pool.submit(_step, task)
            except BrokenProcessPool as error:
                future = Future()
                future.set_exception(error)
        self._futures[future] = task

    def wait(self, seconds: float) -> list[FinishedTask]:
        """What is finished, after passing on progress."""
        done, _ = wait(self._futures, timeout=seconds, return_when=FIRST_COMPLETED)
        if self._should_stop():
            self.stop()
        while not self._reports.empty():
            self._progress(self._reports.get())
        return [(self._futures.pop(future), _outcome(future)) for future in done]

    def stop(self) -> None:
        """Have the tasks under way hand on their cursors soon."""
        self._stop.close()

    def close(self) -> None:
        """Tell the workers to stop, and wait for them."""
        self.stop()
        for future in list(self._futures):
            if future.cancel():
                del self._futures[future]
        # A worker whose reports nobody reads would wait for that, and not end.
        while self._futures:
            self.wait(PROGRESS_SECONDS)
        # Told once: a pool that was told before not to wait, waits for nobody, and a worker that
        # is still starting would find its locks gone.
        self._pool.shutdown(wait=True)
        self._stopped.close()
        self._reports.close()


def _outcome(future: Future[ImportResult | DdbloadError]) -> ImportResult | DdbloadError:
    try:
        return future.result()
    except BrokenProcessPool:
        return WorkerDied(
            "a worker process ended without an answer: killed, or out of memory; give the same run"
            " id again, with fewer --processes if memory was short"
        )


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that is started meanwhile has SIGINT blocked, until it ignores it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What follows runs in worker processes.
_worker: Worker | DdbloadError | None = None


def _init_worker(
    settings: LocalSettings,
    run: str,
    stopped: connection.Connection,
    reports: SimpleQueue[ChunkProgress],
) -> None:
    global _worker  # noqa: PLW0603 - a pool's initializer has no other way to hand on
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    last = 0.0

    def progress(now: ChunkProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            reports.put(now)

    try:
        # Nothing is ever sent: there is something to read when the other end is closed.
        context = settings.context(should_stop=stopped.poll, progress=progress)
        _worker = Worker(settings, context, run)
    except DdbloadError as error:
        _worker = error


def _step(task: ImportTask) -> ImportResult | DdbloadError:
    if isinstance(_worker, Worker):
        return _worker.step(task)
    return _worker or WorkerDied("a worker process was not set up")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
