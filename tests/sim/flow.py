"""Writers at the simulated table for minutes of virtual time: what they use, what comes back.

Nothing is checked and nothing goes wrong here but the want of capacity, so that millions of rows
take seconds. `run` is the simulation with faults.
"""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ddbload.aws_http.backoff import full_jitter
from ddbload.write.pacing import Pacing
from ddbload.write.scheduler import Scheduler
from ddbload.write.steps import Accepted, Answer, Batch, Finished, Step, Throttled, Wait
from tests.sim.table import Table

HOT = 0
"""The partition key that a share of the rows may have."""


@dataclass(frozen=True)
class Load:
    """The rows, in the order of the source."""

    rows: float = math.inf
    rows_of_key: int = 200
    """So many rows of each partition key stand next to each other."""
    units: int = 1
    hot_share: float = 0.0
    """The share of rows, all over the source, that have one and the same partition key."""


class Writer(Protocol):
    """What decides which rows go when: the scheduler, or one of its rivals."""

    def next(self, now: float) -> Step: ...
    def answered(self, batch: Batch, answer: Answer, now: float) -> None: ...
    def feed(self, source: Source) -> None:
        """Take what rows there is room for."""


class Source:
    """Hands out rows and remembers their partition keys."""

    def __init__(self, load: Load, rng: random.Random) -> None:
        self.load = load
        self.partition_keys = array("q")
        self._rng = rng

    @property
    def left(self) -> float:
        return self.load.rows - len(self.partition_keys)

    def take(self, count: int) -> Sequence[tuple[int, int]]:
        """The keys of so many more rows, in order."""
        load, rng = self.load, self._rng
        first = len(self.partition_keys)
        places = range(first, first + int(min(count, self.left)))
        each = load.rows_of_key
        if load.hot_share:
            of = [HOT if rng.random() < load.hot_share else 1 + at // each for at in places]
        else:
            of = [1 + at // each for at in places]
        self.partition_keys.extend(of)
        return list(zip(of, places, strict=True))


class Ours:
    """The scheduler."""

    def __init__(self, concurrency: int, rng: random.Random, max_wcu: float | None = None) -> None:
        self.pacing = Pacing(rng, max_wcu)
        self.scheduler = Scheduler(
            concurrency=concurrency, deadline=math.inf, rng=rng, pacing=self.pacing
        )
        self.next = self.scheduler.next
        self.answered = self.scheduler.answered

    def feed(self, source: Source) -> None:
        scheduler = self.scheduler
        while (room := scheduler.room()) > 0:
            keys = source.take(room)
            if not keys:
                scheduler.close()
                return
            first = scheduler.know(len(keys))
            units = source.load.units
            scheduler.offer_all(
                range(first, first + len(keys)),
                keys,
                None if units == 1 else [units] * len(keys),
                100,
            )


@dataclass
class Seen:
    """What went over the wire."""

    requests: int = 0
    throttled: int = 0
    """Requests of which something came back."""
    sent: int = 0
    """Rows."""
    returned: int = 0
    """Rows, of whole requests as well."""

    @property
    def returned_share(self) -> float:
        return self.returned / self.sent if self.sent else 0.0


class Flow:
    """One writer, one table, and a network in between."""

    def __init__(
        self,
        writer: Writer,
        table: Table,
        load: Load,
        *,
        seed: int = 1,
        latency: float = 0.005,
        refuses: Callable[[float], float] = lambda _now: 0.0,
        tells_key_ranges: bool = True,
    ) -> None:
        """`refuses`: the share of rows that come back at a time, whatever capacity there is."""
        self.writer = writer
        self.table = table
        self.source = Source(load, random.Random(seed))
        self.now = 0.0
        self.seen: list[Seen] = []
        """By whole minutes."""
        self._rng = random.Random(seed + 1)
        self._latency = latency
        self._refuses = refuses
        self._tells = tells_key_ranges
        self._events: list[tuple[float, int, Batch, Answer | None]] = []

    def run(self, seconds: float) -> Flow:
        """Run on to a time, or to the end of the rows."""
        writer, events = self.writer, self._events
        while self.now < seconds:
            writer.feed(self.source)
            step = writer.next(self.now)
            if isinstance(step, Batch):
                heapq.heappush(events, (self.now + self._lag(), step.number, step, None))
                continue
            if isinstance(step, Finished):
                break
            if events and (step.until is None or events[0][0] <= step.until):
                self.now, number, batch, answer = heapq.heappop(events)
                if answer is None:
                    answer = self._serve(batch)
                    heapq.heappush(events, (self.now + self._lag(), number, batch, answer))
                else:
                    writer.answered(batch, answer, self.now)
            elif step.until is None:
                raise AssertionError("it waits for nothing")
            else:
                self.now = step.until
        return self

    def total(self, first: int = 0, last: int | None = None) -> Seen:
        """What was seen in some minutes."""
        some = self.seen[first:last]
        return Seen(
            sum(each.requests for each in some),
            sum(each.throttled for each in some),
            sum(each.sent for each in some),
            sum(each.returned for each in some),
        )

    def _lag(self) -> float:
        return self._latency * (0.3 + 0.2 * self._rng.expovariate(1.0))

    def _serve(self, batch: Batch) -> Answer:
        table, source, rng = self.table, self.source, self._rng
        handles = batch.handles
        while len(self.seen) <= self.now // 60.0:
            self.seen.append(Seen())
        seen = self.seen[-1]
        seen.requests += 1
        seen.sent += len(handles)
        share = self._refuses(self.now)
        places = [place for place in range(len(handles)) if not share or rng.random() >= share]
        keys = [source.partition_keys[handles[place]] for place in places]
        refused = table.take(keys, [source.load.units] * len(keys), self.now)
        taken = len(keys) - len(refused)
        if taken == len(handles):
            used = taken * source.load.units * (1 + table.capacity.index_units)
            return Accepted((), float(used))
        seen.throttled += 1
        seen.returned += len(handles) - taken
        if not taken:
            of_keys = bool(keys) and all(table.lacks_for_key(key) for key in keys)
            if of_keys and self._tells:
                return Throttled("ThrottlingException", key_range=True)
            return Throttled("ThrottlingException")
        missing = {places[at] for at in refused} | set(range(len(handles))).difference(places)
        used = taken * source.load.units * (1 + table.capacity.index_units)
        return Accepted(sorted(missing), float(used))


class Plain:
    """A plain batch writer: each thread sends 25 rows in order, then what of them came back.

    After an answer that returned anything it waits, exponentially longer each time, with full
    jitter; nothing is shared between threads. That is what the manuals advise.
    """

    def __init__(self, threads: int, rng: random.Random) -> None:
        self._rng = rng
        self._threads = threads
        self._buffer: list[int] = []
        self._known = 0
        self._flying: dict[int, int] = {}
        """The tries of each request under way."""
        self._delayed: list[tuple[float, int, list[int], int]] = []
        self._number = 0
        self._closed = False

    def feed(self, source: Source) -> None:
        while len(self._buffer) < 25 and not self._closed:
            count = len(source.take(2000))
            self._closed = not count
            self._buffer.extend(range(self._known, self._known + count))
            self._known += count

    def next(self, now: float) -> Step:
        if self._delayed and self._delayed[0][0] <= now:
            _, _, rows, tries = heapq.heappop(self._delayed)
            return self._send(rows, tries)
        if len(self._flying) + len(self._delayed) < self._threads and self._buffer:
            rows, self._buffer = self._buffer[:25], self._buffer[25:]
            return self._send(rows, 0)
        if self._delayed:
            return Wait(self._delayed[0][0])
        return Wait(None) if self._flying else Finished()

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        tries = self._flying.pop(batch.number)
        if isinstance(answer, Accepted):
            rows = [batch.handles[place] for place in answer.unprocessed]
            tries = tries if len(rows) == len(batch.handles) else 0
        else:
            rows = list(batch.handles)
        if rows:
            wait = full_jitter(tries + 1, self._rng)
            heapq.heappush(self._delayed, (now + wait, batch.number, rows, tries + 1))

    def _send(self, rows: list[int], tries: int) -> Batch:
        batch = Batch(self._number, rows)
        self._number += 1
        self._flying[batch.number] = tries
        return batch
