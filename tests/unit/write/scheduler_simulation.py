"""A scheduler against a table that lies, throttles, loses answers and refuses, in virtual time."""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from dataclasses import dataclass
from unittest import mock

from ddbload.dynamodb import limits
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.messages import (
    Accepted,
    Answer,
    Batch,
    Finished,
    Refused,
    Throttled,
    Unsure,
    Wait,
)
from ddbload.write.scheduler.scheduler import Scheduler

MAX_STEPS = 100_000
MAX_LATENCY = 0.05

FAULTS = (
    "throttled",
    "all_returned",
    "some_returned",
    # Written, and returned as if it were not.
    "returned_and_written",
    "lost",
    "lost_and_written",
)


@dataclass(frozen=True)
class Scenario:
    """What rows there are, and what the table does to them."""

    seed: int = 0
    rows: int = 60
    keys: int = 0
    """Rows take their keys from so many; 0: each row has a key of its own."""
    invalid: float = 0.0
    """The share of rows that the table refuses."""
    rejects: float = 0.0
    """The share of rows that are rejected before they are sent."""
    faults: tuple[str, ...] = ()
    """Of FAULTS, and `late`: no answer, and written later."""
    fault_rate: float = 0.0
    recovers_after: int = 150
    """So many answers; from then on there are no faults."""
    odd: float = 0.0
    """The share of rows that are offered one by one."""
    batch_rows: int = 25
    ahead: int = 20_000
    concurrency: int = 4
    max_wcu: float | None = None
    deadline: float = math.inf
    stops_after: int | None = None
    """So many answers."""


@dataclass(frozen=True)
class Row:
    """A row as the source has it. Rows are known by their place in it, as by their handle."""

    key: int
    valid: bool
    rejected: bool


class SchedulerSimulation:
    """One run. What went against the scheduler's laws is in `breaches`."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rng = rng = random.Random(scenario.seed)
        self.source = [
            Row(
                key=rng.randrange(scenario.keys) if scenario.keys else place,
                valid=rng.random() >= scenario.invalid,
                rejected=rng.random() < scenario.rejects,
            )
            for place in range(scenario.rows)
        ]
        self.table: dict[int, int] = {}
        """The row that each key holds."""
        self.said_written: set[int] = set()
        self.released: list[int] = []
        self.breaches: list[str] = []
        self.now = 0.0
        self.recovered_at = 0.0
        self.answers = 0
        self.answers_since = 0
        """Since the table recovered."""
        self.scheduler = Scheduler(
            concurrency=scenario.concurrency,
            deadline=scenario.deadline,
            rng=rng,
            pacing=Pacing(rng, scenario.max_wcu),
            batch_rows=scenario.batch_rows,
            on_release=self.released.extend,
        )
        self._told = 0
        self._flights: dict[int, tuple[float, Batch]] = {}
        self._sent: defaultdict[int, set[int]] = defaultdict(set)
        self._landing: list[tuple[float, tuple[int, ...]]] = []

    def run(self) -> SchedulerSimulation:
        """Run it to its end. Raises AssertionError where it does not come to one."""
        with (
            mock.patch.object(limits, "MAX_BATCH_ROWS", self._scenario.batch_rows),
            mock.patch.object(Scheduler, "MAX_AHEAD", self._scenario.ahead),
        ):
            for _ in range(MAX_STEPS):
                self._feed(self._rng.choice((0, 1, 3, self._scenario.rows)))
                if self._flights and self._rng.random() < 0.2:
                    self._answer_one()
                step = self.scheduler.next(self.now)
                if isinstance(step, Finished):
                    break
                if isinstance(step, Batch):
                    self._send(step)
                else:
                    self._wait(step)
            else:
                raise AssertionError("it does not end")
        assert not self._flights
        self._land(math.inf)
        return self

    def rows_of(self, key: int) -> list[int]:
        """The rows that may be written under a key, in order."""
        return [
            place
            for place, row in enumerate(self.source)
            if row.key == key and row.valid and not row.rejected
        ]

    @property
    def recovered(self) -> bool:
        return self.answers >= self._scenario.recovers_after or not self._scenario.faults

    def _feed(self, most: int) -> None:
        count = min(most, self.scheduler.room(), len(self.source) - self._told)
        first = self.scheduler.reserve_handles(count)
        assert first == self._told
        self._told += count
        if self.scheduler.outcomes.ahead > self._scenario.ahead:
            self.breaches.append("more rows are known than may be")
        together: list[int] = []
        for handle in range(first, self._told):
            if self.source[handle].rejected:
                self.scheduler.reject(handle)
            elif self._rng.random() < self._scenario.odd:
                self._offer(together)
                self.scheduler.offer(handle, self.source[handle].key, 100, 100)
                together = []
            else:
                together.append(handle)
        self._offer(together)
        if self._told == len(self.source):
            self.scheduler.close()

    def _offer(self, handles: list[int]) -> None:
        keys = [self.source[handle].key for handle in handles]
        if keys:
            self.scheduler.offer_all(handles, keys, None, 100)

    def _send(self, batch: Batch) -> None:
        keys = [self.source[handle].key for handle in batch.handles]
        under_way = {
            self.source[handle].key
            for _, other in self._flights.values()
            for handle in other.handles
        }
        if len(set(keys)) < len(keys):
            self.breaches.append(f"{batch} holds a key twice")
        if under_way & set(keys):
            self.breaches.append(f"{batch} holds a key that is under way")
        if not 0 < len(keys) <= self._scenario.batch_rows:
            self.breaches.append(f"{batch} has a wrong size")
        # Where nothing went before it, one may.
        if self.now >= self._scenario.deadline and any(self._sent.values()):
            self.breaches.append(f"{batch} goes after the deadline")
        for handle, key in zip(batch.handles, keys, strict=True):
            later = {other for other in self._sent[key] if other > handle}
            if later - self.scheduler.refused.keys():
                self.breaches.append(f"{handle} goes while a later row of its key comes back")
            if handle in self.said_written or handle in self.scheduler.refused:
                self.breaches.append(f"{handle} goes again")
            self._sent[key].add(handle)
        arrival = self.now + self._rng.uniform(0, MAX_LATENCY)
        self._flights[batch.number] = (arrival, batch)
        if len(self._flights) > self._scenario.concurrency:
            self.breaches.append("too many requests are under way")

    def _wait(self, step: Wait) -> None:
        if step.until is not None and step.until <= self.now:
            raise AssertionError("it waits for a time that has passed")
        first = min((at for at, _ in self._flights.values()), default=math.inf)
        until = math.inf if step.until is None else step.until
        if first <= until and first < math.inf:
            self._answer_one()
        elif until < math.inf:
            self.now = until
        elif self._told < len(self.source):
            if not self.scheduler.room():
                raise AssertionError("it waits, and has no room for rows")
            self._feed(1)
        else:
            raise AssertionError("it waits for nothing")

    def _answer_one(self) -> None:
        number, (at, batch) = min(self._flights.items(), key=lambda item: item[1][0])
        del self._flights[number]
        self.now = max(self.now, at)
        self._land(self.now)
        answer = self._answer(batch)
        if self.recovered:
            self.answers_since += 1
        else:
            self.recovered_at = self.now
        self.answers += 1
        if self.answers == self._scenario.stops_after:
            self.scheduler.stop()
        self.scheduler.answered(batch, answer, self.now)

    def _answer(self, batch: Batch) -> Answer:
        scenario, rng = self._scenario, self._rng
        fault = ""
        if not self.recovered and rng.random() < scenario.fault_rate:
            fault = rng.choice(scenario.faults)
        valid = all(self.source[handle].valid for handle in batch.handles)
        if fault == "throttled":
            return Throttled("ThrottlingException")
        if fault.startswith("lost") or fault == "late":
            if valid and fault == "lost_and_written":
                self._write(batch.handles)
            elif valid and fault == "late":
                heapq.heappush(self._landing, (self.now + rng.uniform(0, 2), batch.handles))
            return Unsure("no answer")
        if not valid:
            return Refused("a row is bad")
        places = range(len(batch.handles))
        returned: list[int] = []
        if fault == "all_returned":
            returned = list(places)
        elif fault:
            returned = rng.choices(places, k=rng.randrange(len(places) + 1))
        done = [handle for place, handle in enumerate(batch.handles) if place not in returned]
        self._write(batch.handles if fault == "returned_and_written" else done)
        self.said_written.update(done)
        return Accepted(returned, float(len(done)))

    def _write(self, handles: list[int] | tuple[int, ...]) -> None:
        for handle in handles:
            self.table[self.source[handle].key] = handle

    def _land(self, now: float) -> None:
        while self._landing and self._landing[0][0] <= now:
            self._write(heapq.heappop(self._landing)[1])
