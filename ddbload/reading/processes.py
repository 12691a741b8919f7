"""Pool of worker processes, none of which outlives this process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ddbload.errors import DdbloadError, WorkerDied
from ddbload.parallel import map_in_order

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

T = TypeVar("T")
R = TypeVar("R")
MakeWorker = Callable[[Callable[[], bool], Callable[[Any], None]], Callable[[T], R]]
"""Maker of a process's worker, from a function that returns whether to stop and one that reports
progress. It is pickled, or inherited by a fork."""
POOL_POLL_SECONDS = 0.1
"""Seconds between two looks at the reports of workers, and at whether to stop."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class ProcessPool(Generic[T, R]):
    """Pool of worker processes for tasks.

    They ignore Ctrl-C and SIGTERM, which a terminal or a service manager sends to all processes:
    this process stops them.
    """

    def __init__(
        self,
        count: int,
        make_worker: MakeWorker[T, R],
        *,
        tasks_each: int,
        may_fork: bool = False,
        report: Callable[[Any], object] = lambda _: None,
        folder: str | None = None,
        advice: str = "try again",
    ) -> None:
        """Make a pool, which starts processes with its first tasks.

        Args:
            count: Number of processes.
            make_worker: Maker of the worker of each process.
            tasks_each: Tasks of a process that are queued, under way, or not yielded yet.
            may_fork: Fork where that is safe. A fork needs no imports again, but copies locks that
                other threads hold.
            report: Called with each report of a worker.
            folder: Temporary folder of the workers, which they remove if this process is killed.
            advice: What to do if a process was killed.
        """
        # If this process is killed, multiprocessing's tracker cleans up and prints a warning, which
        # a user cannot act on.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
        can_fork = may_fork and sys.platform == "linux" and threading.active_count() == 1
        start: Any = multiprocessing.get_context("fork" if can_fork else "spawn")
        self._ahead, self._report, self._advice = tasks_each * count, report, advice
        # Closing one end asks the workers to stop. An Event has a lock, which a worker could hold
        # when it is killed.
        stopped, self._stop = start.Pipe(duplex=False)
        # Closing this one ends them at once.
        ended, self._end = start.Pipe(duplex=False)
        self._reports: SimpleQueue[Any] = start.SimpleQueue()
        self._pipes = (stopped, self._stop, ended, self._end, self._reports)
        inherited = (self._stop, self._end) if can_fork else ()
        links = (stopped, ended, self._reports, inherited, folder)
        self._pool = ProcessPoolExecutor(count, start, _begin, (make_worker, *links))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers at once, whatever they do."""
        self._end.close()
        self._close(cancel=True)

    def map_in_order(self, tasks: Iterable[T]) -> Generator[tuple[T, R]]:
        """Yield each task with its result, in order. Raises `WorkerDied` and the worker's error."""
        try:
            yield from map_in_order(self._submit, tasks, self._ahead)
        except BrokenProcessPool:
            raise self._died() from None

    def map_as_done(
        self, tasks: deque[T], look: Callable[[], bool]
    ) -> Generator[tuple[T, R | DdbloadError]]:
        """Yield tasks and their results as they come, until none is left; more may be added.

        `look` is called often, and returns True to have the workers stop. When the generator is
        closed, tasks under way are waited for.
        """
        running: dict[Future[R], T] = {}
        try:
            while tasks or running:
                while tasks and len(running) < self._ahead:
                    task = tasks.popleft()
                    running[self._submit(task)] = task
                yield from self._done(running)
                if look():
                    self._stop.close()
        finally:
            self._stop.close()
            for future in [each for each in running if each.cancel()]:
                del running[future]
            # A full pipe of reports would block a worker, so they are read to the end.
            while running:
                for _ in self._done(running):
                    pass
            # Shut down once, and waiting: with wait=False a worker that is still starting would
            # find its locks gone.
            self._close()

    def _submit(self, task: T) -> Future[R]:
        with interrupts_blocked():
            try:
                return self._pool.submit(_work, task)
            except BrokenProcessPool as error:
                future: Future[R] = Future()
                future.set_exception(error)
                return future

    def _done(self, running: dict[Future[R], T]) -> Iterator[tuple[T, R | DdbloadError]]:
        """Wait a little for finished tasks, and pass on reports of the others."""
        done, _ = wait(running, timeout=POOL_POLL_SECONDS, return_when=FIRST_COMPLETED)
        while not self._reports.empty():
            self._report(self._reports.get())
        for future in done:
            task = running.pop(future)
            result: R | DdbloadError
            try:
                result = future.result()
            except DdbloadError as error:
                result = error
            except BrokenProcessPool:
                # The executor now ends the other workers by SIGTERM, which they ignore.
                self._end.close()
                result = self._died()
            yield task, result

    def _close(self, *, cancel: bool = False) -> None:
        self._pool.shutdown(wait=True, cancel_futures=cancel)
        for pipe in self._pipes:
            pipe.close()

    def _died(self) -> WorkerDied:
        return WorkerDied(
            f"a worker process was killed or ran out of memory; {self._advice}, with fewer"
            " --processes if memory was short"
        )


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM while processes are started.

    A process inherits that until `unblock_interrupts`. An exception that a handler raises in the
    middle of a fork would be printed and lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The code below runs in worker processes.
_worker: Callable[[Any], Any]


def _begin(
    make_worker: MakeWorker[Any, Any],
    stopped: connection.Connection,
    ended: connection.Connection,
    reports: SimpleQueue[Any],
    inherited: Iterable[connection.Connection],
    folder: str | None,
) -> None:
    global _worker  # noqa: PLW0603 - a pool's initializer cannot return the worker
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    for other in inherited:
        # Held open here, the end of the parent would go unnoticed.
        other.close()
    threading.Thread(target=_end_with_parent, args=(ended, folder), daemon=True).start()
    try:
        # Nothing is sent over the pipe; poll returns True once the other end is closed.
        _worker = make_worker(stopped.poll, reports.put)
    except Exception as error:  # noqa: BLE001 - each task raises it, in its turn
        failure = error

        def fail(_: Any) -> None:
            raise failure

        _worker = fail


def _work(task: Any) -> Any:
    return _worker(task)


def _end_with_parent(ended: connection.Connection, folder: str | None) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        # Nothing is sent over the pipe.
        connection.wait([parent.sentinel, ended])
        if folder is not None:
            # Renamed first, so that no process makes another file in it meanwhile.
            with contextlib.suppress(OSError):
                os.rename(folder, f"{folder}-")  # noqa: PTH104 - no path otherwise
            shutil.rmtree(f"{folder}-", ignore_errors=True)
        os._exit(1)
