"""Runs of writers at the simulated table over minutes of virtual time, to measure throughput.

The only fault is a lack of capacity, and no law is checked, so that millions of rows take seconds.
`import_simulation` has the other faults.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Finished, Throttled
from tests.sim.metered_table import MeteredTable
from tests.sim.simulated_table import SimulatedTable
from tests.sim.writers import Load, Source, Writer

KEYS_PER_SOURCE = 10**8
"""Distance of the sources' first partition keys, larger than any source's number of keys."""


@dataclass(slots=True)
class ActiveWriter:
    """A writer, its rows, and the time of its next step."""

    writer: Writer
    source: Source
    due: float = 0.0
    finished: bool = False
    finished_at: float = math.inf
    accepted: list[int] = field(default_factory=list)
    """Accepted rows by second."""

    def count(self, second: int, rows: int) -> None:
        self.accepted += [0] * (second + 1 - len(self.accepted))
        self.accepted[second] += rows

    def rows_per_second(self, first: int, last: int) -> float:
        """Compute the accepted rows a second between two seconds."""
        return sum(self.accepted[first:last]) / (last - first)


@dataclass
class Traffic:
    """Requests and rows that were sent."""

    requests: int = 0
    throttled: int = 0
    """Requests with returned rows."""
    sent: int = 0
    """Rows sent."""
    returned: int = 0
    """Rows returned, those of throttled requests included."""

    @property
    def returned_share(self) -> float:
        return self.returned / self.sent if self.sent else 0.0


class ThroughputRun:
    """One table, its writers, and a network with latency."""

    def __init__(
        self,
        writers: Sequence[Writer],
        table: SimulatedTable | MeteredTable,
        load: Load,
        *,
        seed: int = 1,
        latency: float = 0.005,
        returned_share_at: Callable[[float], float] = lambda _now: 0.0,
        refused_share: float = 0.0,
        names_key_ranges: bool = True,
        starts: Sequence[float] = (),
    ) -> None:
        """Set up the run; `run` starts it.

        `returned_share_at`: share of rows that is returned at a time in spite of free capacity.
        `refused_share`: share of requests that is refused as a whole, whatever their rate.
        `names_key_ranges`: throttled requests name a key range if only partitions lack capacity.
        `starts`: second at which each writer begins; 0 for those not given.
        """
        self.table = table
        self.now = 0.0
        self.minutes: list[Traffic] = []
        """Traffic of each minute."""
        self.writers = [
            ActiveWriter(
                writer,
                Source(load, random.Random(seed + place), 1 + place * KEYS_PER_SOURCE),
                start,
            )
            for place, (writer, start) in enumerate(
                itertools.zip_longest(writers, starts, fillvalue=0.0)
            )
        ]
        self._rng = random.Random(seed + 1)
        self._latency = latency
        self._returned_share_at = returned_share_at
        self._refused_share = refused_share
        self._names_key_ranges = names_key_ranges
        self._order = itertools.count()
        self._events: list[tuple[float, int, ActiveWriter, Batch, Answer | None]] = []

    @property
    def writer(self) -> Writer:
        return self.writers[0].writer

    @property
    def source(self) -> Source:
        return self.writers[0].source

    def run(self, seconds: float) -> ThroughputRun:
        """Continue until `seconds` of virtual time, or until all rows are written."""
        writers, events = self.writers, self._events
        while self.now < seconds:
            for active in writers:
                if active.due <= self.now:
                    self._send_all(active)
            due = min(active.due for active in writers)
            if events and events[0][0] <= due:
                self.now, _, active, batch, answer = heapq.heappop(events)
                if answer is None:
                    self._push(active, batch, self._serve(active, batch))
                else:
                    active.writer.answered(batch, answer, self.now)
                    active.due = self.now
            elif due < math.inf:
                self.now = due
            elif all(active.finished for active in writers):
                break
            else:
                raise AssertionError("all writers wait, and no event is due")
        return self

    def stop(self, writers: Sequence[ActiveWriter]) -> None:
        """Let some writers send nothing more; their answers are lost."""
        stopped = {id(each) for each in writers}
        self.writers = [each for each in self.writers if id(each) not in stopped]
        self._events = [event for event in self._events if id(event[2]) not in stopped]
        heapq.heapify(self._events)

    def total(self, first: int = 0, last: int | None = None) -> Traffic:
        """Sum up the traffic of some minutes."""
        some = self.minutes[first:last]
        return Traffic(
            sum(each.requests for each in some),
            sum(each.throttled for each in some),
            sum(each.sent for each in some),
            sum(each.returned for each in some),
        )

    def _send_all(self, active: ActiveWriter) -> None:
        """Let a writer send all requests that it can send now."""
        while True:
            active.writer.feed(active.source)
            step = active.writer.next(self.now)
            if isinstance(step, Batch):
                self._push(active, step, None)
                continue
            active.finished = isinstance(step, Finished)
            if active.finished:
                active.finished_at = min(active.finished_at, self.now)
            until = None if isinstance(step, Finished) else step.until
            active.due = math.inf if until is None else until
            return

    def _push(self, active: ActiveWriter, batch: Batch, answer: Answer | None) -> None:
        lag = self._latency * (0.3 + 0.2 * self._rng.expovariate(1.0))
        heapq.heappush(self._events, (self.now + lag, next(self._order), active, batch, answer))

    def _serve(self, active: ActiveWriter, batch: Batch) -> Answer:
        table, rng, source = self.table, self._rng, active.source
        handles = batch.handles
        while len(self.minutes) <= self.now // 60.0:
            self.minutes.append(Traffic())
        minute = self.minutes[-1]
        minute.requests += 1
        minute.sent += len(handles)
        if rng.random() < self._refused_share:
            minute.throttled += 1
            minute.returned += len(handles)
            return Throttled("ThrottlingException")
        share = self._returned_share_at(self.now)
        indexes = [index for index in range(len(handles)) if not share or rng.random() >= share]
        keys = [source.partition_keys[handles[index]] for index in indexes]
        refused = table.take(keys, [source.load.units] * len(keys), self.now)
        taken = len(keys) - len(refused)
        active.count(int(self.now), taken)
        if taken == len(handles):
            used = taken * source.load.units * (1 + table.capacity.index_units)
            return Accepted((), float(used))
        minute.throttled += 1
        minute.returned += len(handles) - taken
        if not taken:
            only_partitions = bool(keys) and all(table.lacks_for_key(key) for key in keys)
            if only_partitions and self._names_key_ranges:
                return Throttled("ThrottlingException", key_range=True)
            return Throttled("ThrottlingException")
        missing = {indexes[at] for at in refused} | set(range(len(handles))).difference(indexes)
        used = taken * source.load.units * (1 + table.capacity.index_units)
        return Accepted(sorted(missing), float(used))
