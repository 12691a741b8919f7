"""Drivers: feed rows to the scheduler, send the requests it makes, and pass on their answers.

`ThreadsDriver` sends through botocore, one request at a time or several in threads.
`EventLoopDriver` sends from one thread, over connections of its own.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ddbload.aws.http_client.event_loop import HttpLoop
from ddbload.aws.http_client.http1 import Response
from ddbload.contracts.options import ASYNC, SYNC, Options
from ddbload.write.requests import ItemOrKey
from ddbload.write.scheduler.messages import Answer, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler

DRIVER_POLL_SECONDS = 0.2
"""Longest sleep of a driver before it calls `should_stop` again."""


@dataclass(frozen=True, slots=True)
class Job:
    """Writing of one byte range: its scheduler, its rows, and the transport for requests."""

    scheduler: Scheduler
    feed: Callable[[int], bool]
    """Adds up to this many rows to the scheduler; returns False at the end of the rows."""
    items: Callable[[Sequence[int]], Sequence[ItemOrKey]]
    """Builds the items, or the keys to delete, of the rows with these handles."""
    body: Callable[[Sequence[int]], bytes]
    """Builds the body of the request that writes these rows."""
    transport: Any
    """Sends for the driver: a `BotoTransport` in threads, a `RawTransport` in an event loop."""
    should_stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def step(self) -> Batch | Wait | Finished:
        """Feed the scheduler until a request is full or there is no room; return its next step."""
        scheduler = self.scheduler
        while True:
            # Checked before each feed: a stretch of rejects alone never leaves this loop.
            if self.should_stop():
                scheduler.stop()
            elif self.clock() >= scheduler.deadline:
                scheduler.expire()
            room = scheduler.room()
            if room <= 0:
                break
            if not self.feed(room):
                scheduler.close()
            elif scheduler.is_full:
                # Reading more first could delay this request for long.
                break
        return scheduler.next(self.clock())

    def pause(self, wait: Wait) -> float:
        """Compute the seconds to sleep before the next step, at most `DRIVER_POLL_SECONDS`."""
        left = DRIVER_POLL_SECONDS if wait.until is None else wait.until - self.clock()
        return min(max(left, 0.0), DRIVER_POLL_SECONDS)


_Task = Callable[[], None]


class ThreadsDriver:
    """Driver of `--engine threads`: up to `concurrency` requests in flight, each in a thread."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._threads: list[threading.Thread] = []
        # None ends a thread.
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._is_closed = False

    def run(self, job: Job) -> None:
        """Run a job until its scheduler is finished."""
        if self._is_closed:
            raise RuntimeError("the driver is closed")
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]] = queue.SimpleQueue()
        in_flight = 0

        def send(batch: Batch, items: Sequence[ItemOrKey]) -> None:
            try:
                answers.put((batch, job.transport.send(items)))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                answers.put((batch, error))

        def process_answers(pause: float) -> None:
            """Pass answers to the scheduler; wait up to `pause` seconds for the first one."""
            nonlocal in_flight
            with suppress(queue.Empty):
                while True:
                    batch, answer = answers.get(timeout=pause) if pause else answers.get_nowait()
                    in_flight -= 1
                    pause = 0.0
                    if isinstance(answer, BaseException):
                        raise answer
                    job.scheduler.answered(batch, answer, job.clock())

        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        break
                    case Wait() if in_flight:
                        process_answers(job.pause(step))
                    case Wait():
                        job.sleep(job.pause(step))
                    case batch:
                        self._begin(partial(send, batch, job.items(batch.handles)), in_flight)
                        in_flight += 1
                        # One request at a time: nothing is read while it is in flight.
                        process_answers(DRIVER_POLL_SECONDS if self._concurrency == 1 else 0.0)
        except BaseException:
            # The next job may write the same keys.
            for _ in range(in_flight):
                answers.get()
            raise
        if in_flight:
            self._abandon()

    def close(self) -> None:
        """End the threads after their requests are answered."""
        self._is_closed = True
        threads = self._abandon()
        for thread in threads:
            thread.join()

    def _begin(self, task: _Task, in_flight: int) -> None:
        """Have a thread do a task, beside those that are in flight."""
        if len(self._threads) < min(in_flight + 1, self._concurrency):
            # Daemons, because the end of the process waits for no answer.
            thread = threading.Thread(target=_work, args=(self._tasks,), name="write", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._tasks.put(task)

    def _abandon(self) -> list[threading.Thread]:
        """Let the threads end after their requests, and return them."""
        threads, self._threads = self._threads, []
        tasks, self._tasks = self._tasks, queue.SimpleQueue()
        for _ in threads:
            tasks.put(None)
        return threads


def _work(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task()


class EventLoopDriver:
    """Driver of `--engine async`: up to `concurrency` requests in flight, all in one thread."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: HttpLoop | None = None

    def run(self, job: Job) -> None:
        """Run a job until its scheduler is finished."""
        if self._loop is None:
            self._loop = job.transport.connect(self._concurrency)
        loop = self._loop
        finished = False
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        # After a stop there may be requests that nobody waits for.
                        finished = loop.free() == self._concurrency
                        return
                    case Wait():
                        _process_answers(job, loop, job.pause(step))
                    case batch:
                        request, generation = job.transport.request(
                            job.body(batch.handles), len(batch.handles)
                        )
                        loop.send((batch, generation), request)
        finally:
            if not finished:
                # The answers of requests in flight must not reach the next job.
                self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _process_answers(job: Job, loop: HttpLoop, pause: float) -> None:
    """Pass answers to the scheduler; wait up to `pause` seconds for the first one."""
    for (batch, generation), outcome in loop.wait(pause):
        if isinstance(outcome, Response) and outcome.resent:
            job.scheduler.note_resent(batch)
        handles = batch.handles
        items = partial(job.items, handles)
        answer = job.transport.answer(outcome, generation, len(handles), items)
        job.scheduler.answered(batch, answer, job.clock())


Driver = ThreadsDriver | EventLoopDriver
"""Runs jobs, one after the other. The caller closes it after the last one."""


def concurrency_for(options: Options) -> int:
    """Return the number of requests that may be in flight."""
    return 1 if options.engine == SYNC else options.concurrency


def driver_for(options: Options) -> Driver:
    """Make the driver of a run's engine. The caller closes it."""
    concurrency = concurrency_for(options)
    return EventLoopDriver(concurrency) if options.engine == ASYNC else ThreadsDriver(concurrency)
