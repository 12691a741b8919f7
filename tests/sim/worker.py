"""One invocation: a scheduler, what it has under way, and the laws that it must keep."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.contracts.results import RowCounts
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.messages import Accepted, Answer, Batch, Finished, Wait
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.scheduler.scheduler import Scheduler
from tests.sim.world import World


@dataclass(frozen=True, slots=True)
class Row:
    """A row as the source has it."""

    key: tuple[int, int]
    units: int
    valid: bool
    rejected: bool


class BreachError(AssertionError):
    """A law that does not hold."""


class Worker:
    """Handles are counted from `first`, the row that its cursor is at."""

    def __init__(
        self,
        number: int,
        world: World,
        source: Sequence[Row],
        first: int,
        now: float,
        seconds: float,
    ) -> None:
        self.number = number
        self.first = first
        self.released: list[int] = []
        rng = random.Random(world.seed * 1000 + number)
        self._rng = rng
        self._world = world
        self._source = source
        self._deadline = now + seconds
        self.scheduler = Scheduler(
            concurrency=world.concurrency,
            deadline=self._deadline,
            rng=rng,
            pacing=Pacing(rng, world.max_wcu, now),
            batch_rows=world.batch_rows if world.mode == "put" else 1,
            first_wins=world.mode == "insert",
            on_release=self.released.extend,
        )
        self.flights: dict[int, Batch] = {}
        self.written: set[int] = set()
        """Handles that an answer called written."""
        self.passed_over: dict[int, RowOutcome] = {}
        """Those of which a condition did not hold."""
        self._under_way: set[tuple[int, int]] = set()
        self._sent: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._told = 0

    def row(self, handle: int) -> Row:
        return self._source[self.first + handle]

    @property
    def cursor(self) -> int:
        """The first row that is not settled."""
        return self.first + self.scheduler.outcomes.frontier

    @property
    def counts(self) -> RowCounts:
        return self.scheduler.outcomes.counts

    def step(self, now: float) -> Batch | Wait | Finished:
        """What the scheduler says, after it was told of some rows."""
        self._feed(self._rng.choice((0, 1, 3, self._world.rows)))
        step = self.scheduler.next(now)
        while step == Wait(None) and not self.flights:
            if not self.scheduler.room() or self._told == self._left:
                raise BreachError("it waits for nothing")
            self._feed(1)
            step = self.scheduler.next(now)
        if isinstance(step, Batch):
            self._check(step, now)
        elif isinstance(step, Wait) and step.until is not None and step.until <= now:
            raise BreachError("it waits for a time that has passed")
        return step

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        del self.flights[batch.number]
        self._under_way.difference_update(self.row(handle).key for handle in batch.handles)
        if isinstance(answer, Accepted):
            returned = {batch.handles[place] for place in answer.unprocessed}
            taken = set(batch.handles) - returned
            if answer.outcome is RowOutcome.WRITTEN:
                self.written.update(taken)
            else:
                self.passed_over.update(dict.fromkeys(taken, answer.outcome))
        self.scheduler.answered(batch, answer, now)

    def check_counts(self, landed: set[int]) -> None:
        """Every row before the cursor is settled, once, and as the answers said."""
        if self.flights:
            raise BreachError("it is finished, and requests are under way")
        scheduler = self.scheduler
        before = range(scheduler.outcomes.frontier)
        counts = self.counts
        rejected = sum(self.row(row).rejected or row in scheduler.refused for row in before)
        written = [row for row in before if row in self.written]
        skipped = sum(self.passed_over.get(row) is RowOutcome.SKIPPED for row in before)
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
            raise BreachError("a good row counts as refused")
        taken = self.written | self.passed_over.keys()
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
        count = min(most, scheduler.room(), self._left - self._told)
        first = scheduler.reserve_handles(count)
        self._told += count
        if scheduler.outcomes.ahead > self._world.ahead:
            raise BreachError("more rows are known than may be")
        together: list[int] = []
        for handle in range(first, self._told):
            row = self.row(handle)
            if row.rejected:
                scheduler.reject(handle)
            elif self._rng.random() < self._world.odd:
                self._offer(together)
                scheduler.offer(handle, row.key, 1024 * row.units, 100)
                together = []
            else:
                together.append(handle)
        self._offer(together)
        if self._told == self._left:
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
        if not self._under_way.isdisjoint(keys):
            raise BreachError(f"{batch} holds a key that is under way")
        if not 0 < len(keys) <= self._world.batch_rows:
            raise BreachError(f"{batch} has a wrong size")
        if now >= self._deadline:
            raise BreachError(f"{batch} goes after the deadline")
        for handle, key in zip(batch.handles, keys, strict=True):
            if (
                handle in self.written
                or handle in self.passed_over
                or handle in self.scheduler.refused
            ):
                raise BreachError(f"{handle} goes again")
            later = [other for other in self._sent[key] if other > handle]
            if not self.scheduler.refused.keys() >= set(later):
                raise BreachError(f"{handle} goes behind a later row of its key")
            self._sent[key].append(handle)
        self._under_way.update(keys)
        self.flights[batch.number] = batch
        if len(self.flights) > self._world.concurrency:
            raise BreachError("too many requests are under way")

    def waits_until(self, step: Wait) -> float:
        return math.inf if step.until is None else step.until
