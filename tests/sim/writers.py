"""What writes rows into the simulated table: our scheduler, and what is written otherwise."""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Protocol

from ddbload.aws.backoff import full_jitter
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.messages import Accepted, Answer, Batch, Finished, Step, Wait
from ddbload.write.scheduler.scheduler import Scheduler

HOT = 0
"""The partition key that a share of the rows may have."""


@dataclass(frozen=True)
class Load:
    """The rows, in the order of the source."""

    rows: float = math.inf
    rows_of_key: int = 200
    """So many rows of each partition key stand next to each other."""
    runs: Callable[[random.Random], Iterator[int]] | None = None
    """Or so many, one key after the other."""
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

    def __init__(self, load: Load, rng: random.Random, first_key: int = 1) -> None:
        """`first_key`: its first partition key, so that no two sources have one in common."""
        self.load = load
        self._first_key = first_key
        self.partition_keys = array("q")
        self._rng = rng
        runs = load.runs
        self._runs = None if runs is None else self._keys(runs(rng))

    def _keys(self, runs: Iterator[int]) -> Iterator[int]:
        for place, length in enumerate(runs):
            yield from repeat(self._first_key + place, length)

    @property
    def left(self) -> float:
        return self.load.rows - len(self.partition_keys)

    def take(self, count: int) -> Sequence[tuple[int, int]]:
        """The keys of so many more rows, in order."""
        load, rng = self.load, self._rng
        first = len(self.partition_keys)
        places = range(first, first + int(min(count, self.left)))
        start, each = self._first_key, load.rows_of_key
        if load.hot_share:
            of = [HOT if rng.random() < load.hot_share else start + at // each for at in places]
        elif self._runs is not None:
            of = list(islice(self._runs, len(places)))
        else:
            of = [start + at // each for at in places]
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
            first = scheduler.reserve_handles(len(keys))
            units = source.load.units
            scheduler.offer_all(
                range(first, first + len(keys)),
                keys,
                None if units == 1 else [units] * len(keys),
                100,
            )


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
