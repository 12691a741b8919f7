"""Measure what several places of a sorted file side by side (lanes) would save, in virtual time.

    python -m bench.lanes [--seeds 3] [--workers 1,4] [TABLE ...]

Each worker has an equal part of the file, of 30 or 1,000 consecutive rows with one partition key,
and takes rows in turn from 1, 2, 4 or 8 equal pieces of its part. Three others are compared:

- *keys*: one place, and a rate for each partition key that comes back while others pass: the
  scheduler's hot keys without their thresholds;
- *boto3*: `batch_writer()` in eight threads with adaptive retries, one place;
- *bound*: the seconds that the fullest partition needs for its rows, or the table for all.

Prints seconds until the last row is written: median, least and most. A TABLE is a part of a
table's name; default: all.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from ddbload.dynamodb.limits import PARTITION_WRITE_UNITS
from ddbload.write.scheduler import hot_keys
from tests.sim.metered_table import MeteredTable
from tests.sim.pacing_loads import LATENCY, boto, buckets, ddbload, metered, returned_share
from tests.sim.simulated_table import SimulatedTable
from tests.sim.throughput import KEYS_PER_SOURCE, ThroughputRun
from tests.sim.writers import Load, Source

LIMIT = 4000.0
"""Units a second of every table."""
ROWS = {30: 60_000, 1000: 120_000}
"""Rows of the file, by the rows of a partition key."""
LANES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Table:
    """Model of a table of 4,000 units a second in four partitions."""

    make: Callable[[int], SimulatedTable | MeteredTable]
    at_start: float
    """Seconds of capacity that are there when the load begins."""
    partition_limit: float = PARTITION_WRITE_UNITS


TABLES = {
    "nothing saved, buckets": Table(lambda seed: buckets(seed=seed), 1.0),
    "nothing saved, metered": Table(lambda seed: metered(seed=seed), 1.0),
    "partitions save 300 s, buckets": Table(
        lambda seed: buckets(burst_seconds=300.0, saved=0.0, seed=seed), 0.0
    ),
    # What other partitions leave is lent to any.
    "partitions borrow 5 s, metered": Table(
        lambda seed: metered(saved_seconds=5.0, partition_burst=True, seed=seed), 6.0, LIMIT
    ),
}
MANY_KEYS: dict[str, Any] = {
    "SUSPECT_SECONDS": 0.0,
    "SUSPECT_UNITS": 1,
    "SUSPECT_SHARE": 0.0,
    "MAX_HOT_KEYS": 1000,
    "FORGET_SECONDS": 2.0,
}
"""Settings of `hot_keys` that give every returned partition key a rate."""


class LaneSource(Source):
    """Rows in turn from equal pieces of a sorted part."""

    def __init__(self, rows: int, rows_of_key: int, lanes: int, first_key: int) -> None:
        """`first_key`: partition key of the part's first row."""
        super().__init__(Load(rows, rows_of_key=rows_of_key), random.Random(0), first_key)
        self._order = self._interleaved(rows, lanes)

    @staticmethod
    def _interleaved(rows: int, lanes: int) -> Iterator[int]:
        piece = -(-rows // lanes)
        for offset in range(piece):
            yield from range(offset, rows, piece)

    def take(self, count: int) -> Sequence[tuple[int, int]]:
        """Take up to `count` more rows; return their keys in order."""
        each = self.load.rows_of_key
        keys = [(self._first_key + row // each, row) for row in islice(self._order, max(0, count))]
        self.partition_keys.extend(key for key, _ in keys)
        return keys


def load(table: str, rows_of_key: int, workers: int, variant: str, seed: int) -> dict[str, float]:
    """Load one file, and return the figures. `variant`: lanes, `keys` or `boto3`."""
    lanes = int(variant.partition(",")[0]) if variant[0].isdigit() else 1
    rows = ROWS[rows_of_key] // workers
    make = boto if variant == "boto3" else ddbload
    run = ThroughputRun(
        [make(random.Random(10 * seed + place)) for place in range(workers)],
        TABLES[table].make(seed),
        Load(rows, rows_of_key=rows_of_key),
        seed=seed,
        latency=LATENCY,
    )
    for place, active in enumerate(run.writers):
        first_key = 1 + place * KEYS_PER_SOURCE
        active.source = LaneSource(rows, rows_of_key, lanes, first_key)
    run.run(3600.0)
    if any(len(each.source.partition_keys) != rows for each in run.writers):
        raise RuntimeError(f"not all rows of {table} were written")
    return {
        "wall": max(each.finished_at for each in run.writers),
        "returned": returned_share(run),
    }


def bound(table: str, rows_of_key: int, workers: int, seed: int) -> float:
    """Compute the seconds that the fullest partition needs, or the table."""
    rules, rows = TABLES[table], ROWS[rows_of_key] // workers
    made = rules.make(seed)
    units: Counter[Any] = Counter()
    for place in range(workers):
        for row in range(0, rows, rows_of_key):
            key = 1 + place * KEYS_PER_SOURCE + row // rows_of_key
            if isinstance(made, SimulatedTable):
                partition: Any = made.partition_of(key).start
            else:
                partition = made._place(key)  # noqa: SLF001 - the model has no other need of it
            units[partition] += min(rows_of_key, rows - row)
    fullest = max(units.values()) / rules.partition_limit
    return max(ROWS[rows_of_key] / LIMIT, fullest) - rules.at_start


def measure(
    table: str, rows_of_key: int, workers: int, variant: str, seeds: int
) -> list[dict[str, float]]:
    """Load files of several seeds."""
    settings = MANY_KEYS if variant.endswith("keys") else {}
    with ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(mock.patch.object(hot_keys, name, value))
        return [load(table, rows_of_key, workers, variant, seed) for seed in range(1, seeds + 1)]


def line(name: str, figures: Sequence[dict[str, float]]) -> str:
    """Write the median, least and most of the seconds, and the median of the returned share."""
    walls = [each["wall"] for each in figures]
    returned = statistics.median(each["returned"] for each in figures)
    spread = f"({min(walls):.1f} to {max(walls):.1f})"
    return f"  {name:11}{statistics.median(walls):>7.1f}  {spread}, returned {returned:.1%}"


def main(arguments: list[str] | None = None) -> None:
    """Measure every variant with every table, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lanes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="part of a name; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--workers", default="1,4", help="numbers; default: %(default)s")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(arguments)
    results = []
    for table in TABLES:
        if args.tables and not any(part in table for part in args.tables):
            continue
        for rows_of_key, rows in ROWS.items():
            for workers in map(int, args.workers.split(",")):
                seeds = range(1, args.seeds + 1)
                bounds = [bound(table, rows_of_key, workers, seed) for seed in seeds]
                print(f"{table}; {rows:,} rows, {rows_of_key:,} a key; workers: {workers}")
                print(f"  {'bound':11}{statistics.median(bounds):>7.1f}", flush=True)
                for variant in (*map(str, LANES), "keys", "8, keys", "boto3"):
                    figures = measure(table, rows_of_key, workers, variant, args.seeds)
                    name = f"k = {variant}" if variant[0].isdigit() else variant
                    case = {"table": table, "rows_of_key": rows_of_key, "workers": workers}
                    results.append({**case, "variant": name, "bounds": bounds, "runs": figures})
                    print(line(name, figures), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
