"""Writers of rows to the simulated table: the scheduler, and plain batch writers to compare."""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise, repeat
from typing import Protocol

from ddbload.contracts.chunks import Chunk, groups_of_chunks
from ddbload.steps.prepare import CHUNKS_OF_WORKER
from ddbload.steps.row_feeder import TURN_ROWS
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import Answer, Batch, Step
from ddbload.write.scheduler.scheduler import Scheduler

HOT = 0
"""Partition key of the share `hot_share` of the rows."""


@dataclass(frozen=True)
class Load:
    """Rows of a source, in order."""

    rows: float = math.inf
    rows_of_key: int = 200
    """Consecutive rows with the same partition key."""
    runs: Callable[[random.Random], Iterator[int]] | None = None
    """Alternative to `rows_of_key`: the number of rows for one partition key after the other."""
    units: int = 1
    hot_share: float = 0.0
    """Share of rows, spread over the source, that have the partition key `HOT`."""
    in_turns: bool = False
    """True if the rows are read at several places in turn, as a worker reads sorted chunks."""


def rows_in_turns(rows: int) -> Iterator[int]:
    """Yield row numbers in the order in which one worker reads sorted chunks that are throttled."""
    cuts = [rows * cut // CHUNKS_OF_WORKER for cut in range(CHUNKS_OF_WORKER + 1)]
    chunks = [Chunk(number, *ends, 1) for number, ends in enumerate(pairwise(cuts))]
    for group in groups_of_chunks(chunks, 1):
        turns = deque(range(chunk.start, chunk.end) for chunk in group)
        while turns:
            place = turns.popleft()
            yield from place[:TURN_ROWS]
            if len(place) > TURN_ROWS:
                turns.append(place[TURN_ROWS:])


class Writer(Protocol):
    """Decides which rows are sent when."""

    def next(self, now: float) -> Step: ...
    def answered(self, batch: Batch, answer: Answer, now: float) -> None: ...
    def feed(self, source: Source) -> None:
        """Take rows from the source while there is room."""


class Source:
    """Rows of a load, with the partition keys of those taken so far."""

    def __init__(self, load: Load, rng: random.Random, first_key: int = 1) -> None:
        """`first_key`: first partition key. Sources with far apart ones share no key."""
        self.load = load
        self._first_key = first_key
        self.partition_keys = array("q")
        self._rng = rng
        self._rows = rows_in_turns(int(load.rows)) if load.in_turns else count()
        runs = load.runs
        self._runs = None if runs is None else self._keys(runs(rng))

    def _keys(self, runs: Iterator[int]) -> Iterator[int]:
        for key, length in enumerate(runs, self._first_key):
            yield from repeat(key, length)

    @property
    def left(self) -> float:
        return self.load.rows - len(self.partition_keys)

    def take(self, most: int) -> Sequence[tuple[int, int]]:
        """Take up to `most` more rows; return their keys in order."""
        load, rng = self.load, self._rng
        rows = list(islice(self._rows, int(min(most, self.left))))
        start, each = self._first_key, load.rows_of_key
        if load.hot_share:
            keys = [HOT if rng.random() < load.hot_share else start + row // each for row in rows]
        elif self._runs is not None:
            keys = list(islice(self._runs, len(rows)))
        else:
            keys = [start + row // each for row in rows]
        self.partition_keys.extend(keys)
        return list(zip(keys, rows, strict=True))


class SchedulerWriter:
    """Writer that uses the scheduler."""

    def __init__(
        self,
        concurrency: int,
        rng: random.Random,
        max_wcu: float | None = None,
        capacity: float | None = None,
    ) -> None:
        self.pacing = Pacing(rng, max_wcu, capacity=capacity)
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
