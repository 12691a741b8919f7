"""Threads against asyncio for many small objects of S3, published in 2019."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.listing import bucket_server
from lab.draw import number
from lab.experiment import Experiment, Setup
from lab.experiments.objects_ways import (
    DDBLOAD,
    TASKS,
    THREADS,
    Result,
    Runner,
    Way,
    require_sent_once,
)
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Findings,
    Lines,
    Series,
    ServerCost,
    Table,
    require_count,
)

FEW = 100
"""Number of objects of the published times by concurrency."""
KINDS = (THREADS, TASKS, DDBLOAD)
LEVELS = (10, 50, 100)
PUBLISHED_FEW = {Way(THREADS, 10): 1.70, Way(THREADS, 100): 6.0, Way(TASKS, 10): 1.39}
"""Seconds for 100 objects."""
PUBLISHED_MANY = {30_000: 90.0, 100_000: 342.5}
"""Seconds in threads by number of objects; the last with 50 threads."""
PUBLISHED_COSTS = {"thread": 0.01, "boto3 client, with a session": 0.05}
WORKERS = 50
SLOW, SLOW_LIMIT = Way(TASKS, 10), 10_000
"""Way that is not run with more objects than this: it would take minutes."""

SKEW_OBJECTS = 700
MAX_SKEW = 2.2
"""Seconds in place of the 900 that S3 allows. A date in a request has whole seconds."""
AT_ONCE = 10
WAIT = 3.0
"""Seconds that the last request waits where all are made at once."""
HOUR, S3_SKEW = 3600, 900


def run(setup: Setup) -> Findings:
    """Read objects in all ways. Raises `CountsDiffer` if a body is missing or wrong."""
    levels = [level for level in LEVELS if level <= setup.size] or [setup.size]
    workers = WORKERS if WORKERS in levels else levels[-1]
    few = min(FEW, setup.size)
    sizes = sorted({min(10**power, setup.size) for power in range(2, 6)} | {setup.size})
    with bucket_server() as endpoint:
        runner = Runner(endpoint, setup)
        by_level = [runner.read(Way(kind, level), few) for level in levels for kind in KINDS]
        by_size = [
            runner.read(way, size)
            for size in sizes
            for way in dict.fromkeys([SLOW, *(Way(kind, workers) for kind in KINDS)])
            if way != SLOW or size <= SLOW_LIMIT
        ]
        costs = runner.costs(max(2, min(20, setup.size // 5)))
        aged = _requests_that_wait(runner, setup)
        wrong = _wrong_clock(runner, few, setup)
        refusal = runner.read_once(Way(DDBLOAD, AT_ONCE), AT_ONCE, max_skew_seconds=-1)
    return Findings(
        tables=[
            _few_table(few, by_level),
            _many_table(by_size),
            _cost_table(costs, by_level),
            _skew_table(f"Requests made at once, of which the last waits {WAIT:g} seconds", aged),
            _skew_table("Requests of a machine whose clock is an hour slow", wrong),
        ],
        charts=[_few_chart(few, by_level), _many_chart(by_size)],
        servers=[ServerCost("S3 server", runner.server_cpu, runner.served_seconds)],
        notes=list(_notes(aged, refusal, sizes)),
    )


def _requests_that_wait(runner: Runner, setup: Setup) -> list[Result]:
    """Read objects from a server that works on few requests at once, and refuses old ones."""
    count = max(FEW, min(SKEW_OBJECTS, 10 * setup.size))
    settings = {
        "latency": WAIT * AT_ONCE / count,
        "most_at_once": AT_ONCE,
        "max_skew_seconds": MAX_SKEW,
    }
    # Few enough of ours that none waits for a second at the server.
    ours = Way(DDBLOAD, min(128, max(1, count // 5)))
    found = [
        runner.read_once(way, count, **settings)
        for way in (Way(TASKS, AT_ONCE), Way(TASKS, count), Way(THREADS, AT_ONCE), ours)
    ]
    for each in found:
        _require_told(each)
    require_count(f"{ours.label}, requests that wait", count, found[-1].read)
    return found


def _wrong_clock(runner: Runner, count: int, setup: Setup) -> list[Result]:
    """Read objects from a server whose clock is an hour ahead."""
    settings = {
        "latency": setup.latency,
        "clock_ahead_seconds": HOUR,
        "max_skew_seconds": S3_SKEW,
    }
    ours = Way(DDBLOAD, AT_ONCE)
    found = [
        runner.read_once(way, count, **settings)
        for way in (Way(TASKS, AT_ONCE), Way(THREADS, AT_ONCE), ours)
    ]
    for each in found:
        _require_told(each)
    require_count(f"{ours.label}, wrong clock", count, found[-1].read)
    return found


def _require_told(result: Result) -> None:
    """Raise `CountsDiffer` unless each object was read once, or a published way told of it."""
    require_sent_once(result)
    if result.way.kind != DDBLOAD:
        told = result.read + int(result.printed["failures"])
        require_count(f"{result.way.label}, read or refused", result.due, told)
        require_count(f"{result.way.label}, refused", result.skewed, result.due - result.read)


def _few_table(count: int, found: Sequence[Result]) -> Table:
    base = found[0]
    base_published = PUBLISHED_FEW.get(base.way)
    rows = []
    for each in found:
        published = PUBLISHED_FEW.get(each.way) if count == FEW else None
        ratio = f"{published / base_published:.2f}" if published and base_published else ""
        rows.append(
            (
                each.way.label,
                number(published) if published else "",
                number(each.seconds),
                ratio,
                f"{each.seconds / base.seconds:.2f}",
                number(each.cpu / each.due * 1000),
                str(each.most_in_flight),
            )
        )
    columns = (
        *("way", "published, s", "s", f"published, to {base.way.label}"),
        *(f"to {base.way.label}", "CPU ms an object", "most in flight"),
    )
    return Table(f"Time for {count:,} objects by concurrency", columns, rows)


def _many_table(found: Sequence[Result]) -> Table:
    rows = []
    for each in found:
        is_published = each.way == Way(THREADS, WORKERS) and each.due in PUBLISHED_MANY
        rows.append(
            (
                f"{each.due:,} objects: {each.way.label}",
                number(PUBLISHED_MANY[each.due]) if is_published else "",
                number(each.seconds),
                number(each.due / each.seconds),
                number(each.cpu / each.due * 1000),
                str(each.most_in_flight),
            )
        )
    columns = (
        *("way", "published, s", "s", "objects/s"),
        *("CPU ms an object", "most in flight"),
    )
    return Table("Time by number of objects", columns, rows)


def _cost_table(costs: Mapping[str, Any], found: Sequence[Result]) -> Table:
    ours = next(each.printed for each in found if each.way.kind == DDBLOAD)
    measured = {
        **costs,
        "ddbload: client and signer, once": {
            "seconds": ours["start_seconds"],
            "cpu": ours["start_cpu"],
        },
    }
    rows = []
    for name, cost in measured.items():
        published = PUBLISHED_COSTS.get(name)
        rows.append(
            (
                name,
                number(published * 1000) if published else "",
                number(cost["seconds"] * 1000),
                number(cost["cpu"] * 1000),
                number(published / cost["seconds"]) if published else "",
            )
        )
    columns = ("one", "published, ms", "ms", "CPU ms", "published / now")
    return Table("Cost of a thread and of a client (medians)", columns, rows)


def _skew_table(title: str, found: Sequence[Result]) -> Table:
    rows = [
        (
            each.way.label,
            f"{each.due:,}",
            f"{each.read:,}",
            f"{each.skewed:,}",
            f"{each.due - each.read:,}",
            number(each.seconds),
            f"{each.most_in_flight:,}",
        )
        for each in found
    ]
    columns = ("way", "objects", "read", "answers 403", "missing", "s", "most in flight")
    return Table(title, columns, rows)


_NAMES = {THREADS: "threads", TASKS: "asyncio", DDBLOAD: "ddbload"}


def _kind(way: Way) -> str:
    return OURS if way.kind == DDBLOAD else RIVAL


def _few_chart(count: int, found: Sequence[Result]) -> Lines:
    series = []
    for kind in KINDS:
        points = [(each.way.concurrency, each.seconds) for each in found if each.way.kind == kind]
        series.append(Series(_NAMES[kind], _kind(Way(kind, 1)), points))
    if count == FEW:
        for kind in (THREADS, TASKS):
            points = [(way.concurrency, s) for way, s in PUBLISHED_FEW.items() if way.kind == kind]
            series.append(Series(f"{_NAMES[kind]}, published", PUBLISHED, points))
    return Lines(f"Time for {count:,} objects", "concurrency", "s", series)


def _many_chart(found: Sequence[Result]) -> Lines:
    ways = dict.fromkeys(each.way for each in found)
    series = [
        Series(
            way.label, _kind(way), [(each.due, each.seconds) for each in found if each.way == way]
        )
        for way in ways
    ]
    series.append(Series("threads, published", PUBLISHED, list(PUBLISHED_MANY.items())))
    return Lines("Time by number of objects", "objects", "s", series)


def _notes(aged: Sequence[Result], refusal: Result, sizes: Sequence[int]) -> Iterator[str]:
    yield (
        "Each time is of one run, from before the first thread or client is made to the last body."
        " All ways read the same objects of 1 KiB, a JSON line each, and a run counts only if the"
        " checksum of all keys and bodies is right. The published number of 30,000 objects in"
        " about a minute and a half names no number of threads. As published, a thread makes its"
        " client, from a session of its own, when it has its first key. So most of the time of many"
        " threads for few objects is that of clients: Python makes them on one core at a time,"
        " while the threads contend for it and for memory. Where fewer requests are in flight than"
        " there are threads, the others still make theirs, or found no more keys. ddbload's times"
        " have its start in them, which the table of costs has too."
    )
    if sizes[-1] > SLOW_LIMIT:
        yield f"{SLOW.label} was stopped at {SLOW_LIMIT:,} objects: it would take minutes."
    gathered = aged[0]
    yield (
        "A task signs its request, and then waits for one of the pool's connections; so requests"
        " that are all made at once grow old, however small the pool. S3 refuses what was signed"
        " more than 900 seconds ago. The server of this experiment refuses after"
        f" {MAX_SKEW:g}, and works on {AT_ONCE} requests at a time, so that seconds show what"
        " takes a quarter of an hour there. Threads sign when they send."
    )
    yield (
        "ddbload signs a request when a connection is free for it, and sends it at once; what is"
        " to be read later is not signed yet. If a request is refused because of its date all the"
        " same, it is signed again, with the time in the answer's `Date` if the clocks differ; at"
        " the sixth such correction in a minute the run stops with a named error."
    )
    yield (
        f"How it is told: asyncio and threads: `{gathered.failure}` It names neither object nor"
        " remedy, and `asyncio.gather` raises the first such failure in place of all bodies; here"
        " failures are collected to be counted."
        f" ddbload, where every request is refused: `{refusal.failure}`"
    )


EXPERIMENT = Experiment(
    name="objects",
    title="Threads against asyncio for many objects",
    source=(
        "How to Retrieve 100k Objects with Python: Why We Prefer Threading to Asyncio"
        " (RBP Engineering, 2019)"
    ),
    measures=(
        "It measures the time to read many small objects of S3 whose keys are known: with a queue"
        " and one boto3 client for each thread; with asyncio and one client of aiobotocore, whose"
        " pool has 10 connections or more; and with ddbload's own reader, as `ddbload import"
        " s3://bucket/prefix/ TABLE --read-concurrency N` uses it. It does not measure listing,"
        " parsing, or the start of Python."
    ),
    unit="objects",
    size=1_000,
    published_size=100_000,
    latency_ms=20,
    run=run,
)
