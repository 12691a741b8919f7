"""Driver that a test steps by hand, with a clock that only waits advance."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from typing import Any

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler

SMALL = 100
"""Bytes of a row of one write unit, for tests in which the size does not matter."""


def object_keys(count: int) -> list[Hashable]:
    """Make keys that differ from all other keys."""
    return [object() for _ in range(count)]


class ManualDriver:
    """A scheduler with its clock. Handles are 0, 1, 2, … in the order of the offered rows."""

    def __init__(
        self,
        concurrency: int = 16,
        deadline: float = math.inf,
        max_wcu: float | None = None,
        seed: int = 1,
        **more: Any,
    ) -> None:
        self.now = 0.0
        self.released: list[int] = []
        self.scheduler = Scheduler(
            concurrency=concurrency,
            deadline=deadline,
            rng=random.Random(seed),
            pacing=Pacing(random.Random(seed), max_wcu),
            on_release=self.released.extend,
            **more,
        )

    @property
    def counts(self) -> RowCounts:
        return self.scheduler.outcomes.counts

    @property
    def frontier(self) -> int:
        return self.scheduler.outcomes.frontier

    def offer(self, *keys: Hashable, size: int = SMALL, json_bytes: int = SMALL) -> list[int]:
        handles = [self.scheduler.reserve_handles() for _ in keys]
        for handle, key in zip(handles, keys, strict=True):
            self.scheduler.offer(handle, key, size, json_bytes)
        return handles

    def offer_all(self, *keys: Hashable, units: Sequence[int] | None = None) -> Sequence[int]:
        first = self.scheduler.reserve_handles(len(keys))
        handles = range(first, first + len(keys))
        self.scheduler.offer_all(handles, keys, units, SMALL)
        return handles

    def reject(self) -> int:
        handle = self.scheduler.reserve_handles()
        self.scheduler.reject(handle)
        return handle

    def step(self) -> Batch | Wait | Finished:
        return self.scheduler.next(self.now)

    def wait(self) -> float:
        """Advance the clock to the end of the scheduler's wait; return the time."""
        step = self.step()
        assert isinstance(step, Wait)
        assert step.until is not None, "the scheduler waits for an answer"
        assert step.until > self.now, "the wait is already over"
        self.now = step.until
        return self.now

    def batch(self) -> Batch:
        """Wait for the next batch and return it."""
        for _ in range(100):
            step = self.step()
            if isinstance(step, Batch):
                return step
            self.wait()
        raise AssertionError("no batch after 100 waits")

    def idle(self) -> bool:
        """Return whether the scheduler waits for an answer."""
        return self.step() == Wait(None)

    def answer(self, batch: Batch, answer: Answer) -> None:
        self.scheduler.answered(batch, answer, self.now)

    def accept(self, batch: Batch, *unprocessed: int) -> None:
        """Accept a batch except for the rows with these handles."""
        indexes = [batch.handles.index(handle) for handle in unprocessed]
        self.answer(batch, Accepted(indexes, float(len(batch.handles) - len(indexes))))

    def accept_all(self) -> list[tuple[int, ...]]:
        """Send and accept all remaining batches; return their handles."""
        sent = []
        while self.scheduler.outcomes.ahead:
            batch = self.batch()
            sent.append(batch.handles)
            self.accept(batch)
        return sent

    def finish(self) -> list[tuple[int, ...]]:
        """Close the scheduler, then send and accept all remaining batches."""
        self.scheduler.close()
        sent = self.accept_all()
        assert self.step() == Finished()
        assert self.counts.conserved
        assert sorted(self.released) == list(range(self.scheduler.outcomes.known))
        return sent
