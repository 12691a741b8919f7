"""Simulation of a whole import in virtual time: invocation after invocation, sometimes doubled.

An invocation finishes, reaches its deadline or is killed; the next one continues from its cursor
while requests of the previous one may still arrive. At the end the table must hold the items that
an import without faults would have written.
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
from ddbload.write.scheduler.answers import (
    Accepted,
    Answer,
    Batch,
    Finished,
    Refused,
    RowOutcome,
    Throttled,
    Unsure,
)
from ddbload.write.scheduler.scheduler import Scheduler
from tests.sim.invocation import BreachError, Invocation, Row
from tests.sim.scenario import (
    CREDENTIALS,
    SLOW_FAULTS,
    THROTTLE_CODES,
    TIMEOUT_SECONDS,
    WRITTEN_WITHOUT_ANSWER,
    Scenario,
)
from tests.sim.simulated_table import SimulatedTable

MAX_STEPS = 200_000
MAX_SECONDS = 3 * 3600.0
"""Seconds of virtual time after the last fault by which the import must end."""
MAX_WITH_DEADLINE = 30
"""Number of invocations with a deadline. Later ones have none, so that the import ends."""


class ImportSimulation:
    """Simulated import of one scenario; `run` raises `BreachError` for a broken law."""

    def __init__(self, scenario: Scenario, log: Callable[[str], None] | None = None) -> None:
        self.scenario = scenario
        self._rng = rng = random.Random(scenario.seed + 1)
        self._log = log
        self.source = [self._row(place, rng) for place in range(scenario.rows)]
        self.table = SimulatedTable(scenario.capacity, salt=scenario.seed)
        self.items: dict[tuple[int, int], int] = {}
        self.landed: set[int] = set()
        self.now = 0.0
        self.invocations = 0
        self.event_counts: Counter[str] = Counter()
        """Numbers of faults, throttle codes and ends of invocations."""
        self.read = 0
        self.cursor = 0
        self._events: list[tuple[float, int, str, Any]] = []
        self._order = itertools.count()
        self._running: list[Invocation] = []
        """Running invocations, including duplicates whose segments do not count."""

    def run(self) -> ImportSimulation:
        with (
            mock.patch.object(limits, "MAX_BATCH_ROWS", self.scenario.batch_rows),
            mock.patch.object(Scheduler, "MAX_AHEAD", self.scenario.ahead),
        ):
            self._invoke()
            for _ in range(MAX_STEPS):
                until = self._step_all()
                if not self._running:
                    break
                self._advance(until)
            else:
                raise BreachError("the import does not end")
        while self._events:
            self._process_event()
        self._check_table()
        return self

    # Invocations.

    def _invoke(self) -> None:
        scenario, rng = self.scenario, self._rng
        faulty = self.now < scenario.faults_end
        doubled = faulty and rng.random() < scenario.doubled
        self.event_counts["doubled"] += doubled
        for _ in range(1 + doubled):
            seconds = (
                scenario.invocation_seconds if self.invocations < MAX_WITH_DEADLINE else math.inf
            )
            self.invocations += 1
            invocation = Invocation(
                self.invocations, scenario, self.source, self.cursor, self.now, seconds
            )
            self._running.append(invocation)
            self._write_log(f"invocation {invocation.number} from row {self.cursor}")
            if faulty and rng.random() < scenario.crashes:
                self._schedule(self.now + rng.uniform(0, 2) ** 3, "killed", invocation)

    def _end(self, invocation: Invocation, *, counted: bool) -> None:
        """End an invocation. Only the first segment from a cursor counts."""
        self._running.remove(invocation)
        self._write_log(f"invocation {invocation.number} ends at row {invocation.cursor}")
        if invocation.first != self.cursor or not counted:
            if not any(other.first == self.cursor for other in self._running):
                self._continue()
            return
        self.read += invocation.counts.read
        self.cursor = invocation.cursor
        self._continue()

    def _continue(self) -> None:
        if self.cursor < len(self.source):
            self._invoke()

    def _step_all(self) -> float:
        """Step all invocations as far as possible; return the time of the next possible step."""
        until = math.inf
        for invocation in list(self._running):
            while True:
                step = invocation.step(self.now)
                if isinstance(step, Finished):
                    self.event_counts["deadline"] += invocation.cursor < len(self.source)
                    invocation.check_counts(self.landed)
                    self._end(invocation, counted=True)
                    # The next invocation is stepped in the next call.
                    until = self.now
                    break
                if not isinstance(step, Batch):
                    until = min(until, invocation.wait_end(step))
                    break
                self._write_log(f"{invocation.number} sends {list(step.handles)}")
                self._schedule(self.now + self._latency(), "arrives", (invocation, step))
        return until

    # Time.

    def _advance(self, until: float) -> None:
        if self._events and self._events[0][0] <= until:
            self._process_event()
        elif until < math.inf:
            self.now = max(self.now, until)
        else:
            raise BreachError("every invocation waits for nothing")
        if self.now > self.scenario.faults_end + MAX_SECONDS:
            raise BreachError("the import takes hours")

    def _schedule(self, time: float, kind: str, details: Any) -> None:
        heapq.heappush(self._events, (time, next(self._order), kind, details))

    def _process_event(self) -> None:
        self.now, _, kind, details = heapq.heappop(self._events)
        if kind == "arrives":
            self._arrive(*details)
        elif kind == "lands":
            self._write(*details)
        elif kind == "killed":
            self._kill(details)
        else:
            invocation, batch, answer = details
            if invocation in self._running:
                self._write_log(
                    f"{invocation.number} gets the answer to {list(batch.handles)}: {answer}"
                )
                invocation.answered(batch, answer, self.now)

    def _kill(self, invocation: Invocation) -> None:
        if invocation in self._running:
            # Killed either after it wrote its segment to the ledger, or before.
            counted = self._rng.random() < 0.5
            self.event_counts["killed" if counted else "killed_before_its_segment"] += 1
            self._write_log(f"invocation {invocation.number} is killed")
            if counted:
                invocation.in_flight.clear()
                invocation.check_counts(self.landed)
            self._end(invocation, counted=counted)

    def _latency(self) -> float:
        return self.scenario.latency * self._rng.uniform(0.1, 1.0)

    # The table.

    def _arrive(self, invocation: Invocation, batch: Batch) -> None:
        scenario, rng = self.scenario, self._rng
        fault = ""
        self.event_counts["zombie"] += invocation not in self._running
        if self.now < scenario.faults_end and rng.random() < scenario.fault_rate:
            fault = rng.choice(scenario.faults)
            self.event_counts[fault] += 1
        answer = self._serve(invocation, batch, fault)
        wait = TIMEOUT_SECONDS * rng.uniform(0.5, 1.0) if fault in SLOW_FAULTS else 0.0
        self._schedule(self.now + self._latency() + wait, "answered", (invocation, batch, answer))

    def _serve(self, invocation: Invocation, batch: Batch, fault: str) -> Answer:
        rng = self._rng
        if fault in {"throttled", "hot_key"}:
            return self._throttled(key_range=fault == "hot_key")
        rows = [invocation.row(handle) for handle in batch.handles]
        valid = all(row.valid for row in rows)
        if fault == "late":
            if valid:
                self._schedule(self.now + rng.uniform(0, 8), "lands", (invocation, batch.handles))
            return Unsure(fault)
        if fault in WRITTEN_WITHOUT_ANSWER:
            if valid:
                self._accept(invocation, batch, rows)
            return Unsure(fault)
        if fault in {"server_error", "reset_before", "time_out"} | CREDENTIALS:
            return Unsure(fault)
        if self.scenario.mode == "insert" and len(rows) > 1:
            return self._insert_each(batch, rows, invocation, fault)
        if not valid:
            return Refused("a row is bad")
        if fault == "all_returned" and self.scenario.mode == "put":
            return Accepted(range(len(rows)))
        if self.scenario.mode != "put":
            return self._put_one(invocation, batch, rows[0], fault)
        returned = self._accept(invocation, batch, rows)
        used = sum(row.units for place, row in enumerate(rows) if place not in returned)
        consumed = float(used * (1 + self.scenario.capacity.index_units))
        if fault in {"some_returned", "returned_and_written"}:
            # The scheduler must believe this, and write these rows again.
            returned |= set(rng.sample(range(len(rows)), rng.randrange(len(rows) + 1)))
        if fault == "uncounted":
            consumed = rng.choice((0.0, 0.01, 10 * consumed))
        if len(returned) == len(rows) and rng.random() < 0.5:
            return self._throttled(key_range=rng.random() < 0.3)
        return Accepted(sorted(returned, key=lambda _: rng.random()), consumed)

    def _insert_each(
        self, batch: Batch, rows: list[Row], invocation: Invocation, fault: str
    ) -> Answer:
        """Serve statements, each with its own result, which contains no item."""
        if fault == "all_returned":
            return Accepted(range(len(rows)))
        alone = [index for index, row in enumerate(rows) if not row.valid or row.key in self.items]
        sent = [index for index in range(len(rows)) if index not in alone]
        units = [rows[index].units for index in sent]
        full = self.table.take([rows[index].key[0] for index in sent], units, self.now)
        returned = [sent[place] for place in full]
        done = [index for index in sent if index not in returned]
        self._write(invocation, [batch.handles[index] for index in done])
        unsure: list[int] = []
        if fault in {"some_returned", "returned_and_written"}:
            # Errors of the service in some statements, which it has carried out.
            unsure = self._rng.sample(done, self._rng.randrange(len(done) + 1))
        consumed = float(sum(rows[index].units for index in done))
        if fault == "uncounted":
            consumed = self._rng.choice((0.0, 0.01, 10 * consumed))
        return Accepted(returned, consumed, alone=sorted({*alone, *unsure}), unsure=unsure)

    def _put_one(self, invocation: Invocation, batch: Batch, row: Row, fault: str) -> Answer:
        """Serve a PutItem with a condition: it never returns unprocessed items."""
        if fault == "all_returned" or self._accept(invocation, batch, [row]):
            return self._throttled(key_range=self._rng.random() < 0.3)
        if fault in {"some_returned", "returned_and_written"}:
            return Unsure(fault)
        outcome = RowOutcome.WRITTEN
        if self.items[row.key] != invocation.first + batch.handles[0]:
            outcome = (
                RowOutcome.SKIPPED if self.scenario.mode == "insert" else RowOutcome.SUPERSEDED
            )
        return Accepted((), 0.0 if fault == "uncounted" else float(row.units), outcome)

    def _throttled(self, *, key_range: bool) -> Throttled:
        code = self._rng.choice(THROTTLE_CODES)
        self.event_counts[code] += 1
        return Throttled(code, key_range=key_range)

    def _accept(self, invocation: Invocation, batch: Batch, rows: list[Row]) -> set[int]:
        """Write rows while there is capacity; return the indexes of the others."""
        returned = set(
            self.table.take([row.key[0] for row in rows], [row.units for row in rows], self.now)
        )
        done = [handle for place, handle in enumerate(batch.handles) if place not in returned]
        self._write(invocation, done)
        return returned

    def _write(self, invocation: Invocation, handles: list[int]) -> None:
        for handle in handles:
            key, place = invocation.row(handle).key, invocation.first + handle
            if self._condition_holds(self.items.get(key), place):
                self.items[key] = place
                self.landed.add(place)

    def _condition_holds(self, existing: int | None, place: int) -> bool:
        """Return whether the condition of the mode holds."""
        if existing is None or self.scenario.mode == "put":
            return True
        return self.scenario.mode == "last-wins" and existing <= place

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
            mode, expected = self.scenario.mode, rows_of[key]
            if mode != "put":
                # These modes determine the row exactly.
                expected = [expected[0] if mode == "insert" else expected[-1]]
            if row not in expected:
                raise BreachError(f"key {key} holds row {row}")

    def _row(self, place: int, rng: random.Random) -> Row:
        scenario = self.scenario
        number = rng.randrange(scenario.keys) if scenario.keys else place
        return Row(
            key=(number // scenario.rows_of_key, number),
            units=rng.choice((2, 7, 40)) if rng.random() < scenario.heavy else 1,
            valid=rng.random() >= scenario.invalid,
            rejected=rng.random() < scenario.rejects,
        )

    def _write_log(self, text: str) -> None:
        if self._log is not None:
            self._log(f"{self.now:12.6f}  {text}")
