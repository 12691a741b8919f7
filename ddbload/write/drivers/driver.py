"""The job that a driver runs: feed rows to the scheduler, and send the batches that it makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ddbload.write.requests import ItemOrKey
from ddbload.write.scheduler.messages import Answer, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler

DRIVER_POLL_SECONDS = 0.2
"""Longest sleep of a driver before it calls `should_stop` again."""


class FollowUp(NamedTuple):
    """A request that an answer makes necessary, before its rows have an outcome."""

    request: bytes
    state: Any
    """What the transport takes with the answer."""


class Transport(Protocol):
    """Sends one request at a time, and returns its answer. Thread-safe."""

    def send(self, items: Sequence[ItemOrKey]) -> Answer:
        """Write rows with different keys. AWS failures are returned as answers, never raised."""


T = TypeVar("T")
"""The transport that a driver needs: a `Transport`, or the event loop's `LoopTransport`."""


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """Writing of one byte range: its scheduler, its rows, and the transport for requests."""

    scheduler: Scheduler
    feed: Callable[[int], bool]
    """Adds up to this many rows to the scheduler; returns False at the end of the rows."""
    items: Callable[[Sequence[int]], Sequence[ItemOrKey]]
    """Builds the items, or the keys to delete, of the rows with these handles."""
    body: Callable[[Sequence[int]], Any]
    """Builds what the event loop's transport takes for a request that writes these rows: the
    request's body, or the rows themselves."""
    transport: T
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
        """Compute the seconds to sleep before the next step, at most `POLL_SECONDS`."""
        left = DRIVER_POLL_SECONDS if wait.until is None else wait.until - self.clock()
        return min(max(left, 0.0), DRIVER_POLL_SECONDS)


class Driver(Protocol):
    """Runs jobs, one after the other. The caller closes it after the last one."""

    def run(self, job: Job[Any]) -> None:
        """Run a job until its scheduler is finished."""

    def close(self) -> None:
        """End threads and connections."""
