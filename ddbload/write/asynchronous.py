"""One thread over many connections that do not block: the scheduler's, and the network's, own."""

from __future__ import annotations

from functools import partial

from ddbload.aws_http.http1 import Response
from ddbload.aws_http.loop import HttpLoop
from ddbload.write.driver import Job
from ddbload.write.steps import Finished, Wait
from ddbload.write.wire import Wire


class AsyncDriver:
    """Up to `concurrency` requests under way."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: HttpLoop | None = None

    def run(self, job: Job[Wire]) -> None:
        """Return when the scheduler is finished."""
        if self._loop is None:
            self._loop = job.transport.connect(self._concurrency)
        loop = self._loop
        finished = False
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        finished = True
                        return
                    case Wait():
                        _take(job, loop, job.pause(step))
                    case batch:
                        request, signed = job.transport.request(job.body(batch.handles))
                        loop.send((batch, signed), request)
        finally:
            if not finished:
                # What is under way may still be carried out; its answers are for nobody.
                self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _take(job: Job[Wire], loop: HttpLoop, pause: float) -> None:
    """Hand the scheduler what has come, waiting up to `pause` seconds for the first."""
    for (batch, signed), outcome in loop.wait(pause):
        if isinstance(outcome, Response) and outcome.resent:
            job.scheduler.doubt(batch)
        answer = job.transport.answer(outcome, signed, partial(job.items, batch.handles))
        job.scheduler.answered(batch, answer, job.clock())
