"""Write books to three tables: with boto3, boto3 in threads, aiohttp, and ddbload."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.checksum import ItemChecksum
from bench.rounds import Cores, SinkProcess, check_ddbload_report, sink
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
    Measured,
    Series,
    Setup,
    Table,
    busy,
    number,
    require_count,
)

SYNC, THREADED, ASYNC = "SyncBooks", "ThreadedBooks", "AsyncBooks"
MANY_THREADS = 12
"""Threads of `run_in_executor` on a machine with 8 cores."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to write the books, and the table that it writes to."""

    label: str
    table: str
    kind: str
    command: tuple[str, ...]
    """Program and options of `lab.published.writers`, or options of `ddbload import`."""
    published_seconds: float | None = None


SEQUENTIAL = Way("sequential put_item", SYNC, BOTO3, ("synchronous",), 832.65)
THREADS_12 = Way(
    f"threaded put_item, {MANY_THREADS} threads",
    THREADED,
    BOTO3,
    ("threaded", "--threads", str(MANY_THREADS)),
)
THREADS = Way("threaded put_item", THREADED, BOTO3, ("threaded",), 71.23)
AIOHTTP = Way("aiohttp with own SigV4", ASYNC, ASYNCIO, ("asynchronous",), 11.06)
OUR_ASYNC = Way("ddbload --engine async", ASYNC, OURS, ("--engine", "async"))
WAYS = (
    SEQUENTIAL,
    Way("sequential, a new client each", SYNC, BOTO3, ("synchronous", "--new-clients")),
    THREADS,
    THREADS_12,
    Way("threaded, a new client each", THREADED, BOTO3, ("threaded", "--new-clients")),
    AIOHTTP,
    Way("ddbload --engine sync", SYNC, OURS, ("--engine", "sync")),
    Way("ddbload --engine threads", THREADED, OURS, ("--engine", "threads")),
    OUR_ASYNC,
)
_RATIOS = (
    (SEQUENTIAL, THREADS, "11.7 x"),
    (SEQUENTIAL, THREADS_12, ""),
    (THREADS, AIOHTTP, "6.5 x"),
    (SEQUENTIAL, AIOHTTP, "75 x"),
    (AIOHTTP, OUR_ASYNC, ""),
    (SEQUENTIAL, OUR_ASYNC, ""),
)
_COLUMNS = ("way", "published s", "here s", "CPU s", "most in flight", "requests", "sink busy")
PUBLISHED_BOOKS = 10_000


@dataclass(frozen=True, slots=True)
class Written:
    """Cost of one way, measured by its program and by the sink."""

    way: Way
    seconds: float
    """Seconds of writing, without Python's start."""
    process: Measured
    sink_cpu: float
    counters: Mapping[str, Any]


def run(setup: Setup) -> Findings:
    """Write the books in all ways. Raises `CountsDiffer` if a table lacks books or has others."""
    file = setup.folder / "books.csv"
    books = harness.published("writers.books", str(file), str(setup.size), str(setup.seed))
    harness.run(books, harness.environment())
    due = books_due(file)
    require_count("books made by Faker", setup.size, due.items)
    with sink(Cores(None, None)) as server:
        server.reset_without_tables(setup.latency)
        environment = harness.environment(dynamodb=server.ready["http"])
        harness.run(harness.published("writers.create_tables"), environment)
        once = partial(_write, file=file, due=due, server=server, environment=environment)
        written = [setup.measured(way.label, partial(once, way)) for way in WAYS]
    return _findings(written, setup.size)


def _write(
    way: Way, file: Path, due: ItemChecksum, server: SinkProcess, environment: Mapping[str, str]
) -> Written:
    server.clear()
    before = server.counters()["cpu_seconds"]
    if way.kind == OURS:
        ledger = file.with_name(f"ledger-{way.command[-1]}")
        options = ["--json", "--quiet", "--ledger", str(ledger), *way.command]
        used = harness.run(harness.ddbload("import", str(file), way.table, *options), environment)
        check_ddbload_report(way.label, used.printed, due.items)
    else:
        program, *options = way.command
        command = harness.published(f"writers.{program}", str(file), way.table, *options)
        used = harness.run(command, environment)
    counters = server.counters()
    require_arrived(way, due, counters)
    cpu = counters["cpu_seconds"] - before
    return Written(way, used.printed["seconds"], used, cpu, counters)


def books_due(file: Path) -> ItemChecksum:
    """Return number and checksum of a file's books, read by code that no way uses."""
    due = ItemChecksum()
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            due.add({name: {"S": text} for name, text in row.items()})
    return due


def require_arrived(way: Way, due: ItemChecksum, counters: Mapping[str, Any]) -> None:
    """Raise `CountsDiffer` unless only the way's table received books, each once."""
    label = f"{way.label}, {way.table}"
    if counters["invalid"]:
        raise CountsDiffer(f"{label}: invalid requests, first: {counters['first_invalid']}")
    for name, table in counters["tables"].items():
        expected = due if name == way.table else ItemChecksum()
        require_count(f"{label}: books in {name}", expected.items, table["items"])
        if table["checksum"] != expected.checksum:
            raise CountsDiffer(f"{label}: the items in {name} differ from the books")


def _findings(written: Sequence[Written], size: int) -> Findings:
    seconds = {each.way: each.seconds for each in written}
    rows, ratios, bars = [], [], []
    for each in written:
        way = each.way
        rows.append(
            (
                way.label,
                f"{way.published_seconds:.2f}" if way.published_seconds else "",
                number(each.seconds),
                number(each.process.cpu),
                f"{each.counters['most_in_flight']}",
                f"{each.counters['requests']:,}",
                f"{each.sink_cpu / each.seconds:.0%}",
            )
        )
        if way.published_seconds:
            value = way.published_seconds * 1000 / PUBLISHED_BOOKS
            bars.append(Series(f"{way.label}: published", PUBLISHED, [value]))
        bars.append(Series(way.label, way.kind, [each.seconds * 1000 / size]))
    for slow, fast, published in _RATIOS:
        gain = number(seconds[slow] / seconds[fast])
        ratios.append((f"{fast.label} against {slow.label}", published, f"{gain} x"))
    title = f"Seconds for {size:,} books; published: for {PUBLISHED_BOOKS:,}"
    cpu = sum(each.sink_cpu for each in written)
    return Findings(
        [
            Table(title, _COLUMNS, rows),
            Table("How many times as fast", ("ways", "published", "here"), ratios, detail=True),
        ],
        [Chart("bars", "Writing books", "seconds for 1,000 books", bars, logarithmic=True)],
        [busy("sink", cpu, sum(each.process.seconds for each in written))],
    )


EXPERIMENT = Experiment(
    name="writers",
    title="Writers: one item a request, and batches",
    source="DynamoDB Write Concurrency In Python (Jamie Hargreaves, 2022)",
    unit="books",
    size=500,
    published_size=PUBLISHED_BOOKS,
    latency_ms=8,
    run=run,
)
