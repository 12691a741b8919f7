"""A whole import in virtual time: invocations one after the other, at times two at once.

An invocation is killed, or reaches its deadline, or ends; the next one goes on from its cursor,
while requests of the dead one may still land. At the end the table is compared with what it would
be had nothing gone wrong.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

from ddbload.dynamodb import limits
from ddbload.write.scheduler.messages import (
    Accepted,
    Answer,
    Batch,
    Finished,
    Refused,
    Throttled,
    Unsure,
)
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.scheduler.scheduler import Scheduler
from tests.sim.table import Table
from tests.sim.worker import BreachError, Row, Worker
from tests.sim.world import CREDENTIALS, LANDS, SLOW, TIME_OUT, WORDS, World

MAX_STEPS = 200_000
MAX_SECONDS = 3 * 3600.0
"""Of virtual time, after the storm."""
MAX_SHORT = 30
"""So many invocations have a deadline; those after them have none, so that it ends."""


class Simulation:
    """One seed's run. Raises `BreachError` for whatever does not hold."""

    def __init__(self, world: World, log: Callable[[str], None] | None = None) -> None:
        self.world = world
        self._rng = rng = random.Random(world.seed + 1)
        self._log = log
        self.source = [self._row(place, rng) for place in range(world.rows)]
        self.table = Table(world.capacity, salt=world.seed)
        self.items: dict[tuple[int, int], int] = {}
        self.landed: set[int] = set()
        self.now = 0.0
        self.invocations = 0
        self.happened: Counter[str] = Counter()
        """Faults, throttle codes and ends of invocations."""
        self.read = 0
        self.cursor = 0
        self._events: list[tuple[float, int, str, Any]] = []
        self._order = itertools.count()
        self._workers: list[Worker] = []
        """All that run, also those whose segment nobody waits for."""

    def run(self) -> Simulation:
        with (
            mock.patch.object(limits, "MAX_BATCH_ROWS", self.world.batch_rows),
            mock.patch.object(Scheduler, "MAX_AHEAD", self.world.ahead),
        ):
            self._invoke()
            for _ in range(MAX_STEPS):
                until = self._pump()
                if not self._workers:
                    break
                self._move(until)
            else:
                raise BreachError("it does not end")
        while self._events:
            self._happen()
        self._check_table()
        return self

    # Invocations.

    def _invoke(self) -> None:
        world, rng = self.world, self._rng
        storm = self.now < world.storm_ends
        doubled = storm and rng.random() < world.doubled
        self.happened["doubled"] += doubled
        for _ in range(1 + doubled):
            seconds = world.invocation_seconds if self.invocations < MAX_SHORT else math.inf
            self.invocations += 1
            worker = Worker(self.invocations, world, self.source, self.cursor, self.now, seconds)
            self._workers.append(worker)
            self._say(f"invocation {worker.number} from row {self.cursor}")
            if storm and rng.random() < world.crashes:
                self._at(self.now + rng.uniform(0, 2) ** 3, "killed", worker)

    def _ended(self, worker: Worker, *, counted: bool) -> None:
        """An invocation is over. Only the first segment from a cursor counts."""
        self._workers.remove(worker)
        self._say(f"invocation {worker.number} over at row {worker.cursor}")
        if worker.first != self.cursor or not counted:
            if not any(other.first == self.cursor for other in self._workers):
                self._go_on()
            return
        self.read += worker.counts.read
        self.cursor = worker.cursor
        self._go_on()

    def _go_on(self) -> None:
        if self.cursor < len(self.source):
            self._invoke()

    def _pump(self) -> float:
        """Let every invocation do what it can do now; when the next one can do more."""
        until = math.inf
        for worker in list(self._workers):
            while True:
                step = worker.step(self.now)
                if isinstance(step, Finished):
                    self.happened["deadline"] += worker.cursor < len(self.source)
                    worker.check_counts(self.landed)
                    self._ended(worker, counted=True)
                    # Its successor has a turn of its own.
                    until = self.now
                    break
                if not isinstance(step, Batch):
                    until = min(until, worker.waits_until(step))
                    break
                self._say(f"{worker.number} sends {list(step.handles)}")
                self._at(self.now + self._lag(), "arrives", (worker, step))
        return until

    # Time.

    def _move(self, until: float) -> None:
        if self._events and self._events[0][0] <= until:
            self._happen()
        elif until < math.inf:
            self.now = max(self.now, until)
        else:
            raise BreachError("everybody waits for nothing")
        if self.now > self.world.storm_ends + MAX_SECONDS:
            raise BreachError("it takes hours")

    def _at(self, time: float, kind: str, what: Any) -> None:
        heapq.heappush(self._events, (time, next(self._order), kind, what))

    def _happen(self) -> None:
        self.now, _, kind, what = heapq.heappop(self._events)
        if kind == "arrives":
            self._arrives(*what)
        elif kind == "lands":
            self._write(*what)
        elif kind == "killed":
            self._killed(what)
        else:
            worker, batch, answer = what
            if worker in self._workers:
                self._say(f"{worker.number} hears of {list(batch.handles)}: {answer}")
                worker.answered(batch, answer, self.now)

    def _killed(self, worker: Worker) -> None:
        if worker in self._workers:
            # What it had told the ledger by then: everything, or nothing.
            counted = self._rng.random() < 0.5
            self.happened["killed" if counted else "killed_before_its_segment"] += 1
            self._say(f"invocation {worker.number} is killed")
            if counted:
                worker.flights.clear()
                worker.check_counts(self.landed)
            self._ended(worker, counted=counted)

    def _lag(self) -> float:
        return self.world.latency * self._rng.uniform(0.1, 1.0)

    # The table.

    def _arrives(self, worker: Worker, batch: Batch) -> None:
        world, rng = self.world, self._rng
        fault = ""
        self.happened["zombie"] += worker not in self._workers
        if self.now < world.storm_ends and rng.random() < world.fault_rate:
            fault = rng.choice(world.faults)
            self.happened[fault] += 1
        answer = self._serve(worker, batch, fault)
        wait = TIME_OUT * rng.uniform(0.5, 1.0) if fault in SLOW else 0.0
        self._at(self.now + self._lag() + wait, "answered", (worker, batch, answer))

    def _serve(self, worker: Worker, batch: Batch, fault: str) -> Answer:
        rng = self._rng
        if fault in {"throttled", "hot_key"}:
            return self._throttled(key_range=fault == "hot_key")
        rows = [worker.row(handle) for handle in batch.handles]
        valid = all(row.valid for row in rows)
        if fault == "late":
            if valid:
                self._at(self.now + rng.uniform(0, 8), "lands", (worker, batch.handles))
            return Unsure(fault)
        if fault in LANDS:
            if valid:
                self._accept(worker, batch, rows)
            return Unsure(fault)
        if fault in {"server_error", "reset_before", "time_out"} | CREDENTIALS:
            return Unsure(fault)
        if not valid:
            return Refused("a row is bad")
        if fault == "all_returned" and self.world.mode == "put":
            return Accepted(range(len(rows)))
        if self.world.mode != "put":
            return self._put_one(worker, batch, rows[0], fault)
        returned = self._accept(worker, batch, rows)
        used = sum(row.units for place, row in enumerate(rows) if place not in returned)
        consumed = float(used * (1 + self.world.capacity.index_units))
        if fault in {"some_returned", "returned_and_written"}:
            # Written once more by some later request, as far as the scheduler knows.
            returned |= set(rng.sample(range(len(rows)), rng.randrange(len(rows) + 1)))
        if fault == "uncounted":
            consumed = rng.choice((0.0, 0.01, 10 * consumed))
        if len(returned) == len(rows) and rng.random() < 0.5:
            return self._throttled(key_range=rng.random() < 0.3)
        return Accepted(sorted(returned, key=lambda _: rng.random()), consumed)

    def _put_one(self, worker: Worker, batch: Batch, row: Row, fault: str) -> Answer:
        """PutItem with a condition: there is nothing that it could return unprocessed."""
        if fault == "all_returned" or self._accept(worker, batch, [row]):
            return self._throttled(key_range=self._rng.random() < 0.3)
        if fault in {"some_returned", "returned_and_written"}:
            return Unsure(fault)
        outcome = RowOutcome.WRITTEN
        if self.items[row.key] != worker.first + batch.handles[0]:
            outcome = RowOutcome.SKIPPED if self.world.mode == "insert" else RowOutcome.SUPERSEDED
        return Accepted((), 0.0 if fault == "uncounted" else float(row.units), outcome)

    def _throttled(self, *, key_range: bool) -> Throttled:
        code = self._rng.choice(WORDS)
        self.happened[code] += 1
        return Throttled(code, key_range=key_range)

    def _accept(self, worker: Worker, batch: Batch, rows: list[Row]) -> set[int]:
        """Write what there is capacity for; the places of the rest."""
        returned = set(
            self.table.take([row.key[0] for row in rows], [row.units for row in rows], self.now)
        )
        done = [handle for place, handle in enumerate(batch.handles) if place not in returned]
        self._write(worker, done)
        return returned

    def _write(self, worker: Worker, handles: list[int]) -> None:
        for handle in handles:
            key, place = worker.row(handle).key, worker.first + handle
            if self._holds(self.items.get(key), place):
                self.items[key] = place
                self.landed.add(place)

    def _holds(self, there: int | None, place: int) -> bool:
        """Whether the mode's condition holds."""
        if there is None or self.world.mode == "put":
            return True
        return self.world.mode == "last-wins" and there <= place

    # The end.

    def _check_table(self) -> None:
        if self.read != len(self.source) or self.cursor != len(self.source):
            raise BreachError(f"{self.read} rows counted, cursor {self.cursor}")
        rows_of: dict[tuple[int, int], list[int]] = {}
        for place, row in enumerate(self.source):
            if row.valid and not row.rejected:
                rows_of.setdefault(row.key, []).append(place)
        if self.items.keys() != rows_of.keys():
            raise BreachError(f"keys {sorted(self.items.keys() ^ rows_of.keys())}")
        for key, row in self.items.items():
            mode, due = self.world.mode, rows_of[key]
            if mode != "put":
                # As if nothing had gone wrong, exactly.
                due = [due[0] if mode == "insert" else due[-1]]
            if row not in due:
                raise BreachError(f"key {key} holds row {row}")

    def _row(self, place: int, rng: random.Random) -> Row:
        world = self.world
        number = rng.randrange(world.keys) if world.keys else place
        return Row(
            key=(number // world.rows_of_key, number),
            units=rng.choice((2, 7, 40)) if rng.random() < world.heavy else 1,
            valid=rng.random() >= world.invalid,
            rejected=rng.random() < world.rejects,
        )

    def _say(self, words: str) -> None:
        if self._log is not None:
            self._log(f"{self.now:12.6f}  {words}")
