"""Load sorted 1-grams into a simulated table: ddbload's scheduler beside plain batch writers.

    python -m bench.table [--rows 4000000] [--file FILE] [--seed 1] [--json FILE]

The table (tests/sim/simulated_table.py) is on demand: 4 partitions, 4,000 write units per second.
No request is sent and no row is encoded: only the use of the table's capacity is measured. Time is
virtual, so a seed gives the same figures on every machine. The rows are those of `ngrams` in
`bench.shapes`, or those of a tab-separated file whose first column is the partition key.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, PlainBatchWriter, SchedulerWriter, Writer

CONCURRENCY = 16
WRITERS: dict[str, Callable[[random.Random], Writer]] = {
    "ddbload": lambda rng: SchedulerWriter(CONCURRENCY, rng),
    "plain batch writer, 16 threads": lambda rng: PlainBatchWriter(CONCURRENCY, rng),
    "plain batch writer, 1 thread": lambda rng: PlainBatchWriter(1, rng),
}
TABLES = {
    "as DynamoDB: 300 s of burst": Capacity(),
    "10 s of burst, no splits": Capacity(burst_seconds=10.0, splits=False),
    "1 s of burst, no splits": Capacity(burst_seconds=1.0, splits=False),
}
STEADY_MINUTE = 5
"""Minutes after which the saved-up burst capacity is used up."""
LIMIT_SECONDS = 24 * 3600.0
"""Limit of virtual time in seconds."""


def one_grams(rng: random.Random) -> Iterator[int]:
    """Generate the number of rows of each word, as in `bench.shapes`."""
    while True:
        yield rng.randint(1, 209)


def make_load(rows: int, file: Path | None) -> Load:
    """Return the rows to load: generated, or from a file."""
    if file is None:
        return Load(rows, runs=one_grams)
    with file.open(encoding="utf-8") as lines:
        words = (line.partition("\t")[0] for line in lines)
        runs = [sum(1 for _ in same) for _, same in groupby(words)]
    return Load(min(rows, sum(runs)), runs=lambda _rng: iter(runs))


def measure(writer: str, table: str, load: Load, seed: int) -> dict[str, Any]:
    """Load all rows into one table with one writer."""
    started = time.process_time()
    made = WRITERS[writer](random.Random(seed))
    flow = ThroughputRun([made], SimulatedTable(TABLES[table], salt=seed), load, seed=seed).run(
        LIMIT_SECONDS
    )
    whole, steady = flow.total(), flow.now - 60 * STEADY_MINUTE
    accepted = sum(flow.table.usage.accepted[60 * STEADY_MINUTE : int(flow.now)])
    return {
        "writer": writer,
        "table": table,
        "seconds": flow.now,
        "capacity_used": accepted / steady / TABLES[table].on_demand if steady > 60 else None,
        "requests": whole.requests,
        "requests_throttled": whole.throttled,
        "items_written": whole.sent - whole.returned,
        "items_returned": whole.returned,
        "simulation_cpu_seconds": time.process_time() - started,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure every writer with every table, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="default: %(default)s")
    parser.add_argument("--file", type=Path, help="tab-separated file, sorted by its first column")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(arguments)
    load = make_load(args.rows, args.file)
    results = []
    print(f"{load.rows:,} sorted rows, on demand at 4,000 units/s, simulated; seed {args.seed}")
    for table in TABLES:
        print(f"\n{table}")
        print(
            f"  {'':32}{'minutes':>9}{'capacity':>10}{'requests':>10}{'throttled':>10}"
            f"{'items returned':>20}"
        )
        for writer in WRITERS:
            found = measure(writer, table, load, args.seed)
            results.append(found)
            used, returned = found["capacity_used"], found["items_returned"]
            print(
                f"  {writer:32}{found['seconds'] / 60:>9.1f}"
                f"{'-' if used is None else f'{used:.1%}':>10}"
                f"{found['requests']:>10,}{found['requests_throttled']:>10,}"
                f"{returned:>12,}{returned / (returned + found['items_written']):>8.2%}",
                flush=True,
            )
    print(f"\ncapacity: share used after minute {STEADY_MINUTE}, when the saved-up burst is gone")
    if args.json:
        args.json.write_text(json.dumps({"seed": args.seed, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
