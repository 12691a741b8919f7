"""Simulation of a burst of uploads against the quotas of an AWS account.

Quotas: "Step Functions service quotas" for StartExecution (a bucket and its refill) and open Map
Runs ("Backlogged Map Runs wait at the MapRunStarted event until the total number of open Map Runs
is less than the quota"); "Lambda quotas" for concurrency; "Configuring scaling behavior for SQS
event source mappings" for how many batches are read at once. How Lambda retries an invocation that
it throttles itself is not documented, except that the visibility timeout leaves time for it, so
there are two assumptions: it retries until that is over, or it never does.

Everything is drawn from one seed, and nothing is measured: the same seed gives the same result.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ddbload.aws.backoff import full_jitter
from ddbload.aws.retry import ATTEMPTS, CALL_BASE_SECONDS, CALL_CAP_SECONDS
from ddbload.contracts.upload_rule import DEFAULT_RESERVE_SECONDS
from tests.sim.burst_settings import HISTORY_EVENTS_OF_A_RETRY, BurstSettings

FIRST_BATCHES, MORE_BATCHES_A_SECOND = 5, 300 / 60
"""Batches that Lambda reads at once when messages arrive, and how many more each second."""
THROTTLED = "Lambda.TooManyRequestsException"
REFUSED = "StepFunctions.Refused"
"""A made-up name, since none is documented: only States.ALL matches it."""
NEXT = {"Preflight": "ImportChunks", "ImportChunk": "Report", "Report": None}
SECONDS = {"Preflight": (0.3, 1.2), "Report": (0.2, 0.8)}


@dataclass(frozen=True)
class Quotas:
    """Quotas of one account in one region."""

    bucket: int = 800
    refill: float = 150.0
    functions: int = 1000
    map_runs: int = 1000
    refuses_map_runs: bool = False
    """Fail a Map Run above the quota, instead of keeping it waiting as documented."""
    retries_throttled_batches: bool = True
    lookup_seconds: tuple[float, float] = (0.02, 0.1)
    """Shortest and longest time in which on_upload reads the ledger for one message."""
    import_seconds: tuple[float, float] = (0.3, 2.5)
    """Shortest and longest import of an uploaded object."""


@dataclass
class Burst:
    """Outcome of a burst."""

    seconds: float = 0.0
    dead_letters: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    """Versions whose execution failed for a quota."""
    runs: Counter[int] = field(default_factory=Counter)
    """How often each version was loaded."""
    throttled_starts: int = 0
    throttled_functions: int = 0
    most_receives: int = 0
    most_history: int = 0
    """Most events that retries added to one execution's history, of 25,000."""
    most_waiting: int = 0

    def lost(self, versions: int) -> int:
        return versions - len(self.runs)


class Account:
    """Clock, quotas and executions of the account."""

    def __init__(self, quotas: Quotas, settings: BurstSettings, seed: int) -> None:
        self.quotas, self.settings = quotas, settings
        self.rng = random.Random(seed)
        self.now, self.burst = 0.0, Burst()
        self._agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._tokens, self._refilled = float(quotas.bucket), 0.0
        self._busy = 0
        self._open_map_runs = 0
        self._backlog: deque[Execution] = deque()
        self._names: set[int] = set()

    def after(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._agenda, (self.now + seconds, self._sequence, action, arguments))

    def run(self) -> Burst:
        while self._agenda:
            self.now, _, action, arguments = heapq.heappop(self._agenda)
            action(*arguments)
        self.burst.seconds = self.now
        return self.burst

    def take_function(self) -> bool:
        if self._busy < self.quotas.functions:
            self._busy += 1
            return True
        self.burst.throttled_functions += 1
        return False

    def free_function(self) -> None:
        self._busy -= 1

    def start_execution(self, version: int) -> bool:
        """Start the version's execution, unless its name is taken; False if throttled."""
        quotas = self.quotas
        elapsed, self._refilled = self.now - self._refilled, self.now
        self._tokens = min(quotas.bucket, self._tokens + elapsed * quotas.refill)
        if self._tokens < 1:
            self.burst.throttled_starts += 1
            return False
        self._tokens -= 1
        if version not in self._names:
            self._names.add(version)
            self.after(0.0, Execution(self, version).enter, "Preflight")
        return True

    def open_map_run(self, execution: Execution) -> None:
        if self._open_map_runs < self.quotas.map_runs:
            self._open_map_runs += 1
            self.after(self.rng.uniform(0.5, 2.0), execution.enter, "ImportChunk")
        elif self.quotas.refuses_map_runs:
            execution.retry("ImportChunks", REFUSED)
        else:
            self._backlog.append(execution)

    def close_map_run(self) -> None:
        self._open_map_runs -= 1
        if self._backlog:
            self.open_map_run(self._backlog.popleft())


class Execution:
    """One execution: a small file, so that it has one chunk."""

    __slots__ = ("_account", "_history", "_retries", "_version")

    def __init__(self, account: Account, version: int) -> None:
        self._account, self._version = account, version
        self._retries: Counter[object] = Counter()
        self._history = 0

    def enter(self, state: str) -> None:
        self._retries.clear()
        self._attempt(state)

    def _attempt(self, state: str) -> None:
        account = self._account
        if state == "ImportChunks":
            account.open_map_run(self)
        elif account.take_function():
            between = SECONDS.get(state, account.quotas.import_seconds)
            account.after(account.rng.uniform(*between), self._leave, state)
        else:
            self.retry(state, THROTTLED)

    def _leave(self, state: str) -> None:
        account = self._account
        account.free_function()
        if state == "ImportChunk":
            account.burst.runs[self._version] += 1
            account.close_map_run()
        following = NEXT[state]
        if following is not None:
            account.after(0.05, self.enter, following)

    def retry(self, state: str, error: str) -> None:
        """Wait as the state's Retry field says, or fail."""
        account = self._account
        retrier = account.settings.retrier(state, error)
        # "A retrier's parameters apply across all visits to the retrier in the context of a
        # single-state execution."
        if retrier is None or self._retries[retrier.errors] >= retrier.attempts:
            account.burst.failed.add(self._version)
            if state == "ImportChunk":
                account.close_map_run()
            return
        longest = retrier.longest(self._retries[retrier.errors])
        self._retries[retrier.errors] += 1
        self._history += HISTORY_EVENTS_OF_A_RETRY
        account.burst.most_history = max(account.burst.most_history, self._history)
        account.after(account.rng.uniform(0.0, longest), self._attempt, state)


@dataclass(slots=True)
class Message:
    version: int
    receives: int = 0


class Queue:
    """The upload queue, with Lambda's readers of it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._visible: deque[Message] = deque()
        self._reading = 0
        self._since: float | None = None

    def send(self, version: int) -> None:
        self._put(Message(version))

    def _put(self, message: Message) -> None:
        self._visible.append(message)
        account = self._account
        account.burst.most_waiting = max(account.burst.most_waiting, len(self._visible))
        self._read()

    def _read(self) -> None:
        account, settings = self._account, self._account.settings
        if self._since is None:
            self._since = account.now
        scaled = FIRST_BATCHES + int((account.now - self._since) * MORE_BATCHES_A_SECOND)
        while self._visible and self._reading < min(settings.concurrency, scaled):
            batch = []
            while self._visible and len(batch) < settings.batch:
                message = self._visible.popleft()
                if message.receives >= settings.receives:
                    account.burst.dead_letters.add(message.version)
                    continue
                message.receives += 1
                account.burst.most_receives = max(account.burst.most_receives, message.receives)
                batch.append(message)
            if batch:
                self._reading += 1
                self._invoke(batch, account.now, 1.0)

    def _invoke(self, batch: list[Message], received: float, pause: float) -> None:
        account = self._account
        if account.take_function():
            # Some functions die, with any part of their batch done.
            dies = account.rng.random() < 0.001
            Invocation(self, account, batch, received, dies).handle()
            return
        left = received + account.settings.visibility - account.now
        wait = account.rng.uniform(0.5, 1.0) * pause
        if account.quotas.retries_throttled_batches and wait < left:
            account.after(wait, self._invoke, batch, received, min(30.0, 2 * pause))
        else:
            self.done(batch, received)

    def done(self, again: list[Message], received: float) -> None:
        """Free the reader, and make messages visible when their visibility timeout is over."""
        account = self._account
        self._reading -= 1
        for message in again:
            account.after(received + account.settings.visibility - account.now, self._put, message)
        account.after(0.0, self._read)


class Invocation:
    """One invocation of on_upload for a batch."""

    def __init__(
        self, queue: Queue, account: Account, batch: list[Message], received: float, dies: bool
    ) -> None:
        self._queue, self._account, self._received = queue, account, received
        self._batch, self._left = batch, deque(batch)
        self._deadline = account.now + account.settings.timeout - DEFAULT_RESERVE_SECONDS
        self._again: list[Message] = []
        self._dies_at = account.rng.randrange(len(batch)) if dies else -1

    def handle(self) -> None:
        """Handle the next message, as `ddbload.steps.uploads` does."""
        account = self._account
        if len(self._left) == len(self._batch) - self._dies_at and self._dies_at >= 0:
            account.free_function()
            self._queue.done(self._batch, self._received)
        elif self._left and account.now < self._deadline:
            # The ledger is asked first.
            seconds = account.rng.uniform(*account.quotas.lookup_seconds)
            account.after(seconds, self._start, self._left.popleft(), 1)
        else:
            account.free_function()
            self._queue.done([*self._again, *self._left], self._received)

    def _start(self, message: Message, attempt: int) -> None:
        account = self._account
        if account.start_execution(message.version):
            account.after(0.02, self.handle)
        elif attempt < ATTEMPTS and account.now < self._deadline:
            pause = full_jitter(attempt, account.rng, base=CALL_BASE_SECONDS, cap=CALL_CAP_SECONDS)
            account.after(0.02 + pause, self._start, message, attempt + 1)
        else:
            self._again.append(message)
            account.after(0.0, self.handle)


def simulate(
    versions: int,
    quotas: Quotas,
    seed: int = 0,
    *,
    seconds: float = 120.0,
    settings: BurstSettings | None = None,
) -> Burst:
    """Upload `versions` objects within `seconds`; every hundredth event arrives twice."""
    account = Account(quotas, settings or BurstSettings.read(), seed)
    queue = Queue(account)
    for version in range(versions):
        at = account.rng.uniform(0.0, seconds)
        account.after(at, queue.send, version)
        if version % 100 == 0:
            account.after(at + account.rng.uniform(0.0, 5.0), queue.send, version)
    return account.run()
