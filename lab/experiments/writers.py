"""Books into three tables: boto3, boto3 in threads, own signatures with aiohttp, and ddbload."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.checksum import ItemChecksum
from bench.rounds import Cores, SinkProcess, check_ddbload_report, sink
from lab import ways
from lab.draw import number
from lab.experiment import Experiment, Setup
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Bar,
    Bars,
    CountsDiffer,
    Findings,
    ServerCost,
    Table,
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
    command: tuple[str, ...]
    """Program and options of `lab.published.writers`, or options of `ddbload import`."""
    published_seconds: float | None = None
    ours: bool = False


SEQUENTIAL = Way("sequential put_item", SYNC, ("synchronous",), 832.65)
THREADS_12 = Way(
    f"threaded put_item, {MANY_THREADS} threads",
    THREADED,
    ("threaded", "--threads", str(MANY_THREADS)),
)
THREADS = Way("threaded put_item", THREADED, ("threaded",), 71.23)
AIOHTTP = Way("aiohttp with own SigV4", ASYNC, ("asynchronous",), 11.06)
OUR_ASYNC = Way("ddbload --engine async", ASYNC, ("--engine", "async"), ours=True)
WAYS = (
    SEQUENTIAL,
    Way("sequential, a new client each", SYNC, ("synchronous", "--new-clients")),
    THREADS,
    THREADS_12,
    Way("threaded, a new client each", THREADED, ("threaded", "--new-clients")),
    AIOHTTP,
    Way("ddbload --engine sync", SYNC, ("--engine", "sync"), ours=True),
    Way("ddbload --engine threads", THREADED, ("--engine", "threads"), ours=True),
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
    """Cost of one way, as its program and the sink counted it."""

    way: Way
    seconds: float
    """Seconds of writing, without starting Python."""
    process: ways.Measured
    sink_cpu: float
    most_in_flight: int
    requests: int


def run(setup: Setup) -> Findings:
    """Write the books in all ways. Raises `CountsDiffer` if a table lacks some, or has others."""
    return _findings(write_all(setup), setup.size)


def write_all(setup: Setup) -> list[Written]:
    """Make the books and the tables, and run the ways one after the other."""
    file = setup.folder / "books.csv"
    books = ways.published("writers.books", str(file), str(setup.size), str(setup.seed))
    ways.run(books, ways.environment())
    due = books_due(file)
    require_count("books made by Faker", setup.size, due.items)
    with sink(Cores(None, None)) as server:
        server.reset_without_tables(setup.latency)
        environment = ways.environment(dynamodb=server.ready["http"])
        ways.run(ways.published("writers.create_tables"), environment)
        written = []
        for way in WAYS:
            setup.say(f"{way.label}, into {way.table}")
            run_once = partial(_write, way, file, due, server, environment)
            written.append(setup.measured(way.label, run_once))
    return written


def _write(
    way: Way,
    file: Path,
    due: ItemChecksum,
    server: SinkProcess,
    environment: Mapping[str, str],
) -> Written:
    server.clear()
    before = server.counters()["cpu_seconds"]
    if way.ours:
        ledger = file.with_name(f"ledger-{way.command[-1]}")
        options = ["--json", "--quiet", "--ledger", str(ledger), *way.command]
        used = ways.run(ways.ddbload("import", str(file), way.table, *options), environment)
        check_ddbload_report(way.label, used.printed, due.items)
    else:
        program, *options = way.command
        command = ways.published(f"writers.{program}", str(file), way.table, *options)
        used = ways.run(command, environment)
    counters = server.counters()
    require_arrived(way, due, counters)
    return Written(
        way,
        seconds=used.printed["seconds"],
        process=used,
        sink_cpu=counters["cpu_seconds"] - before,
        most_in_flight=counters["most_in_flight"],
        requests=counters["requests"],
    )


def books_due(file: Path) -> ItemChecksum:
    """Return number and checksum of a file's books, read by code that no way shares."""
    due = ItemChecksum()
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            due.add({name: {"S": text} for name, text in row.items()})
    return due


def require_arrived(way: Way, due: ItemChecksum, counters: Mapping[str, Any]) -> None:
    """Raise `CountsDiffer` unless the way's table got each book once, and no other table any."""
    what = f"{way.label}, {way.table}"
    if counters["invalid"]:
        raise CountsDiffer(f"{what}: invalid requests, first: {counters['first_invalid']}")
    for name, table in counters["tables"].items():
        expected = due if name == way.table else ItemChecksum()
        require_count(f"{what}: books in {name}", expected.items, table["items"])
        if table["checksum"] != expected.checksum:
            raise CountsDiffer(f"{what}: the items in {name} differ from the books")
    if not way.ours:
        require_count(f"{what}: requests", due.items, counters["requests"])


def _findings(written: Sequence[Written], size: int) -> Findings:
    seconds = {each.way: each.seconds for each in written}

    ratios = [
        (
            f"{fast.label} against {slow.label}",
            published,
            f"{number(seconds[slow] / seconds[fast])} x",
        )
        for slow, fast, published in _RATIOS
    ]
    return Findings(
        tables=[
            Table(
                f"Seconds for {size:,} books; published: for {PUBLISHED_BOOKS:,}",
                _COLUMNS,
                [_row(each) for each in written],
            ),
            Table("How many times as fast", ("ways", "published", "here"), ratios),
        ],
        charts=[_chart(written, size)],
        servers=[
            ServerCost(
                "sink",
                sum(each.sink_cpu for each in written),
                sum(each.process.seconds for each in written),
            )
        ],
        notes=NOTES,
    )


def _row(each: Written) -> tuple[str, ...]:
    published = each.way.published_seconds
    return (
        each.way.label,
        "" if published is None else f"{published:.2f}",
        number(each.seconds),
        number(each.process.cpu),
        f"{each.most_in_flight}",
        f"{each.requests:,}",
        f"{each.sink_cpu / each.seconds:.0%}",
    )


def _chart(written: Sequence[Written], size: int) -> Bars:
    bars = []
    for each in written:
        published = each.way.published_seconds
        if published is not None:
            bars.append(
                Bar(f"{each.way.label}: published", published * 1000 / PUBLISHED_BOOKS, PUBLISHED)
            )
        kind = OURS if each.way.ours else RIVAL
        bars.append(Bar(each.way.label, each.seconds * 1000 / size, kind))
    return Bars("Writing books", "seconds for 1,000 books", bars, logarithmic=True)


NOTES = (
    (
        "The seconds are those of writing, with making the one client or session, and without"
        " starting Python and reading the file. ddbload's are those of the whole command without"
        " Python's start: it also checks the table, finds the columns' types, and keeps a ledger."
        " CPU seconds are the whole process's."
    ),
    "The published ways send one book a request; ddbload sends up to 25.",
    (
        "As described, the published ways make one client, or session, outside of the loop."
        " *A new client each* is what the description advises against."
    ),
    (
        "`run_in_executor` has `min(32, cores + 4)` threads: the machine decides, and *most in"
        " flight* shows how many were at work here. aiohttp's session has 100 connections."
    ),
    (
        "Ratios depend on the latency: the longer a request waits, the more a second one at the"
        " same time gains. The description names neither latency nor machine, but both can be"
        " guessed: with 78 ms a request (`SIZE=1000 LATENCY_MS=78`; 2026-11-23, 2 cores) 1,000"
        " books took 84.1 s one after the other (published: 83.3), 7.11 s in 12 threads, the pool"
        " of a machine with 8 cores (published: 7.12), and 1.36 s with aiohttp (published: 1.11)."
    ),
    (
        "ddbload spares tables: it finds the rate that the table takes, from 500 write units a"
        " second upwards, and so needs about a second until its requests follow one another without"
        " pauses. A file of 10,000 books ends soon after that."
    ),
    (
        "The sink counts what arrives in each table and stores nothing; it does not verify"
        " signatures. A test compares those of the aiohttp way with botocore's. *Sink busy* is its"
        " share of a core while a way wrote; where it is high, the sink is what limits that way."
    ),
    "The ways ran once each, one after the other, in the order of the table.",
)

EXPERIMENT = Experiment(
    name="writers",
    title="Writers: one item a request, and batches",
    source="DynamoDB Write Concurrency In Python (Jamie Hargreaves, 2022)",
    measures=(
        "Generated books (author, title, published date, and the ISBN as key) are written into"
        " three on-demand tables, which a script creates: by boto3's `put_item`, by the same in the"
        " threads of `run_in_executor`, and by aiohttp with signatures of its own; then by"
        " ddbload's three engines. Measured is how long a client takes at a fixed latency; not what"
        " a real table takes, nor TLS: the published runs spoke to AWS over both."
    ),
    unit="books",
    size=500,
    published_size=PUBLISHED_BOOKS,
    latency_ms=8,
    run=run,
)
