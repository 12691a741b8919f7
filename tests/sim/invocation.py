"""One simulated invocation: its scheduler, its requests in flight, and the laws it must keep."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import RowOrder
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Finished, RowOutcome, Wait
from ddbload.write.scheduler.scheduler import Scheduler
from tests.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the source."""

    key: tuple[int, int]
    units: int
    valid: bool
    rejected: bool


class BreachError(AssertionError):
    """A broken law of the scheduler or of the import."""


class Invocation:
    """An invocation that begins at the row `first`, whose handle is 0."""

    def __init__(
        self,
        number: int,
        scenario: Scenario,
        source: Sequence[Row],
        first: int,
        now: float,
        seconds: float,
    ) -> None:
        self.number = number
        self.first = first
        self.released: list[int] = []
        rng = random.Random(scenario.seed * 1000 + number)
        self._rng = rng
        self._scenario = scenario
        self._source = source
        self._deadline = now + seconds
        self.scheduler = Scheduler(
            concurrency=scenario.concurrency,
            deadline=self._deadline,
            rng=rng,
            pacing=Pacing(rng, scenario.max_wcu, now),
            batch_rows=1 if scenario.mode == "last-wins" else scenario.batch_rows,
            order=RowOrder.FIRST_WINS if scenario.mode == "insert" else RowOrder.LAST_WINS,
            on_release=self.released.extend,
        )
        self.in_flight: dict[int, Batch] = {}
        self.written: set[int] = set()
        """Handles of rows that an answer reported as written."""
        self.condition_failed: dict[int, RowOutcome] = {}
        """Outcomes of rows whose condition failed, by handle."""
        self._keys_in_flight: set[tuple[int, int]] = set()
        self._sent: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._offered = 0

    def row(self, handle: int) -> Row:
        return self._source[self.first + handle]

    @property
    def cursor(self) -> int:
        """Number of the first unsettled row."""
        return self.first + self.scheduler.outcomes.frontier

    @property
    def counts(self) -> RowCounts:
        return self.scheduler.outcomes.counts

    def step(self, now: float) -> Batch | Wait | Finished:
        """Offer some rows, and return the scheduler's next step."""
        self._feed(self._rng.choice((0, 1, 3, self._scenario.rows)))
        step = self.scheduler.next(now)
        while step == Wait(None) and not self.in_flight:
            if not self.scheduler.room() or self._offered == self._left:
                raise BreachError("the scheduler waits for nothing")
            self._feed(1)
            step = self.scheduler.next(now)
        if isinstance(step, Batch):
            self._check(step, now)
        elif isinstance(step, Wait) and step.until is not None and step.until <= now:
            raise BreachError("the scheduler waits for a time that has passed")
        return step

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        del self.in_flight[batch.number]
        self._keys_in_flight.difference_update(self.row(handle).key for handle in batch.handles)
        if isinstance(answer, Accepted):
            again = (*answer.unprocessed, *answer.alone)
            returned = {batch.handles[index] for index in again}
            taken = set(batch.handles) - returned
            if answer.outcome is RowOutcome.WRITTEN:
                self.written.update(taken)
            else:
                self.condition_failed.update(dict.fromkeys(taken, answer.outcome))
        self.scheduler.answered(batch, answer, now)

    def check_counts(self, landed: set[int]) -> None:
        """Check that each row before the cursor was settled once, as its answer reported."""
        if self.in_flight:
            raise BreachError("the scheduler finished with requests in flight")
        scheduler = self.scheduler
        before = range(scheduler.outcomes.frontier)
        counts = self.counts
        rejected = sum(self.row(row).rejected or row in scheduler.refused for row in before)
        written = [row for row in before if row in self.written]
        skipped = sum(self.condition_failed.get(row) is RowOutcome.SKIPPED for row in before)
        superseded = len(before) - rejected - len(written) - skipped
        expected = RowCounts(
            read=len(before),
            written=len(written),
            rejected=rejected,
            superseded=superseded,
            skipped=skipped,
        )
        if counts != expected or not counts.conserved:
            raise BreachError(f"{counts} instead of {expected}")
        if any(self.first + row not in landed for row in written):
            raise BreachError("a row counts as written that never landed")
        if any(self.row(row).valid for row in scheduler.refused):
            raise BreachError("a valid row counts as refused")
        taken = self.written | self.condition_failed.keys()
        last = {self.row(row).key: row for row in sorted(taken)}
        for row in before:
            settled = self.row(row).rejected or row in scheduler.refused or row in taken
            if not settled and last.get(self.row(row).key, -1) < row:
                raise BreachError(f"row {row} counts as superseded by nothing")
        if len(set(self.released)) < len(self.released):
            raise BreachError("a row is released twice")

    @property
    def _left(self) -> int:
        return len(self._source) - self.first

    def _feed(self, most: int) -> None:
        scheduler = self.scheduler
        count = min(most, scheduler.room(), self._left - self._offered)
        first = scheduler.reserve_handles(count)
        self._offered += count
        if scheduler.outcomes.ahead > self._scenario.ahead:
            raise BreachError("too many rows beyond the frontier")
        group: list[int] = []
        for handle in range(first, self._offered):
            row = self.row(handle)
            if row.rejected:
                scheduler.reject(handle)
            elif self._rng.random() < self._scenario.offered_singly:
                self._offer(group)
                scheduler.offer(handle, row.key, 1024 * row.units, 100)
                group = []
            else:
                group.append(handle)
        self._offer(group)
        if self._offered == self._left:
            scheduler.close()

    def _offer(self, handles: list[int]) -> None:
        rows = [self.row(handle) for handle in handles]
        if rows:
            units = [row.units for row in rows]
            self.scheduler.offer_all(
                handles, [row.key for row in rows], units if max(units) > 1 else None, 100
            )

    def _check(self, batch: Batch, now: float) -> None:
        keys = [self.row(handle).key for handle in batch.handles]
        if len(set(keys)) < len(keys):
            raise BreachError(f"{batch} holds a key twice")
        if not self._keys_in_flight.isdisjoint(keys):
            raise BreachError(f"{batch} holds a key that is in flight")
        if not 0 < len(keys) <= self._scenario.batch_rows:
            raise BreachError(f"{batch} has a wrong size")
        # A first request whose only row must go alone settles nothing: it goes once more.
        is_second = len(keys) == 1 and batch.number == 1 and not self.scheduler.outcomes.frontier
        if now >= self._deadline and not (is_second and self._scenario.mode == "insert"):
            raise BreachError(f"{batch} is sent after the deadline")
        for handle, key in zip(batch.handles, keys, strict=True):
            if (
                handle in self.written
                or handle in self.condition_failed
                or handle in self.scheduler.refused
            ):
                raise BreachError(f"row {handle} is sent again after its outcome")
            later = [other for other in self._sent[key] if other > handle]
            if not self.scheduler.refused.keys() >= set(later):
                raise BreachError(f"row {handle} is sent after a later row of its key")
            self._sent[key].append(handle)
        self._keys_in_flight.update(keys)
        self.in_flight[batch.number] = batch
        if len(self.in_flight) > self._scenario.concurrency:
            raise BreachError("too many requests in flight")

    @staticmethod
    def wait_end(step: Wait) -> float:
        return math.inf if step.until is None else step.until
