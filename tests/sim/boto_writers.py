"""boto3's own clients in virtual time: what ddbload is compared with, and whom it must not disturb.

Their rates, back-off and retry quota are botocore's own classes, which take a clock. The time that
boto3 computes is not modelled, so these writers are faster than the real ones.
"""

from __future__ import annotations

import heapq
import random
from typing import Any

from botocore.exceptions import CapacityNotAvailableError
from botocore.retries import adaptive, bucket, quota, throttling

from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Finished, Step, Wait
from tests.sim.writers import Source

BATCH_ROWS = 25
RETRY_COST = 5
"""Tokens of the retry quota that a retry of a throttled request costs."""
MAX_ATTEMPTS = 4
"""Attempts of a call to DynamoDB, the first included."""
MAX_BACKOFF = 20.0


class VirtualClock:
    """botocore's clock, set by the simulation."""

    def __init__(self) -> None:
        self.now = 0.0

    def current_time(self) -> float:
        return self.now


class AdaptiveClient:
    """Rate limiter of one client with `retries={"mode": "adaptive"}`, shared by its threads."""

    def __init__(self) -> None:
        self.clock = clock = VirtualClock()
        self._cubic = throttling.CubicCalculator(starting_max_rate=0, start_time=0.0)
        self._bucket: Any = bucket.TokenBucket(max_rate=1, clock=clock)
        self._clocker = adaptive.RateClocker(clock)
        self._enabled = False

    def ready_in(self) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        if not self._enabled:
            return 0.0
        try:
            self._bucket.acquire(block=False)
        except CapacityNotAvailableError:
            return max(1e-6, (1 - self._bucket.available_capacity) / self._bucket.max_rate)
        return 0.0

    def answered(self, *, throttled: bool) -> None:
        """Adjust the rate as `botocore.retries.adaptive.ClientRateLimiter` does."""
        measured, now = self._clocker.record(), self.clock.now
        if throttled:
            used = min(measured, self._bucket.max_rate) if self._enabled else measured
            rate = self._cubic.error_received(used, now)
            self._enabled = True
        else:
            rate = self._cubic.success_received(now)
        self._bucket.max_rate = min(rate, 2.0 * measured)


class AdaptiveBatchWriter:
    """Threads that each have a `Table.batch_writer()` of one adaptive client.

    Unprocessed items go back into the thread's buffer and count as success, as in boto3. A call
    that botocore gives up, which raises in the thread, is made again by the program.
    """

    def __init__(self, threads: int, rng: random.Random) -> None:
        self._rng = rng
        self._client = AdaptiveClient()
        self._quota = quota.RetryQuota()
        self._known = 0
        self._rows: list[int] = []
        self._closed = False
        self._buffers: list[list[int]] = [[] for _ in range(threads)]
        self._idle = list(range(threads))
        self._retries: list[tuple[float, int, list[int], int]] = []
        self._in_flight: dict[int, tuple[int, int, int]] = {}
        """Thread, attempts and tokens of each request in flight."""
        self._number = 0

    def feed(self, source: Source) -> None:
        while len(self._rows) < BATCH_ROWS * len(self._buffers) and not self._closed:
            count = len(source.take(2000))
            self._closed = not count
            self._rows.extend(range(self._known, self._known + count))
            self._known += count

    def next(self, now: float) -> Step:
        self._client.clock.now = now
        due = bool(self._retries) and self._retries[0][0] <= now
        thread = None if due else self._thread_with_rows()
        if due or thread is not None:
            wait = self._client.ready_in()
            if wait:
                return Wait(now + wait)
        if due:
            _, owner, rows, attempts = heapq.heappop(self._retries)
            return self._send(owner, rows, attempts, RETRY_COST)
        if thread is not None:
            self._idle.remove(thread)
            buffer = self._buffers[thread]
            rows, self._buffers[thread] = buffer[:BATCH_ROWS], buffer[BATCH_ROWS:]
            return self._send(thread, rows, 0, 0)
        if self._retries:
            return Wait(self._retries[0][0])
        return Wait(None) if self._in_flight else Finished()

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        self._client.clock.now = now
        thread, attempts, tokens = self._in_flight.pop(batch.number)
        accepted = isinstance(answer, Accepted)
        self._client.answered(throttled=not accepted)
        if isinstance(answer, Accepted):
            self._buffers[thread] += [batch.handles[index] for index in answer.unprocessed]
            self._quota.release(tokens or 1)
            self._idle.append(thread)
        elif attempts < MAX_ATTEMPTS and self._quota.acquire(RETRY_COST):
            wait = self._rng.random() * min(2.0 ** (attempts - 1), MAX_BACKOFF)
            heapq.heappush(self._retries, (now + wait, thread, list(batch.handles), attempts))
        else:
            heapq.heappush(self._retries, (now, thread, list(batch.handles), 0))

    def _thread_with_rows(self) -> int | None:
        """Find an idle thread that has, or gets, a full buffer; at the end also a smaller one."""
        for thread in self._idle:
            buffer = self._buffers[thread]
            missing = BATCH_ROWS - len(buffer)
            if missing > 0:
                buffer += self._rows[:missing]
                del self._rows[:missing]
            if buffer:
                return thread
        return None

    def _send(self, thread: int, rows: list[int], attempts: int, tokens: int) -> Batch:
        batch = Batch(self._number, rows)
        self._in_flight[batch.number] = (thread, attempts + 1, tokens)
        self._number += 1
        return batch


class ServingClient:
    """An application that puts one item at a time, at a constant rate, with boto3's defaults.

    These are the retry mode "standard": a throttled call is made again after a wait with full
    jitter, while the retry quota lasts, and then fails.
    """

    def __init__(self, per_second: float, rng: random.Random) -> None:
        self.calls = self.throttled = self.failed = 0
        self._per_second = per_second
        self._rng = rng
        self._quota = quota.RetryQuota()
        self._began: float | None = None
        self._known = 0
        self._retries: list[tuple[float, int, int]] = []
        self._in_flight: dict[int, tuple[int, int]] = {}
        self._number = 0

    def feed(self, source: Source) -> None:
        while self._known <= self.calls:
            self._known += len(source.take(2000))

    def next(self, now: float) -> Step:
        if self._began is None:
            self._began = now
        if self._retries and self._retries[0][0] <= now:
            _, row, attempts = heapq.heappop(self._retries)
            return self._send(row, attempts, RETRY_COST)
        due = self._began + self.calls / self._per_second
        if due <= now:
            self.calls += 1
            return self._send(self.calls - 1, 0, 0)
        return Wait(min(due, self._retries[0][0]) if self._retries else due)

    def answered(self, batch: Batch, answer: Answer, now: float) -> None:
        attempts, tokens = self._in_flight.pop(batch.number)
        if isinstance(answer, Accepted) and not answer.unprocessed:
            self._quota.release(tokens or 1)
            return
        self.throttled += 1
        if attempts < MAX_ATTEMPTS and self._quota.acquire(RETRY_COST):
            wait = self._rng.random() * min(2.0 ** (attempts - 1), MAX_BACKOFF)
            heapq.heappush(self._retries, (now + wait, batch.handles[0], attempts))
        else:
            self.failed += 1

    def _send(self, row: int, attempts: int, tokens: int) -> Batch:
        batch = Batch(self._number, [row])
        self._in_flight[batch.number] = (attempts + 1, tokens)
        self._number += 1
        return batch
