"""Prices of the proof's parts, and the largest scale that a budget pays for (pure).

The prices are those of `ddbload plan`. Each is the most that a part may cost: rows are known, runs
are cancelled at their time limit, and the largest has a `max_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ddbload.contracts import run_record as prices
from ddbload.contracts.chunks import group_sizes
from ddbload.contracts.options import DEFAULT_CHUNK_BYTES
from ddbload.planning.price import METRICS, PreflightWork, Workload, writes
from ddbload.steps.prepare import CHUNKS_OF_WORKER, MIN_CHUNK_BYTES

ROW_BYTES = 100
"""Bytes of a row of the proof's files, about; each is one write unit."""
SCALES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
"""Scales that are tried; at the last, each part has its smallest size."""
_REWRITTEN = 1.05
"""Write units for a row, at most: rows whose answer was lost are written again."""
_RETRIED = 1.25
"""State transitions, at most, beside those without retries."""
_READS = 0.001
"""Dollars for polling a table, describing and listing, for each part."""
_METRIC_REQUESTS = 2 * 0.01 / 1000
"""Dollars for Preflight's questions about the table's other traffic, for each run."""
HOURS = 2
"""Hours for which what is billed by the hour is reserved."""
STANDING = HOURS * (2 * METRICS * prices.METRIC_MONTH + 1.0) / 730 + 0.05 * prices.LOG_GB + 0.01
"""Dollars for the stack's metrics, its log key ($1 a month), 50 MB of logs, and calls of queues,
events and the key."""


class BudgetTooSmall(Exception):
    """Error for a budget that does not pay for the smallest scale."""


@dataclass(frozen=True, slots=True)
class Work:
    """Billed work of a part, at most."""

    runs: int = 0
    rows: int = 0
    """Rows of each run."""
    seconds: float = 0.0
    """Seconds after which a run is cancelled."""
    workers: int = 1
    fixed: float = 0.0
    """Dollars that do not depend on runs, such as a table's provisioned hour."""

    @property
    def max_cost(self) -> float:
        """Dollars of a run's write units."""
        return writes(math.ceil(self.rows * _REWRITTEN)).dollars

    @property
    def dollars(self) -> float:
        if not self.runs:
            return self.fixed
        services = run_services(self.rows * ROW_BYTES, self.seconds, self.workers)
        services["Step Functions"] *= _RETRIED
        # All items are counted twice.
        units = 2 * self.rows * math.ceil(ROW_BYTES * 1.2) / 4096
        counting = units * prices.READ_UNIT_PRICE / 1e6 + _METRIC_REQUESTS
        each = self.max_cost + sum(services.values()) + counting
        return self.fixed + _READS + self.runs * each


def run_services(size: int, seconds: float, workers: int = 1) -> dict[str, float]:
    """Return the dollars of a run by service, without DynamoDB and what is billed by the hour."""
    # Each worker gets as many chunks as it may, unless they would be too small.
    places = min(CHUNKS_OF_WORKER * workers, size // MIN_CHUNK_BYTES)
    chunks = max(1, places, math.ceil(size / DEFAULT_CHUNK_BYTES))
    workers = min(workers, chunks)
    groups = len(group_sizes(chunks, workers))
    work = Workload(size, chunks, groups, workers, seconds, PreflightWork.whole(size))
    return {line.service: line.dollars for line in work.lines() if line.service != "CloudWatch"}


def choose_scale(price: Callable[[float], float], dollars: float) -> float:
    """Return the largest scale whose price is at most `dollars`. Raises `BudgetTooSmall`."""
    for scale in SCALES:
        if price(scale) <= dollars:
            return scale
    least = math.ceil(price(SCALES[-1]) * 100) / 100
    raise BudgetTooSmall(
        f"BUDGET={dollars:g} is too small: the parts may cost ${least:.2f} at the smallest scale;"
        " give that, or fewer parts (--parts)"
    )


@dataclass(slots=True)
class Budget:
    """Dollars of a proof, and what it has spent of them by its own estimate."""

    dollars: float
    spent: float = 0.0

    @property
    def left(self) -> float:
        return self.dollars - self.spent

    def allows(self, work: Work) -> bool:
        """Tell whether the most that the work may cost is left."""
        return work.dollars <= self.left
