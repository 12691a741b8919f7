"""How a table's capacity is used: our scheduler beside plain batch writers, simulated.

    python -m bench.table [--minutes 15] [--seed 1] [--json FILE]

Sorted rows as in the 1-grams (200 of each partition key next to each other) go into a simulated
table (tests/sim/table.py) on demand at 4,000 write units a second. Virtual time: the same seed
gives the same figures on every machine.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.sim.flow import Flow
from tests.sim.table import Capacity, Table
from tests.sim.writers import Load, Ours, Plain, Writer

CONCURRENCY = 16
WRITERS: dict[str, Callable[[random.Random], Writer]] = {
    "ddbload": lambda rng: Ours(CONCURRENCY, rng),
    "plain batch writer, 16 threads": lambda rng: Plain(CONCURRENCY, rng),
    "plain batch writer, 1 thread": lambda rng: Plain(1, rng),
}
TABLES = {
    "as DynamoDB: 300 s of burst": Capacity(),
    "10 s of burst, no splits": Capacity(burst_seconds=10.0, splits=False),
    "1 s of burst, no splits": Capacity(burst_seconds=1.0, splits=False),
}
STEADY = 5
"""Minutes after which the burst is used up."""


def measure(writer: str, table: str, minutes: int, seed: int) -> dict[str, Any]:
    """One writer at one table."""
    started = time.process_time()
    made = WRITERS[writer](random.Random(seed))
    flow = Flow([made], Table(TABLES[table], salt=seed), Load(), seed=seed).run(60.0 * minutes)
    accepted = flow.table.usage.accepted[60 * STEADY : 60 * minutes]
    steady, whole = flow.total(STEADY, minutes), flow.total(0, minutes)
    return {
        "writer": writer,
        "table": table,
        "capacity_used": sum(accepted) / (60 * (minutes - STEADY) * TABLES[table].on_demand),
        "items_returned": steady.returned_share,
        "items_returned_from_the_start": whole.returned_share,
        "requests": steady.requests,
        "requests_throttled": steady.throttled,
        "items_written": whole.sent - whole.returned,
        "simulation_cpu_seconds": time.process_time() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__)
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = []
    print(f"Sorted input, on demand at 4,000 units/s, minutes {STEADY} to {args.minutes}")
    for table in TABLES:
        print(f"\n{table}")
        print(f"  {'':32}{'capacity':>10}{'returned':>10}{'from 0':>10}{'throttled':>11}{'CPU':>7}")
        for writer in WRITERS:
            found = measure(writer, table, args.minutes, args.seed)
            results.append(found)
            throttled = found["requests_throttled"] / found["requests"]
            print(
                f"  {writer:32}{found['capacity_used']:>10.1%}{found['items_returned']:>10.2%}"
                f"{found['items_returned_from_the_start']:>10.2%}{throttled:>11.1%}"
                f"{found['simulation_cpu_seconds']:>6.0f}s",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps({"seed": args.seed, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
