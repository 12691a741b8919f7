"""Writers at the simulated table for minutes of virtual time: what they use, what comes back.

Nothing is checked and nothing goes wrong here but the want of capacity, so that millions of rows
take seconds. `run` is the simulation with faults.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddbload.write.scheduler.messages import Accepted, Answer, Batch, Finished, Throttled
from tests.sim.table import Table
from tests.sim.writers import Load, Source, Writer

APART = 10**8
"""More partition keys than one source has."""


@dataclass(slots=True)
class Peer:
    """A writer, the rows that it has, and when it is to be asked again."""

    writer: Writer
    source: Source
    due: float = 0.0
    finished: bool = False


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
    """One table, its writers, and a network in between."""

    def __init__(
        self,
        writers: Sequence[Writer],
        table: Table,
        load: Load,
        *,
        seed: int = 1,
        latency: float = 0.005,
        refuses: Callable[[float], float] = lambda _now: 0.0,
        tells_key_ranges: bool = True,
        starts: Sequence[float] = (),
    ) -> None:
        """`refuses`: the share of rows that come back at a time, whatever capacity there is.

        `starts`: when each writer begins, at once unless said.
        """
        self.table = table
        self.now = 0.0
        self.seen: list[Seen] = []
        """By whole minutes."""
        self._peers = [
            Peer(writer, Source(load, random.Random(seed + place), 1 + place * APART), start)
            for place, (writer, start) in enumerate(
                itertools.zip_longest(writers, starts, fillvalue=0.0)
            )
        ]
        self._rng = random.Random(seed + 1)
        self._latency = latency
        self._refuses = refuses
        self._tells = tells_key_ranges
        self._order = itertools.count()
        self._events: list[tuple[float, int, Peer, Batch, Answer | None]] = []

    @property
    def writer(self) -> Writer:
        return self._peers[0].writer

    @property
    def source(self) -> Source:
        return self._peers[0].source

    def run(self, seconds: float) -> Flow:
        """Run on to a time, or to the end of the rows."""
        peers, events = self._peers, self._events
        while self.now < seconds:
            for peer in peers:
                if peer.due <= self.now:
                    self._pump(peer)
            due = min(peer.due for peer in peers)
            if events and events[0][0] <= due:
                self.now, _, peer, batch, answer = heapq.heappop(events)
                if answer is None:
                    self._push(peer, batch, self._serve(peer.source, batch))
                else:
                    peer.writer.answered(batch, answer, self.now)
                    peer.due = self.now
            elif due < math.inf:
                self.now = due
            elif all(peer.finished for peer in peers):
                break
            else:
                raise AssertionError("everybody waits for nothing")
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

    def _pump(self, peer: Peer) -> None:
        """Let a writer send what it can send now."""
        while True:
            peer.writer.feed(peer.source)
            step = peer.writer.next(self.now)
            if isinstance(step, Batch):
                self._push(peer, step, None)
                continue
            peer.finished = isinstance(step, Finished)
            until = None if isinstance(step, Finished) else step.until
            peer.due = math.inf if until is None else until
            return

    def _push(self, peer: Peer, batch: Batch, answer: Answer | None) -> None:
        lag = self._latency * (0.3 + 0.2 * self._rng.expovariate(1.0))
        heapq.heappush(self._events, (self.now + lag, next(self._order), peer, batch, answer))

    def _serve(self, source: Source, batch: Batch) -> Answer:
        table, rng = self.table, self._rng
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
