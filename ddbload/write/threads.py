"""A pool of threads over one shared client: the scheduler stays in the caller's thread."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ddbload.write.driver import Job, PutItem, Transport
from ddbload.write.steps import Answer, Batch, Finished, Wait


class ThreadsDriver:
    """Up to `concurrency` requests under way."""

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="write")

    def run(self, job: Job[Transport]) -> None:
        """Return when the scheduler is finished."""
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]] = queue.SimpleQueue()

        def send(batch: Batch, items: Sequence[PutItem]) -> None:
            try:
                answers.put((batch, job.transport.send(items)))
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
                answers.put((batch, error))

        under_way: set[Future[None]] = set()
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        return
                    case Wait():
                        self._take(job, answers, job.pause(step))
                    case batch:
                        future = self._pool.submit(send, batch, job.items(batch.handles))
                        under_way.add(future)
                        future.add_done_callback(under_way.discard)
                        self._take(job, answers, 0.0)
        finally:
            # Also after an exception: the next job may have rows of the same keys.
            wait(set(under_way))

    def close(self) -> None:
        """End the threads, once their requests are answered."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _take(
        job: Job[Transport],
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]],
        pause: float,
    ) -> None:
        """Hand the scheduler what has come, waiting up to `pause` seconds for the first."""
        try:
            batch, answer = answers.get(timeout=pause) if pause > 0 else answers.get_nowait()
            while True:
                if isinstance(answer, BaseException):
                    raise answer
                job.scheduler.answered(batch, answer, job.clock())
                batch, answer = answers.get_nowait()
        except queue.Empty:
            return
