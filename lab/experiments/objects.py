"""Threads against asyncio for reading many small S3 objects, published in 2019."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench.bucket import BUCKET, bucket_keys, etag_of, object_body
from bench.http_server import control, serving
from lab import harness
from lab.harness import (
    ASYNCIO,
    BOTO3,
    OURS,
    PUBLISHED,
    Chart,
    CountsDiffer,
    Experiment,
    Findings,
    Series,
    Setup,
    Table,
    busy,
    number,
    require_count,
)

BYTES, SHAPE = 1024, "hashed"
THREADS, TASKS, DDBLOAD = "threads", "tasks", "ddbload"
KINDS = {THREADS: BOTO3, TASKS: ASYNCIO, DDBLOAD: OURS}
_LABELS = {
    THREADS: "{:,} threads",
    TASKS: "asyncio, pool of {:,}",
    DDBLOAD: "ddbload, {:,} at once",
}
FEW = 100
"""Number of objects in the published times by concurrency."""
LEVELS = (10, 50, 100)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read objects, with its number of threads, connections or reads."""

    kind: str
    concurrency: int

    @property
    def label(self) -> str:
        """Name in tables and charts."""
        return _LABELS[self.kind].format(self.concurrency)

    def command(self, inputs: Inputs) -> list[str]:
        """Build the command that reads all objects."""
        if self.kind == DDBLOAD:
            begin, file = [sys.executable, "-m", "lab.reader"], inputs.objects
        else:
            begin, file = harness.published(f"objects.{self.kind}"), inputs.keys
        return [*begin, BUCKET, str(file), str(self.concurrency)]


PUBLISHED_FEW = {Way(THREADS, 10): 1.70, Way(THREADS, 100): 6.0, Way(TASKS, 100): 1.39}
"""Published seconds for 100 objects."""
PUBLISHED_MANY = {30_000: 90.0, 100_000: 342.5}
"""Published seconds by number of objects; the last with 50 threads."""
PUBLISHED_COSTS = {"thread": 0.01, "boto3 client, with a session": 0.05}
WORKERS = 50
SLOW, SLOW_LIMIT = Way(TASKS, 10), 10_000
"""Way that takes minutes for many objects, and the most objects it is run with."""
SKEW_OBJECTS, MAX_SKEW = 700, 2.2
"""Number of objects, and seconds of clock skew in place of the 900 that S3 allows.

A date in a request has whole seconds.
"""
AT_ONCE = 10
WAIT = 3.0
"""Seconds that the last request waits if all are sent at once."""
HOUR, S3_SKEW = 3600, 900


@dataclass(frozen=True, slots=True)
class Inputs:
    """Objects to read: files that list them for the ways, and their checksum."""

    keys: Path
    objects: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one run of a way: its output, and the server's counters."""

    way: Way
    due: int
    printed: Mapping[str, Any]
    counters: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """Seconds of the work."""
        return float(self.printed["seconds"])

    def row(self) -> tuple[str, str]:
        """Return the figures for a row of a table of times."""
        cpu = number(self.printed["cpu"] / self.due * 1000)
        return cpu, str(self.counters["most_in_flight"])


def write_inputs(folder: Path, count: int) -> Inputs:
    """Write the files that list the first `count` objects."""
    digest = hashlib.sha256()
    inputs = folder / f"keys-{count}", folder / f"objects-{count}"
    listed = bucket_keys(SHAPE, count)
    with inputs[1].open("w", encoding="utf-8") as file:
        for key in listed:
            body = object_body(key, BYTES)
            digest.update(key.encode() + b"\0" + body)
            file.write(json.dumps({"key": key, "etag": etag_of(body), "size": len(body)}) + "\n")
    inputs[0].write_text("".join(f"{key}\n" for key in listed), encoding="utf-8")
    return Inputs(*inputs, digest.hexdigest())


class Runner:
    """Runs ways against one server."""

    def __init__(self, endpoint: str, setup: Setup) -> None:
        self._endpoint, self._setup = endpoint, setup
        self.read = cache(self._read)
        self._inputs = cache(partial(write_inputs, setup.folder))
        self._environment = harness.environment(s3=endpoint)
        self.server_cpu = self.served_seconds = 0.0

    def _read(self, way: Way, count: int) -> Result:
        """Read all objects in one way, once. Raises `CountsDiffer` unless every byte was read."""
        found = self.read_once(way, count, latency=self._setup.latency)
        if found.printed["failure"]:
            raise CountsDiffer(f"{way.label}: {found.printed['failure']}")
        require_count(way.label, count, found.printed["objects"])
        return found

    def read_once(self, way: Way, count: int, **settings: float) -> Result:
        """Read objects with other settings of the server, which may make it refuse some."""
        inputs = self._inputs(count)
        due = {"shape": SHAPE, "objects": count, "bytes": BYTES, "seed": self._setup.seed}

        def once() -> tuple[Mapping[str, Any], Mapping[str, Any], float]:
            control(self._endpoint, "/reset", {**due, **settings})
            before = control(self._endpoint, "/counters")["cpu_seconds"]
            printed = harness.run(way.command(inputs), self._environment).printed
            counters = control(self._endpoint, "/counters")
            return printed, counters, counters["cpu_seconds"] - before

        printed, counters, cpu = self._setup.measured(f"{way.label}: {count:,} objects", once)
        self.server_cpu += cpu
        self.served_seconds += printed["seconds"]
        if printed["objects"] == count and printed["digest"] != inputs.digest:
            raise CountsDiffer(f"{way.label}: {count:,} objects were read, with other bytes")
        sent = counters["objects"]
        require_count(f"{way.label}, objects that were sent", printed["objects"], sent)
        return Result(way, count, printed, counters)

    def costs(self, clients: int) -> Mapping[str, Any]:
        """Measure the cost of a thread and of a client, of which it creates `clients`."""
        command = harness.published("objects.costs", str(clients))
        once = partial(harness.run, command, self._environment)
        return self._setup.measured("threads and clients alone", once).printed


def run(setup: Setup) -> Findings:
    """Read the objects in all ways. Raises `CountsDiffer` if a body is missing or wrong."""
    levels = [level for level in LEVELS if level <= setup.size] or [setup.size]
    workers = WORKERS if WORKERS in levels else levels[-1]
    few = min(FEW, setup.size)
    sizes = sorted({min(10**power, setup.size) for power in range(2, 6)} | {setup.size})
    with serving("bench.bucket") as endpoint:
        runner = Runner(endpoint, setup)
        by_level = [runner.read(Way(kind, level), few) for level in levels for kind in KINDS]
        by_size = [
            runner.read(way, size)
            for size in sizes
            for way in dict.fromkeys([SLOW, *(Way(kind, workers) for kind in KINDS)])
            if way != SLOW or size <= SLOW_LIMIT
        ]
        costs = runner.costs(max(2, min(20, setup.size // 5)))
        aged = _read_late(runner, setup)
        wrong = _read_with_wrong_clock(runner, few, setup)
        refusal = runner.read_once(Way(DDBLOAD, AT_ONCE), AT_ONCE, max_skew_seconds=-1)
    return Findings(
        tables=[
            _few_table(few, by_level),
            _many_table(by_size),
            _cost_table(costs, by_level),
            _skew_table("the last waits 3 s", aged, "an hour slow", wrong),
        ],
        charts=[_few_chart(few, by_level), _many_chart(by_size)],
        notes=[
            (
                f"asyncio and threads fail with: `{aged[0].printed['failure']}` `asyncio.gather`"
                " raises the first such failure in place of all bodies; here failures are"
                " collected. ddbload, where every request is refused:"
                f" `{refusal.printed['failure']}`"
            ),
            busy("S3 server", runner.server_cpu, runner.served_seconds),
        ],
    )


def _read_late(runner: Runner, setup: Setup) -> list[Result]:
    """Read objects from a server that handles few requests at once and refuses old ones."""
    count = max(FEW, min(SKEW_OBJECTS, 10 * setup.size))
    # Use few ddbload requests, so that none waits for a second at the server.
    ours = Way(DDBLOAD, min(128, max(1, count // 5)))
    ways = (Way(TASKS, AT_ONCE), Way(TASKS, count), Way(THREADS, AT_ONCE), ours)
    settings = {"most_at_once": AT_ONCE, "max_skew_seconds": MAX_SKEW}
    latency = WAIT * AT_ONCE / count
    return _all_counted([runner.read_once(way, count, latency=latency, **settings) for way in ways])


def _read_with_wrong_clock(runner: Runner, count: int, setup: Setup) -> list[Result]:
    """Read objects from a server whose clock is one hour ahead."""
    settings = {"clock_ahead_seconds": HOUR, "max_skew_seconds": S3_SKEW}
    return _all_counted(
        [
            runner.read_once(Way(kind, AT_ONCE), count, latency=setup.latency, **settings)
            for kind in (TASKS, THREADS, DDBLOAD)
        ]
    )


def _all_counted(found: list[Result]) -> list[Result]:
    """Raise `CountsDiffer` unless ddbload read all objects, and others counted each refusal."""
    for each in found:
        read = each.printed["objects"] + (
            0 if each.way.kind == DDBLOAD else int(each.printed["failures"])
        )
        require_count(f"{each.way.label}, read or refused", each.due, read)
    return found


def _few_table(count: int, found: Sequence[Result]) -> Table:
    base = found[0]
    base_published = PUBLISHED_FEW.get(base.way)
    rows = []
    for each in found:
        told = PUBLISHED_FEW.get(each.way) if count == FEW else None
        rows.append(
            (
                each.way.label,
                number(told) if told else "",
                number(each.seconds),
                f"{told / base_published:.2f}" if told and base_published else "",
                f"{each.seconds / base.seconds:.2f}",
                *each.row(),
            )
        )
    columns = (
        *("way", "published, s", "s", f"published, to {base.way.label}"),
        *(f"to {base.way.label}", "CPU ms an object", "most in flight"),
    )
    return Table(f"Time for {count:,} objects by concurrency", columns, rows, detail=True)


def _many_table(found: Sequence[Result]) -> Table:
    rows = []
    for each in found:
        is_published = each.way == Way(THREADS, WORKERS) and each.due in PUBLISHED_MANY
        rows.append(
            (
                f"{each.due:,} objects: {each.way.label}",
                number(PUBLISHED_MANY[each.due]) if is_published else "",
                *(number(each.seconds), number(each.due / each.seconds)),
                *each.row(),
            )
        )
    columns = ("way", "published, s", "s", "objects/s", "CPU ms an object", "most in flight")
    return Table("Time by number of objects", columns, rows, detail=True)


def _cost_table(costs: Mapping[str, Any], found: Sequence[Result]) -> Table:
    ours = next(each.printed for each in found if each.way.kind == DDBLOAD)
    start = {"seconds": ours["start_seconds"], "cpu": ours["start_cpu"]}
    rows = []
    for name, cost in {**costs, "ddbload: client and signer, once": start}.items():
        told = PUBLISHED_COSTS.get(name)
        rows.append(
            (
                name,
                number(told * 1000) if told else "",
                number(cost["seconds"] * 1000),
                number(cost["cpu"] * 1000),
                number(told / cost["seconds"]) if told else "",
            )
        )
    columns = ("one", "published, ms", "ms", "CPU ms", "published / now")
    return Table("Cost of a thread and of a client (medians)", columns, rows)


def _skew_table(late: str, aged: Sequence[Result], slow: str, wrong: Sequence[Result]) -> Table:
    rows = [
        (
            f"{each.way.label}, {case}",
            f"{each.due:,}",
            f"{each.printed['objects']:,}",
            f"{each.counters['skewed']:,}",
            f"{each.due - each.printed['objects']:,}",
            number(each.seconds),
            f"{each.counters['most_in_flight']:,}",
        )
        for case, found in ((late, aged), (slow, wrong))
        for each in found
    ]
    columns = ("way", "objects", "read", "answers 403", "missing", "s", "most in flight")
    return Table("Requests made at once, and requests of a slow clock", columns, rows)


_NAMES = {THREADS: "threads", TASKS: "asyncio", DDBLOAD: "ddbload"}


def _few_chart(count: int, found: Sequence[Result]) -> Chart:
    series = []
    for kind, colour in KINDS.items():
        points = [(each.way.concurrency, each.seconds) for each in found if each.way.kind == kind]
        series.append(Series(_NAMES[kind], colour, points))
    if count == FEW:
        for kind in (THREADS, TASKS):
            points = [(way.concurrency, s) for way, s in PUBLISHED_FEW.items() if way.kind == kind]
            series.append(Series(f"{_NAMES[kind]}, published", PUBLISHED, points))
    return Chart("lines", f"Time for {count:,} objects", "s", series, x="concurrency")


def _many_chart(found: Sequence[Result]) -> Chart:
    series = [
        Series(
            *(way.label, KINDS[way.kind]),
            [(each.due, each.seconds) for each in found if each.way == way],
        )
        for way in dict.fromkeys(each.way for each in found)
    ]
    series.append(Series("threads, published", PUBLISHED, list(PUBLISHED_MANY.items())))
    return Chart("lines", "Time by number of objects", "s", series, x="objects")


EXPERIMENT = Experiment(
    name="objects",
    title="Threads against asyncio for many objects",
    source=(
        "How to Retrieve 100k Objects with Python: Why We Prefer Threading to Asyncio"
        " (RBP Engineering, 2019)"
    ),
    unit="objects",
    size=1_000,
    published_size=100_000,
    latency_ms=20,
    run=run,
)
