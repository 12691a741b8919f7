"""Scenarios of the import simulation: rows, a table, a network, and faults, from one seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from tests.sim.simulated_table import Capacity

THROTTLE_CODES = (
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
    # Written, but returned as unprocessed.
    "returned_and_written",
    # Written, with missing or wrong ConsumedCapacity.
    "uncounted",
    "server_error",
    "server_error_and_written",
    "reset_before",
    "reset_after",
    "time_out",
    "time_out_and_written",
    # No answer; written seconds later.
    "late",
    "truncated",
    "garbage",
    "slow_drip",
    "expired_credentials",
    "skewed_clock",
)
ENDINGS = ("killed", "killed_before_its_segment", "doubled", "zombie", "deadline")
"""Events of an invocation. A zombie request arrives after the end of its invocation."""
WRITTEN_WITHOUT_ANSWER = {
    "server_error_and_written",
    "reset_after",
    "time_out_and_written",
    "truncated",
    "garbage",
}
CREDENTIALS = {"expired_credentials", "skewed_clock"}
"""Refused requests; the next request is signed with new credentials."""
SLOW_FAULTS = {"time_out", "time_out_and_written", "late", "slow_drip"}
TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Scenario:
    """Everything that a seed determines."""

    seed: int
    rows: int
    keys: int
    """Number of different keys; 0 gives each row a different key."""
    rows_of_key: int
    """Keys with the same partition key."""
    heavy: float
    """Share of rows of more than one write unit."""
    invalid: float
    """Share of rows that the table refuses."""
    rejects: float
    """Share of rows that are rejected before they are sent."""
    offered_singly: float
    """Share of rows that are offered one by one."""
    faults: tuple[str, ...]
    fault_rate: float
    faults_end: float
    """Second from which on there are no faults."""
    latency: float
    capacity: Capacity
    max_wcu: float | None
    concurrency: int
    batch_rows: int
    ahead: int
    invocation_seconds: float
    """Seconds from the start of an invocation to its deadline."""
    crashes: float
    """Probability that an invocation is killed, before `faults_end`."""
    doubled: float
    """Probability that an invocation runs twice at the same time, before `faults_end`."""
    mode: str
    """Write mode: `put`; `last-wins`, which sends each row with a condition; or `insert`, which
    sends statements, and a row by itself with a condition."""


def scenario_for(seed: int) -> Scenario:
    """Make the scenario of a seed, always the same one."""
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
    return Scenario(
        seed=seed,
        rows=rows,
        keys=pick((0, 0, 0, 1, 3, 10, 40)),
        rows_of_key=pick((1, 5, 50)),
        heavy=pick((0.0, 0.0, 0.2)),
        invalid=pick((0.0, 0.0, 0.02, 0.3)),
        rejects=pick((0.0, 0.0, 0.1)),
        offered_singly=pick((0.0, 0.0, 0.2, 1.0)),
        faults=tuple(rng.sample(FAULTS, rng.randrange(1, 7))),
        fault_rate=pick((0.0, 0.05, 0.3, 0.6, 1.0)),
        faults_end=pick((0.5, 5.0, 30.0)),
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
