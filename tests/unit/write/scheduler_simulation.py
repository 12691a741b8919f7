"""Simulation of the scheduler at a faulty table, in virtual time. Checks the scheduler's laws."""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from dataclasses import dataclass
from unittest import mock

from ddbload.dynamodb import limits
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import (
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
    # Written, but returned as unprocessed.
    "returned_and_written",
    "lost",
    "lost_and_written",
)


@dataclass(frozen=True)
class Scenario:
    """Rows of the source, and faults of the table."""

    seed: int = 0
    rows: int = 60
    keys: int = 0
    """Number of different keys; 0 gives each row a different key."""
    invalid: float = 0.0
    """Share of rows that the table refuses."""
    rejects: float = 0.0
    """Share of rows that are rejected before they are sent."""
    faults: tuple[str, ...] = ()
    """Faults from FAULTS, or `late`: no answer, and written later."""
    fault_rate: float = 0.0
    recovers_after: int = 150
    """Number of answers after which there are no faults."""
    offered_singly: float = 0.0
    """Share of rows that are offered one by one."""
    batch_rows: int = 25
    ahead: int = 20_000
    concurrency: int = 4
    max_wcu: float | None = None
    deadline: float = math.inf
    stops_after: int | None = None
    """Number of answers after which the scheduler is stopped; None for never."""


@dataclass(frozen=True)
class Row:
    """A row of the source. Its index there is also its handle."""

    key: int
    valid: bool
    rejected: bool


class SchedulerSimulation:
    """A simulated run of one scenario; `breaches` lists the broken laws."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rng = rng = random.Random(scenario.seed)
        self.source = [
            Row(
                key=rng.randrange(scenario.keys) if scenario.keys else index,
                valid=rng.random() >= scenario.invalid,
                rejected=rng.random() < scenario.rejects,
            )
            for index in range(scenario.rows)
        ]
        self.table: dict[int, int] = {}
        """Row in the table, by key."""
        self.reported_written: set[int] = set()
        self.released: list[int] = []
        self.breaches: list[str] = []
        self.now = 0.0
        self._stopped_at = math.inf
        self._maybe_written: set[int] = set()
        """Rows whose answer said so, or never came."""
        self.recovered_at = 0.0
        self.answers = 0
        self.answers_since = 0
        """Answers since the table recovered."""
        self.scheduler = Scheduler(
            concurrency=scenario.concurrency,
            deadline=scenario.deadline,
            rng=rng,
            pacing=Pacing(rng, scenario.max_wcu),
            batch_rows=scenario.batch_rows,
            on_release=self.released.extend,
        )
        self._offered = 0
        self._in_flight: dict[int, tuple[float, Batch]] = {}
        self._sent: defaultdict[int, set[int]] = defaultdict(set)
        self._late_writes: list[tuple[float, tuple[int, ...]]] = []

    def run(self) -> SchedulerSimulation:
        """Run to the end. Raises `AssertionError` if the scheduler does not finish."""
        with (
            mock.patch.object(limits, "MAX_BATCH_ROWS", self._scenario.batch_rows),
            mock.patch.object(Scheduler, "MAX_AHEAD", self._scenario.ahead),
        ):
            for _ in range(MAX_STEPS):
                self._feed(self._rng.choice((0, 1, 3, self._scenario.rows)))
                if self._in_flight and self._rng.random() < 0.2:
                    self._answer_one()
                step = self.scheduler.next(self.now)
                if isinstance(step, Finished):
                    break
                if isinstance(step, Batch):
                    self._send(step)
                else:
                    self._wait(step)
            else:
                raise AssertionError("the scheduler does not finish")
        # A stopped scheduler waits for answers no longer than this.
        gave_up = self.now >= self._stopped_at + Scheduler.SETTLE_SECONDS
        assert gave_up or not self._in_flight
        self._apply_late_writes(math.inf)
        return self

    def rows_of(self, key: int) -> list[int]:
        """List the valid rows of a key that are not rejected, in order."""
        return [
            index
            for index, row in enumerate(self.source)
            if row.key == key and row.valid and not row.rejected
        ]

    @property
    def recovered(self) -> bool:
        return self.answers >= self._scenario.recovers_after or not self._scenario.faults

    def _feed(self, most: int) -> None:
        count = min(most, self.scheduler.room(), len(self.source) - self._offered)
        first = self.scheduler.reserve_handles(count)
        assert first == self._offered
        self._offered += count
        if self.scheduler.outcomes.ahead > self._scenario.ahead:
            self.breaches.append("too many rows beyond the frontier")
        group: list[int] = []
        for handle in range(first, self._offered):
            if self.source[handle].rejected:
                self.scheduler.reject(handle)
            elif self._rng.random() < self._scenario.offered_singly:
                self._offer(group)
                self.scheduler.offer(handle, self.source[handle].key, 100, 100)
                group = []
            else:
                group.append(handle)
        self._offer(group)
        if self._offered == len(self.source):
            self.scheduler.close()

    def _offer(self, handles: list[int]) -> None:
        keys = [self.source[handle].key for handle in handles]
        if keys:
            self.scheduler.offer_all(handles, keys, None, 100)

    def _send(self, batch: Batch) -> None:
        keys = [self.source[handle].key for handle in batch.handles]
        keys_in_flight = {
            self.source[handle].key
            for _, other in self._in_flight.values()
            for handle in other.handles
        }
        if len(set(keys)) < len(keys):
            self.breaches.append(f"{batch} holds a key twice")
        if keys_in_flight & set(keys):
            self.breaches.append(f"{batch} holds a key that is in flight")
        if not 0 < len(keys) <= self._scenario.batch_rows:
            self.breaches.append(f"{batch} has a wrong size")
        # One request may go if none was sent before.
        if self.now >= self._scenario.deadline and batch.number:
            self.breaches.append(f"{batch} is sent after the deadline")
        for handle, key in zip(batch.handles, keys, strict=True):
            later = {other for other in self._sent[key] if other > handle}
            if self._stopped_at < math.inf:
                # Later rows that were not written are left to the next invocation.
                later &= self._maybe_written
            if later - self.scheduler.refused.keys():
                self.breaches.append(f"row {handle} is sent after a later row of its key")
            if handle in self.reported_written or handle in self.scheduler.refused:
                self.breaches.append(f"row {handle} is sent again after its outcome")
            self._sent[key].add(handle)
        arrival = self.now + self._rng.uniform(0, MAX_LATENCY)
        self._in_flight[batch.number] = (arrival, batch)
        if len(self._in_flight) > self._scenario.concurrency:
            self.breaches.append("too many requests in flight")

    def _wait(self, step: Wait) -> None:
        if step.until is not None and step.until <= self.now:
            raise AssertionError("the scheduler waits for a time that has passed")
        first = min((at for at, _ in self._in_flight.values()), default=math.inf)
        until = math.inf if step.until is None else step.until
        if first <= until and first < math.inf:
            self._answer_one()
        elif until < math.inf:
            self.now = until
        elif self._offered < len(self.source):
            if not self.scheduler.room():
                raise AssertionError("the scheduler waits for rows without room for them")
            self._feed(1)
        else:
            raise AssertionError("the scheduler waits for nothing")

    def _answer_one(self) -> None:
        number, (at, batch) = min(self._in_flight.items(), key=lambda item: item[1][0])
        del self._in_flight[number]
        self.now = max(self.now, at)
        self._apply_late_writes(self.now)
        answer = self._answer(batch)
        if self.recovered:
            self.answers_since += 1
        else:
            self.recovered_at = self.now
        self.answers += 1
        if self.answers == self._scenario.stops_after:
            self.scheduler.stop()
            self._stopped_at = self.now
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
                heapq.heappush(self._late_writes, (self.now + rng.uniform(0, 2), batch.handles))
            self._maybe_written.update(batch.handles)
            return Unsure("no answer")
        if not valid:
            return Refused("a row is bad")
        indexes = range(len(batch.handles))
        returned: list[int] = []
        if fault == "all_returned":
            returned = list(indexes)
        elif fault:
            returned = rng.choices(indexes, k=rng.randrange(len(indexes) + 1))
        done = [handle for index, handle in enumerate(batch.handles) if index not in returned]
        self._write(batch.handles if fault == "returned_and_written" else done)
        self.reported_written.update(done)
        self._maybe_written.update(done)
        return Accepted(returned, float(len(done)))

    def _write(self, handles: list[int] | tuple[int, ...]) -> None:
        for handle in handles:
            self.table[self.source[handle].key] = handle

    def _apply_late_writes(self, now: float) -> None:
        while self._late_writes and self._late_writes[0][0] <= now:
            self._write(heapq.heappop(self._late_writes)[1])
