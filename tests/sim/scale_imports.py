"""Imports on many functions in virtual time, by the rates that were measured elsewhere.

Functions that write share the table's capacity evenly, none above its own rate. A group of
chunks is imported by one function after another, each of which ends before Lambda's limit.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

CONCURRENCY = 1_000
"""Functions of an account at once."""
STARTS_PER_SECOND = 100.0
"""New environments of one function: 1,000 every ten seconds."""
INVOCATION_SECONDS = 870.0
"""Seconds that an invocation works, of Lambda's 900."""
START_SECONDS = 1.0
"""Seconds of a cold start, and of a continuation through Step Functions."""
MAP_SECONDS = 5.0
"""Seconds from Preflight's end to the first child of a Map."""
NEVER = float("inf")


@dataclass(frozen=True)
class Load:
    """A run whose groups of chunks can be imported."""

    ready: float
    """Time at which preflight has ended."""
    groups: int
    rows_of_group: float
    workers: int


@dataclass
class Fleet:
    """Result of the imports of some runs."""

    first_writes: list[float]
    """Time of the first write of each run, sorted."""
    end: float
    invocations: int
    function_seconds: float


def import_all(loads: Sequence[Load], table_rate: float, worker_rate: float) -> Fleet:
    """Import the groups of all runs."""
    ready = [(load.ready + MAP_SECONDS, number) for number, load in enumerate(loads)]
    heapq.heapify(ready)
    # Groups of each run whose turn has not come; runs whose next group waits for a function.
    left = [load.groups for load in loads]
    waiting: deque[int] = deque()
    # Rows that each function has written since the beginning, and those at which one has ended.
    written = now = seconds = end = next_environment = 0.0
    running: list[tuple[float, int, float]] = []
    environments = invocations = 0
    firsts: dict[int, float] = {}
    while ready or running or waiting:
        rate = min(worker_rate, table_rate / max(1, len(running)))
        ends_at = now + (running[0][0] - written) / rate if running else NEVER
        starts_at = NEVER
        if waiting and len(running) < CONCURRENCY:
            starts_at = now if len(running) < environments else max(now, next_environment)
        ready_at = ready[0][0] if ready else NEVER
        at = min(ends_at, starts_at, ready_at)
        if running:
            written += rate * (at - now)
            seconds += len(running) * (at - now)
        now = at
        if at == ready_at:
            run = heapq.heappop(ready)[1]
            taken = min(loads[run].workers, left[run])
            waiting.extend([run] * taken)
            left[run] -= taken
        elif at == starts_at:
            run = waiting.popleft()
            if len(running) == environments:
                environments += 1
                next_environment = now + 1 / STARTS_PER_SECOND
            firsts.setdefault(run, now + START_SECONDS)
            heapq.heappush(running, (written + loads[run].rows_of_group, run, now))
        else:
            _, run, started = heapq.heappop(running)
            invocations += max(1, math.ceil((now - started) / INVOCATION_SECONDS))
            end = now
            if left[run]:
                left[run] -= 1
                waiting.append(run)
    return Fleet(sorted(firsts.values()), end, invocations, seconds + invocations * START_SECONDS)
