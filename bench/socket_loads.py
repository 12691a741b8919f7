"""Loads of limited tables over sockets: one writer, several, or one beside an application."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.checksum import ItemChecksum, expected_checksum
from bench.clients import ROOT, TABLE, Client
from bench.rounds import Cores, InvalidRound, Scenario, SinkProcess, check, run_client
from bench.shapes import Shape
from localaws.processes import end_process
from tests.sim.pacing_loads import jain

LIMIT_SECONDS = 120.0
"""Maximum seconds of one load."""
STEADY = 5
"""Second of writing from which on the use of capacity is measured."""
FAIR, FAIR_SECONDS = 20, 40
"""Seconds of writing between which writers are compared, unless one ends earlier."""
ANY_CORES = Cores(None, None)
"""Cores without pinning: all processes may use every core."""
MODELS = ("buckets", "metered")
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdaptiveThreads(Client):
    """boto3's `batch_writer()` in threads that share a client with adaptive retries."""

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """Build the command that imports a file."""
        del folder
        settings = json.dumps(self.settings(shape))
        return [sys.executable, "-m", "bench.rivals.adaptive", str(file), TABLE, settings]


@dataclass(frozen=True, slots=True)
class HalfTheTable(Client):
    """ddbload with a budget of half the table's capacity."""

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """Build the command that imports a file."""
        # Not `super()`, which does not work in a dataclass with slots.
        return [*Client.command(self, file, shape, folder), "--max-wcu", "50%"]


OWN, RIVAL = "ddbload import", "boto3, 8 threads"
CLIENTS: dict[str, Client] = {
    OWN: Client.parse("async"),
    RIVAL: AdaptiveThreads("adaptive", 8),
    "ddbload --max-wcu 50%": HalfTheTable("async", 16),
}
"""ddbload in one process, and its rival."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table with limits, for either model."""

    limit: int
    """Write units per second."""
    partitions: int
    saved_seconds: int = 0
    """Seconds of unused capacity that are saved; available when the load begins."""
    on_demand: bool = False

    def settings(self, model: str, salt: int) -> dict[str, Any]:
        """Return the settings of `bench.throttled_table`."""
        stated = None if self.on_demand else self.limit
        common = {"model": model, "salt": salt, "stated_units": stated}
        common["partitions"] = self.partitions
        if model == "metered":
            saved = {"saved_seconds": self.saved_seconds, "partition_burst": True}
            return {**common, "limit": self.limit, **(saved if self.saved_seconds else {})}
        burst = float(max(1, self.saved_seconds))
        return {**common, "provisioned": self.limit, "burst_seconds": burst, "splits": False}


@dataclass(frozen=True, slots=True)
class Load:
    """Rows of each writer, and their table."""

    rows: int
    table: Table
    rows_of_key: int = 1
    """Consecutive rows with the same partition key."""
    hot_share: float = 0.0
    """Share of rows with the same partition key."""
    starts: tuple[float, ...] = (0.0,)
    """Second at which each writer starts."""
    more_rows: int = 0
    """Additional rows of the first writer, which starts alone."""
    served: int = 0
    """Items per second that an application puts meanwhile."""
    clients: tuple[str, ...] = (OWN, RIVAL)

    def rows_of(self, writer: int) -> int:
        """Return a writer's number of rows."""
        return self.rows + (0 if writer else self.more_rows)

    def shape(self, name: str, writer: int = 0) -> Shape:
        """Describe a writer's file."""

        def rows(rng: random.Random) -> Iterator[str]:
            number = 0
            while True:
                key = f"{writer}-{number // self.rows_of_key:07}"
                if self.hot_share and rng.random() < self.hot_share:
                    key = "hot"
                yield f"{key},{writer * 10**8 + number},{rng.getrandbits(64):016x}\n"
                number += 1

        columns = {"key": "S", "number": "N", "text": "S"}
        return Shape(f"{name} {writer}", columns, ("key", "number"), ",", header=True, rows=rows)


SMALL, ON_DEMAND = Table(500, 1), Table(4000, 4, on_demand=True)
LOADS = {
    "unique keys, on demand at 4,000": Load(40_000, ON_DEMAND),
    "unique keys, provisioned 1,500": Load(24_000, Table(1500, 2)),
    "unique keys, provisioned 500": Load(8_000, SMALL),
    "unique keys, provisioned 500 and 20 s saved": Load(16_000, Table(500, 1, 20)),
    "30 rows a key, on demand at 4,000": Load(40_000, ON_DEMAND, rows_of_key=30),
    "1,000 rows a key, on demand at 4,000": Load(30_000, ON_DEMAND, rows_of_key=1000),
    "a fifth with one key, on demand at 4,000": Load(25_000, ON_DEMAND, hot_share=0.2),
    "two writers, provisioned 1,000": Load(
        12_000, Table(1000, 1), starts=(0.0, 5.0), more_rows=12_000, clients=(OWN,)
    ),
    "four writers, provisioned 1,000": Load(
        8_000, Table(1000, 1), starts=(0.0, 2.0, 4.0, 6.0), more_rows=8_000
    ),
    "beside an application, provisioned 1,000": Load(
        12_000, Table(1000, 1), served=300, clients=(*CLIENTS,)
    ),
}


def measure(
    name: str, load: Load, client: Client, model: str, turn: int, latency: float, sink: SinkProcess
) -> Figures:
    """Run one load once and return its figures. Raises `InvalidRound` if items are missing."""
    settings = load.table.settings(model, salt=turn)
    shapes = [load.shape(name, writer) for writer in range(len(load.starts))]
    scenario = Scenario(shapes[0], tls=False, latency=latency, limits=settings)
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        files = [Path(folder, f"rows-{at}{each.suffix}") for at, each in enumerate(shapes)]
        due = ItemChecksum()
        for writer, (file, shape) in enumerate(zip(files, shapes, strict=True)):
            shape.write(file, load.rows_of(writer), turn)
            due.add_all(expected_checksum(file, shape))
        sink.reset(scenario)
        with _serving(load, scenario, sink) as served, ThreadPoolExecutor(len(files)) as pool:
            began = time.monotonic()

            def write(writer: int) -> Any:
                time.sleep(max(0.0, began + load.starts[writer] - time.monotonic()))
                environment = sink.environment(scenario, f"writer-{writer}")
                return run_client(
                    *(client, scenario, files[writer], load.rows_of(writer)),
                    *(environment, ANY_CORES, LIMIT_SECONDS),
                )

            costs = list(pool.map(write, range(len(files))))
            wall = time.monotonic() - began
        counters = sink.counters()
    check(f"{client.label}, {name}", counters, due)
    return {
        "load": name,
        "model": model,
        "client": client.label,
        "wall": wall,
        "cpu": sum(each.cpu for each in costs),
        "requests": counters["requests"],
        "server": counters["busy"],
        "of_ideal": wall / (due.items / load.table.limit),
        **_use(counters, load),
        **served,
    }


def _use(counters: dict[str, Any], load: Load) -> Figures:
    accepted, returned = counters["accepted"], counters["returned"]
    first = next(second for second, units in enumerate(accepted) if units)
    writers = [counters["writers"][f"writer-{at}"]["accepted"] for at in range(len(load.starts))]
    # Leave out the last second of the writer that ends first, which is incomplete.
    end = min(len(each) for each in writers) - 1
    steady = accepted[first + STEADY : end]
    fair = slice(first + FAIR, min(first + FAIR_SECONDS, end))
    shares = [sum(each[fair]) for each in writers]
    alone = len(writers) == 1
    return {
        "used": statistics.fmean(steady) / load.table.limit if steady else None,
        "returned": sum(returned) / (sum(returned) + sum(accepted)),
        "units_by_second": accepted,
        "jain": None if alone or not any(shares) else jain(shares),
    }


@contextmanager
def _serving(load: Load, scenario: Scenario, sink: SinkProcess) -> Iterator[Figures]:
    """Run the application inside the block, then fill in the results of its calls."""
    served: Figures = {}
    if not load.served:
        yield served
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.rivals.serving", TABLE, str(load.served)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=sink.environment(scenario, "application"),
        cwd=ROOT,
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - types
    try:
        if process.stdout.readline() != b"ready\n":
            raise InvalidRound("the application did not start")
        yield served
        process.stdin.close()
        counts = json.loads(process.stdout.readline())
    finally:
        end_process(process)
    calls = counts["calls"]
    served["calls"] = calls
    for name in ("retried", "failed", "late"):
        served[name] = counts[name] / calls


def median_of(rounds: Sequence[Figures], name: str) -> float | None:
    """Compute the median of a figure over the rounds that have it."""
    values = [each[name] for each in rounds if each.get(name) is not None]
    return statistics.median(values) if values else None
