"""Loads on which the rate is measured, each on one or both models of a table.

Figures are shares of 1, seconds, or counts. `python -m bench.rates` prints them for ddbload and its
rivals. `test_pacing_loads` and `test_throughput_targets` hold ddbload to bounds on short loads, and
`tests/trials/test_pacing.py` on the long ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sim.boto_writers import AdaptiveBatchWriter, ServingClient
from tests.sim.metered_table import MeteredTable, Rules
from tests.sim.simulated_table import Capacity, SimulatedTable
from tests.sim.throughput import ThroughputRun
from tests.sim.writers import Load, SchedulerWriter, Writer

Figures = dict[str, float]
MakeWriter = Callable[[random.Random, float | None], Writer]
"""Maker of a writer from a source of chance, and the capacity that DescribeTable shows."""
LATENCY = 0.0075
STEADY = 5
"""Second from which on the use of the capacity is measured."""


def ddbload(rng: random.Random, capacity: float | None = None) -> Writer:
    return SchedulerWriter(16, rng, capacity=capacity)


def boto(rng: random.Random, _: float | None = None) -> Writer:
    """boto3's `batch_writer` in eight threads, with adaptive retries."""
    return AdaptiveBatchWriter(8, rng)


def buckets(**given: float | bool | None) -> SimulatedTable:
    """Make a table of continuous buckets that has saved no capacity."""
    settings = {"saved": 1.0, "burst_seconds": 1.0, "splits": False}
    seed = int(given.pop("seed", 1) or 0)
    return SimulatedTable(Capacity(**{**settings, **given}), salt=seed)  # type: ignore[arg-type]


def metered(**given: float | bool | None) -> MeteredTable:
    """Make a table that counts by the second."""
    seed = int(given.pop("seed", 1) or 0)
    return MeteredTable(Rules(**given), salt=seed)  # type: ignore[arg-type]


Table = SimulatedTable | MeteredTable


def jain(rates: Sequence[float]) -> float:
    """Compute Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def returned_share(run: ThroughputRun, first: int = 0, last: int | None = None) -> float:
    usage = run.table.usage
    returned, accepted = sum(usage.returned[first:last]), sum(usage.accepted[first:last])
    return returned / (returned + accepted) if returned else 0.0


def used_share(run: ThroughputRun, first: int, last: int, limit: float) -> float:
    return sum(run.table.usage.accepted[first:last]) / (last - first) / limit


def sorted_rows(
    workers: int, seed: int, seconds: float, capacity: Capacity, starts: Sequence[float] = ()
) -> ThroughputRun:
    """Write 200 rows a key to an on-demand table by workers that know nothing of each other."""
    writers = [SchedulerWriter(16, random.Random(100 * seed + place)) for place in range(workers)]
    table = SimulatedTable(capacity, salt=seed)
    return ThroughputRun(writers, table, Load(), seed=seed, starts=starts).run(seconds)


def budget_windows(max_wcu: float, units: int, index_units: int, latency: float) -> list[float]:
    """Compute the part of `max_wcu` used in each window of ten seconds, after the first ten."""
    writer = SchedulerWriter(32, random.Random(1), max_wcu)
    table = SimulatedTable(Capacity(partitions=8, on_demand=8000.0, index_units=index_units))
    run = ThroughputRun([writer], table, Load(units=units), latency=latency)
    taken = [0.0]
    for tenth in range(1, 400):
        run.run(tenth / 10)
        taken.append(sum(table.usage.accepted))
    return [(taken[at + 100] - taken[at]) / 10 / max_wcu for at in range(100, 299)]


@dataclass(frozen=True)
class Alone:
    """One writer that loads rows into a table."""

    table: Callable[[int], Table]
    rows: int
    limit: float = 4000.0
    rows_of_key: int = 1
    hot_share: float = 0.0
    latency: float = LATENCY
    in_turns: bool = False
    provisioned: float | None = None

    def __call__(self, make: MakeWriter, seed: int) -> Figures:
        load = Load(
            self.rows,
            rows_of_key=self.rows_of_key,
            hot_share=self.hot_share,
            in_turns=self.in_turns,
        )
        run = ThroughputRun(
            [make(random.Random(seed), self.provisioned)],
            self.table(seed),
            load,
            seed=seed,
            latency=self.latency,
        ).run(3600.0)
        wall = run.writers[0].finished_at
        return {
            "wall": wall,
            "used": used_share(run, STEADY, max(STEADY + 1, math.floor(wall) - 1), self.limit),
            "returned": returned_share(run),
        }


@dataclass(frozen=True)
class Four:
    """Four writers that know nothing of each other; one starts later than the others."""

    table: Callable[[int], Table]
    rows: int = 60_000
    latency: float = LATENCY

    def __call__(self, make: MakeWriter, seed: int) -> Figures:
        starts = (0.0, 0.05, 0.1, 10.0)
        writers = [make(random.Random(10 * seed + place), None) for place in range(4)]
        run = ThroughputRun(
            writers,
            self.table(seed),
            Load(self.rows, rows_of_key=1),
            seed=seed,
            latency=self.latency,
            starts=starts,
        ).run(3600.0)
        wall = max(each.finished_at for each in run.writers)
        first = min(each.finished_at for each in run.writers)
        last = max(21, int(min(first, 40.0)))
        return {
            "wall": wall,
            "of_ideal": wall / (4 * self.rows / 4000.0),
            "jain": jain([each.rows_per_second(20, last) for each in run.writers]),
            "used": used_share(run, STEADY, int(first), 4000.0),
            "returned": returned_share(run),
        }


@dataclass(frozen=True)
class Freed:
    """Four writers, of which three end after 30 seconds."""

    table: Callable[[int], Table]

    def __call__(self, make: MakeWriter, seed: int) -> Figures:
        writers = [make(random.Random(10 * seed + place), None) for place in range(4)]
        run = ThroughputRun(
            writers,
            self.table(seed),
            Load(rows_of_key=1),
            seed=seed,
            latency=LATENCY,
            starts=(0.0, 1.0, 2.0, 3.0),
        ).run(30.0)
        fair = jain([each.rows_per_second(20, 30) for each in run.writers])
        before = run.writers[0].rows_per_second(25, 30)
        run.stop(run.writers[1:])
        run.run(60.0)
        accepted = run.writers[0].accepted
        enough = before + 0.9 * (4000.0 - before)
        taken = (second for second in range(30, 60) if accepted[second] >= enough)
        return {"jain": fair, "taken_after": next(taken, 60) - 30.0}


@dataclass(frozen=True)
class Many:
    """Forty writers that start at random in the first five seconds."""

    table: Callable[[int], Table]
    writers: int = 40

    def __call__(self, make: MakeWriter, seed: int) -> Figures:
        rng = random.Random(seed)
        writers = [make(random.Random(100 * seed + place), None) for place in range(self.writers)]
        run = ThroughputRun(
            writers,
            self.table(seed),
            Load(rows_of_key=1),
            seed=seed,
            latency=LATENCY,
            starts=[5.0 * rng.random() for _ in writers],
        ).run(100.0)
        return {
            "jain": jain([each.rows_per_second(60, 100) for each in run.writers]),
            "used": used_share(run, 10, 100, 4000.0),
            "returned": returned_share(run, 10),
            "returned_before": returned_share(run, 0, 10),
        }


@dataclass(frozen=True)
class Serving:
    """A table of 1,000 units a second, of which an application uses 300."""

    table: Callable[[int], Table]
    seconds: int = 120

    def __call__(self, make: MakeWriter, seed: int) -> Figures:
        serving = ServingClient(300.0, random.Random(seed))
        run = ThroughputRun(
            [serving, make(random.Random(seed), 1000.0)],
            self.table(seed),
            Load(rows_of_key=1),
            seed=seed,
            latency=LATENCY,
            starts=(0.0, 10.0),
        ).run(float(self.seconds))
        return {
            "used": used_share(run, 15, self.seconds, 1000.0),
            "returned": returned_share(run),
            "throttled": serving.throttled / serving.calls,
            "failed": serving.failed / serving.calls,
        }


LOADS: dict[str, Callable[[MakeWriter, int], Figures]] = {
    "fixed 4,000, buckets": Alone(lambda seed: buckets(seed=seed), 160_000),
    "fixed 4,000, metered": Alone(lambda seed: metered(seed=seed), 160_000),
    "fixed 4,000, 80 ms away, metered": Alone(
        lambda seed: metered(seed=seed), 120_000, latency=0.08
    ),
    "doubling, metered": Alone(
        lambda seed: metered(doubles_after=30.0, splits_after=60.0, seed=seed), 320_000, math.inf
    ),
    "500, nothing saved, buckets": Alone(
        lambda seed: buckets(partitions=1, provisioned=500.0, seed=seed),
        20_000,
        500.0,
        provisioned=500.0,
    ),
    "500, nothing saved, metered": Alone(
        lambda seed: metered(partitions=1, limit=500.0, seed=seed),
        20_000,
        500.0,
        provisioned=500.0,
    ),
    "500, 300 s saved, buckets": Alone(
        lambda seed: buckets(partitions=1, provisioned=500.0, burst_seconds=300.0, seed=seed),
        165_000,
        math.inf,
        provisioned=500.0,
    ),
    "500, 300 s saved, metered": Alone(
        lambda seed: metered(
            partitions=1, limit=500.0, saved_seconds=300.0, partition_burst=True, seed=seed
        ),
        165_000,
        math.inf,
        provisioned=500.0,
    ),
    **{
        f"collections of {rows}, {name}": Alone(table, 120_000, rows_of_key=rows, in_turns=True)
        for rows in (30, 1000)
        for name, table in {
            "buckets": lambda seed: buckets(seed=seed),
            "buckets that save": lambda seed: buckets(burst_seconds=300.0, saved=0.0, seed=seed),
            "metered": lambda seed: metered(seed=seed),
        }.items()
    },
    "hot key, buckets": Alone(lambda seed: buckets(seed=seed), 60_000, 2500.0, 200, 0.2),
    "hot key, metered": Alone(lambda seed: metered(seed=seed), 60_000, 2500.0, 200, 0.2),
    "four, buckets": Four(lambda seed: buckets(seed=seed)),
    "four, metered": Four(lambda seed: metered(seed=seed)),
    "four, 80 ms away, metered": Four(lambda seed: metered(seed=seed), latency=0.08),
    "freed, buckets": Freed(lambda seed: buckets(seed=seed)),
    "freed, metered": Freed(lambda seed: metered(seed=seed)),
    "forty, buckets": Many(lambda seed: buckets(seed=seed)),
    "forty, metered": Many(lambda seed: metered(seed=seed)),
    "serving, buckets": Serving(lambda seed: buckets(partitions=1, provisioned=1000.0, seed=seed)),
    "serving, metered": Serving(lambda seed: metered(partitions=1, limit=1000.0, seed=seed)),
}
