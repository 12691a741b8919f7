"""What one seed means: rows, a table, a network, and what goes wrong."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from tests.sim.table import Capacity

WORDS = (
    "BandwidthLimitExceeded",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
)
FAULTS = (
    "throttled",
    "hot_key",
    "all_returned",
    "some_returned",
    # Written, and returned as if it were not.
    "returned_and_written",
    # No capacity said, or nonsense of it.
    "uncounted",
    "server_error",
    "server_error_and_written",
    "reset_before",
    "reset_after",
    "time_out",
    "time_out_and_written",
    # No answer, and it is written seconds later.
    "late",
    "truncated",
    "garbage",
    "slow_drip",
    "expired_credentials",
    "skewed_clock",
)
ENDINGS = ("killed", "killed_before_its_segment", "doubled", "zombie", "deadline")
"""What may become of an invocation. A zombie's request arrives after its end."""
LANDS = {
    "server_error_and_written",
    "reset_after",
    "time_out_and_written",
    "truncated",
    "garbage",
}
"""Without a word of it."""
CREDENTIALS = {"expired_credentials", "skewed_clock"}
"""Refused; the request that comes next is signed anew."""
SLOW = {"time_out", "time_out_and_written", "late", "slow_drip"}
TIME_OUT = 3.0


@dataclass(frozen=True)
class World:
    """Everything that a seed settles."""

    seed: int
    rows: int
    keys: int
    """Rows take their keys from so many; 0: each row has a key of its own."""
    rows_of_key: int
    """Rows of one partition key."""
    heavy: float
    """The share of rows of more than one write unit."""
    invalid: float
    """The share of rows that the table refuses."""
    rejects: float
    """The share of rows that are rejected before they are sent."""
    odd: float
    """The share of rows that are offered one by one."""
    faults: tuple[str, ...]
    fault_rate: float
    storm_ends: float
    """From then on nothing goes wrong any more."""
    latency: float
    capacity: Capacity
    max_wcu: float | None
    concurrency: int
    batch_rows: int
    ahead: int
    invocation_seconds: float
    """An invocation's deadline, counted from its start."""
    crashes: float
    """How likely an invocation of the storm is killed."""
    doubled: float
    """How likely an invocation of the storm runs twice at a time."""
    mode: str
    """`put`, or one in which each row is a request with a condition: `last-wins`, `insert`."""


def world_of(seed: int) -> World:
    """The world of a seed: the same one always."""
    rng = random.Random(seed)
    pick = rng.choice
    rows = pick((0, 1, 30, 80, 80, 150, 300))
    small = rng.random() < 0.3
    capacity = Capacity(
        partitions=pick((1, 2, 4)),
        on_demand=pick((20.0, 100.0, 4000.0)),
        provisioned=pick((None, None, 5.0, 50.0, 1000.0)),
        burst_seconds=pick((0.0, 1.0, 300.0)),
        saved=pick((0.0, 1.0)),
        index_units=pick((0, 0, 2)),
    )
    return World(
        seed=seed,
        rows=rows,
        keys=pick((0, 0, 0, 1, 3, 10, 40)),
        rows_of_key=pick((1, 5, 50)),
        heavy=pick((0.0, 0.0, 0.2)),
        invalid=pick((0.0, 0.0, 0.02, 0.3)),
        rejects=pick((0.0, 0.0, 0.1)),
        odd=pick((0.0, 0.0, 0.2, 1.0)),
        faults=tuple(rng.sample(FAULTS, rng.randrange(1, 7))),
        fault_rate=pick((0.0, 0.05, 0.3, 0.6, 1.0)),
        storm_ends=pick((0.5, 5.0, 30.0)),
        latency=pick((0.001, 0.02, 0.2)),
        capacity=capacity,
        max_wcu=pick((None, None, 20.0, 500.0)),
        concurrency=rng.randrange(1, 7),
        batch_rows=pick((1, 2, 5, 25, 25)) if small else 25,
        ahead=pick((3, 30, 20_000)) if small else 20_000,
        invocation_seconds=pick((math.inf, 0.3, 2.0, 20.0)),
        crashes=pick((0.0, 0.0, 0.3, 0.8)),
        doubled=pick((0.0, 0.0, 0.3)),
        mode=pick(("put", "put", "last-wins", "insert")),
    )
