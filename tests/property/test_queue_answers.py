"""Whatever SQS answers, each row is taken or rejected, in its group's order, and twice if unsure.

The queue is simulated: it takes, refuses, fails or forgets each message as hypothesis draws it.
"""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ddbload.write.queue_requests import QUEUE_REQUESTS
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.messages import (
    Accepted,
    Batch,
    Finished,
    Refused,
    Throttled,
    Unsure,
    Wait,
)
from tests.unit.write.manual_driver import ManualDriver

REFUSED = Refused("words", "refused_by_sqs")
MOST_TRIES = 5


class Queue:
    """What was taken, by the number of the row in the file."""

    def __init__(self, rng: random.Random, *, truthful: bool, faulty: float) -> None:
        self.taken: list[int] = []
        self.refused: set[int] = set()
        self.judged: set[int] = set()
        self._tries: Counter[int] = Counter()
        self._rng = rng
        self._truthful = truthful
        self._faulty = faulty

    def answer(self, rows: list[int]):
        rng = self._rng
        self._tries.update(rows)
        # A run that was stopped waits for some seconds only, and so for some tries of each row.
        if self._truthful and max(self._tries[row] for row in rows) > MOST_TRIES:
            self.judged.update(rows)
            self.taken += [row for row in rows if row not in self.refused]
            found = {index: REFUSED for index, row in enumerate(rows) if row in self.refused}
            return Accepted(refused=found)
        if rng.random() < self._faulty:
            kind = rng.choice(["throttled", "failed"] + ["lost"] * (not self._truthful))
            if kind == "throttled":
                return Throttled("RequestThrottled")
            if kind == "failed":
                return Accepted(failed=range(len(rows)))
            if rng.random() < 0.5 and self.refused.isdisjoint(rows):
                self.judged.update(rows)
                self.taken += rows
            return Unsure("lost")
        outcomes: dict[str, list[int]] = {name: [] for name in ("failed", "unsure", "throttled")}
        refused = {}
        for index, row in enumerate(rows):
            chance = rng.random()
            # SQS refuses a message whenever it is sent.
            if row in self.refused or (row not in self.judged and rng.random() < self._faulty / 6):
                refused[index] = REFUSED
                self.refused.add(row)
            elif chance < self._faulty / 4:
                outcomes["failed"].append(index)
            elif chance < self._faulty / 3:
                outcomes["throttled"].append(index)
            elif chance < self._faulty and not self._truthful:
                outcomes["failed"].append(index)
                outcomes["unsure"].append(index)
                self.taken += [row] * rng.randrange(2)
            else:
                self.taken.append(row)
        self.judged.update(rows)
        return Accepted(
            outcomes["throttled"],
            failed=outcomes["failed"],
            unsure=outcomes["unsure"],
            refused=refused,
        )


@given(
    groups=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    seed=st.integers(0, 10_000),
    fifo=st.booleans(),
    truthful=st.booleans(),
    faulty=st.sampled_from([0.0, 0.2, 0.6]),
    stops=st.lists(st.integers(1, 12), max_size=3),
)
def test_each_row_is_taken_or_refused(groups, seed, fifo, truthful, faulty, stops):
    rng = random.Random(seed)
    queue = Queue(rng, truthful=truthful, faulty=faulty)
    done = 0
    for stop in (*stops, None):
        done += run(groups[done:], done, queue, rng, stop=stop, fifo=fifo)
        if done == len(groups):
            break
    assert set(queue.taken) | queue.refused == set(range(len(groups)))
    if truthful and not fifo:
        assert sorted(queue.taken) == sorted(set(queue.taken))
        assert queue.refused.isdisjoint(queue.taken)
    if fifo:
        # A FIFO queue delivers the first of those with one deduplication id.
        first = list(dict.fromkeys(queue.taken))
        for group in set(groups):
            of_group = [row for row in first if groups[row] == group]
            assert of_group == sorted(of_group)


def run(
    groups: list[int], begin: int, queue: Queue, rng: random.Random, *, stop: int | None, fifo: bool
) -> int:
    """Send rows until `stop` requests were sent, or all are settled; return how many are."""
    driver = ManualDriver(
        concurrency=rng.randrange(1, 5),
        seed=rng.randrange(100),
        request_limits=QUEUE_REQUESTS,
        order=RowOrder.ALL,
        keeps_duplicates=True,
    )
    driver.offer_all(*(group if fifo else (number,) for number, group in enumerate(groups)))
    driver.scheduler.close()
    in_flight: list[Batch] = []
    sent = 0
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            assert 1 <= len(step.handles) <= 10
            if fifo:
                keys = [groups[handle] for handle in step.handles]
                flying = [groups[handle] for each in in_flight for handle in each.handles]
                assert len(set(keys)) == len(keys)
                assert not set(keys) & set(flying)
            in_flight.append(step)
            sent += 1
            if sent == stop:
                driver.scheduler.stop()
        elif isinstance(step, Wait) and not in_flight:
            # Answers come before the time is over in which they are awaited.
            driver.now = max(driver.now, step.until or 0.0)
        if in_flight and (isinstance(step, Wait) or rng.random() < 0.5):
            batch = in_flight.pop(rng.randrange(len(in_flight)))
            rows = [begin + handle for handle in batch.handles]
            driver.answer(batch, queue.answer(rows))
    assert not in_flight
    assert driver.counts.conserved
    return driver.frontier
