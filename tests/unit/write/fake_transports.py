"""Transports without a network, and jobs that use them."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.drivers import BotoTransport, Job, ThreadLoop
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.requests import ItemOrKey, SentItems, WriteRequests
from ddbload.write.scheduler.answers import Accepted, Answer
from ddbload.write.scheduler.scheduler import Scheduler

Respond = Callable[[Sequence[ItemOrKey]], Answer]


class Clock:
    """Clock that advances only by `sleep`. Thread-safe."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds


class FakeTable:
    """Transport that answers by `responses`, one a call, then by `otherwise`. Thread-safe."""

    def __init__(self, *responses: Respond, otherwise: Respond = lambda _items: Accepted()) -> None:
        self.sent: list[list[int]] = []
        self.items: dict[Hashable, int] = {}
        self.most_at_once = 0
        self.at_once = 0
        self.threads: set[int] = set()
        self._responses = list(responses)
        self._otherwise = otherwise
        self._lock = threading.Lock()

    connect = ThreadLoop

    def request(self, body: bytes, rows: int) -> tuple[Callable[[], Answer], int]:
        items = json.loads(body)
        assert len(items) == rows
        return partial(self.send, items), 0

    def answer(self, outcome: Any, generation: int, rows: int, items: SentItems) -> Answer:
        if isinstance(outcome, BaseException):
            raise outcome
        answer: Answer = outcome
        return answer

    def send(self, items: Sequence[ItemOrKey]) -> Answer:
        with self._lock:
            self.sent.append([item["row"] for item in items])
            self.threads.add(threading.get_ident())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            respond = self._responses.pop(0) if self._responses else self._otherwise
        try:
            answer = respond(items)
        finally:
            with self._lock:
                self.at_once -= 1
        if isinstance(answer, Accepted):
            with self._lock:
                for index, item in enumerate(items):
                    if index not in answer.unprocessed:
                        self.items[item["key"]] = item["row"]
        return answer


def at_row(row: int, respond: Respond) -> Respond:
    """Answer the request with this row by `respond`; accept all others."""
    return lambda items: respond(items) if any(i["row"] == row for i in items) else Accepted()


class FakeRows:
    """Source of rows with these keys, and the scheduler that they are offered to."""

    def __init__(
        self,
        *keys: Hashable,
        concurrency: int = 4,
        deadline: float = math.inf,
        max_wcu: float | None = None,
    ) -> None:
        self.keys = keys
        self.offered = 0
        self.released: list[int] = []
        self.scheduler = Scheduler(
            concurrency=concurrency,
            deadline=deadline,
            rng=random.Random(1),
            pacing=Pacing(random.Random(1), max_wcu),
            on_release=self.released.extend,
        )

    @property
    def counts(self) -> RowCounts:
        return self.scheduler.outcomes.counts

    def feed(self, room: int) -> bool:
        assert room > 0
        if self.offered == len(self.keys):
            return False
        for key in self.keys[self.offered :][:room]:
            self.scheduler.offer(self.scheduler.reserve_handles(), key, 100, 100)
            self.offered += 1
        return True

    def body(self, handles: Sequence[int]) -> bytes:
        return json.dumps(self.items(handles)).encode()

    def items(self, handles: Sequence[int]) -> list[dict[str, Any]]:
        return [{"key": self.keys[handle], "row": handle} for handle in handles]

    def job(self, table: FakeTable, **more: Any) -> Job:
        clock = Clock()
        given = {"clock": clock, "sleep": clock.sleep} | more
        return Job(self.scheduler, self.feed, self.items, self.body, table, **given)


def send_through(
    client: Any, requests: WriteRequests, items: Sequence[ItemOrKey], body: bytes
) -> Answer:
    """Send one request through a client, and return the answer."""
    transport = BotoTransport(client, requests)
    loop = transport.connect(1)
    call, generation = transport.request(body, len(items))
    loop.send(None, call)
    ((_, outcome),) = loop.wait(30.0)
    loop.close()
    return transport.answer(outcome, generation, len(items), lambda: items)
