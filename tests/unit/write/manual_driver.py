"""A scheduler that a test drives by hand, under a clock of its own."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from typing import Any

from ddbload.contracts.results import RowCounts
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.messages import Accepted, Answer, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler

SMALL = 100
"""Bytes of a row where its size does not matter: one write unit."""


def object_keys(count: int) -> list[Hashable]:
    """Keys that are equal to no other key."""
    return [object() for _ in range(count)]


class ManualDriver:
    """Handles are 0, 1, 2, … in the order of the rows. Waiting moves the clock."""

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

    def offer(self, *keys: Hashable, size: int = SMALL, wire_bytes: int = SMALL) -> list[int]:
        handles = [self.scheduler.reserve_handles() for _ in keys]
        for handle, key in zip(handles, keys, strict=True):
            self.scheduler.offer(handle, key, size, wire_bytes)
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
        """Move the clock to when something may go; the time."""
        step = self.step()
        assert isinstance(step, Wait)
        assert step.until is not None, "nothing may go before an answer"
        assert step.until > self.now, "a wait that is over already"
        self.now = step.until
        return self.now

    def batch(self) -> Batch:
        """The next batch, after waiting for its time."""
        for _ in range(100):
            step = self.step()
            if isinstance(step, Batch):
                return step
            self.wait()
        raise AssertionError("it waits for ever")

    def idle(self) -> bool:
        """Whether nothing may go before an answer."""
        return self.step() == Wait(None)

    def answer(self, batch: Batch, answer: Answer) -> None:
        self.scheduler.answered(batch, answer, self.now)

    def accept(self, batch: Batch, *unprocessed: int) -> None:
        """Answer that all is written but the rows with these handles."""
        places = [batch.handles.index(handle) for handle in unprocessed]
        self.answer(batch, Accepted(places, float(len(batch.handles) - len(places))))

    def accept_all(self) -> list[tuple[int, ...]]:
        """Send and write everything that is left; the batches' handles."""
        sent = []
        while self.scheduler.outcomes.ahead:
            batch = self.batch()
            sent.append(batch.handles)
            self.accept(batch)
        return sent

    def finish(self) -> list[tuple[int, ...]]:
        """As accept_all, and no rows are to come."""
        self.scheduler.close()
        sent = self.accept_all()
        assert self.step() == Finished()
        assert self.counts.conserved
        assert sorted(self.released) == list(range(self.scheduler.outcomes.known))
        return sent
