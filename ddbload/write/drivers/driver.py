"""What a driver is: it sends what the scheduler says, until that has nothing more to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ddbload.write.requests import PutItem
from ddbload.write.scheduler.messages import Answer, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler

POLL_SECONDS = 0.2
"""How long a driver may sleep without asking whether to stop."""


class Transport(Protocol):
    """Sends one request and says what came of it. Called from several threads at once."""

    def send(self, items: Sequence[PutItem]) -> Answer:
        """Write rows of different keys. Does not raise for anything AWS does."""


T = TypeVar("T")
"""What a driver sends with: a `Transport`, or another that it knows."""


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """A byte range's writing, for a driver."""

    scheduler: Scheduler
    feed: Callable[[int], bool]
    """Tells the scheduler of up to so many more rows; false when there are no more."""
    items: Callable[[Sequence[int]], Sequence[PutItem]]
    """The items of these handles."""
    body: Callable[[Sequence[int]], bytes]
    """The body of the request that writes them."""
    transport: T
    should_stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def step(self) -> Batch | Wait | Finished:
        """Feed the scheduler until a request is full, or there is no room, and ask what to do."""
        scheduler = self.scheduler
        while True:
            # Asked for each feed: a stretch of nothing but rejects has no other step.
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
                # What is read may take long, and what is read next as long again.
                break
        return scheduler.next(self.clock())

    def pause(self, wait: Wait) -> float:
        """How many seconds to sleep, at most, before the next step."""
        left = POLL_SECONDS if wait.until is None else wait.until - self.clock()
        return min(max(left, 0.0), POLL_SECONDS)


class Driver(Protocol):
    """Runs jobs, one after the other. Close it when there are no more."""

    def run(self, job: Job[Any]) -> None:
        """Return when the scheduler is finished."""

    def close(self) -> None:
        """End threads and connections."""
