"""Ladder of "Importing data into DynamoDB": from one row per request to a state machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench.clients import TABLE
from bench.compare import File
from bench.rounds import (
    Cores,
    InvalidRound,
    Scenario,
    SinkProcess,
    check,
    check_ddbload_report,
    sink,
)
from bench.shapes import SHAPES
from ddbload.deploy.toolchain import DEMO_TOOLS, install
from ddbload.errors import DdbloadError
from lab import harness
from lab.harness import (
    BOTO3,
    OURS,
    PUBLISHED,
    Chart,
    Experiment,
    Findings,
    Series,
    Setup,
    Table,
    busy,
    number,
    require_count,
)
from lab.state_machine import StateMachine, deployed
from localaws.launcher import LocalAwsFailed

SHAPE = replace(
    SHAPES["ngrams"],
    columns={"ngram": "S", "year": "N", "match_count": "S", "page_count": "S", "volume_count": "S"},
    header=True,
)
"""Rows like the published ones: Google's 1-grams, with only the year as a number."""
HANDSHAKES = 2
"""Round trips of a new connection: TCP's handshake, and that of TLS 1.3."""
CONCURRENCY, WORKERS = (1, 4, 16, 64), (1, 2, 4, 8)
CHUNKS = 8
"""Chunks of an execution: one per worker, with the largest number of workers."""
BATCH = 25
LEAST_ROWS = 1000
"""Minimum rows for which CPU seconds can be separated from the process's start."""
PUBLISHED_STEPS = (
    ("streaming script", 290),
    ("with keep-alive", 847),
    ("in another language", 880),
    ("in parallel", 5_490),
    ("on a bigger machine", 29_000),
    ("Step Functions, 4 M rows in 50 s", 80_000),
)
"""Published steps, with their inserts per second."""
PUBLISHED_FUNCTIONS = ((1, 14e6 / 900), (40, 80_000))
"""Published rows per second by functions: 14 of 26 million rows in 900 s, and the last step."""


@dataclass(frozen=True, slots=True)
class Way:
    """Program to measure: one way to import a file without a state machine."""

    label: str
    divisor: int
    most_rows: int
    """Divisor of the experiment's size, because slow ways need not read everything."""
    command: Callable[[Path, Path], list[str]]
    """Builds the command from the file, and a folder for its ledger."""
    processes: int = 1
    kind: str = BOTO3

    def rows(self, size: int) -> int:
        """Return the number of rows for an experiment of `size`."""
        return min(self.most_rows, max(1, size // self.divisor))


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one way, timed by the server from the first request to the last response."""

    label: str
    kind: str
    rows: int
    cpu: float
    """CPU seconds of all its processes, without those of their start if known."""
    counters: Mapping[str, Any]
    whole: float
    """Seconds of the whole command."""
    server_cpu: float

    @property
    def rate(self) -> float:
        """Rows per second."""
        return float(self.rows / self.counters["seconds_to_answer"])

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds per million rows."""
        return self.cpu / self.rows * 1e6


def _published(*options: str) -> Callable[[Path, Path], list[str]]:
    return lambda file, _: harness.published("import_rows", str(file), TABLE, *options)


def _ddbload(
    engine: str, concurrency: int, processes: int = 1
) -> Callable[[Path, Path], list[str]]:
    def command(file: Path, folder: Path) -> list[str]:
        # Chunks for all processes, however small the file.
        chunk_bytes = file.stat().st_size // (4 * processes) + 1 if processes > 1 else 1 << 30
        return harness.ddbload(
            *("import", str(file), TABLE, "--engine", engine, "--concurrency", str(concurrency)),
            *("--processes", str(processes), "--chunk-bytes", str(chunk_bytes), "--json"),
            *("--ledger", str(folder)),
        )

    return command


_SLOW = (12, 40_000)
ROW_CLOSE = Way("one row a request, keep-alive off", 300, 2000, _published("--batch=1", "--close"))
ROW_KEEP = Way("one row a request, keep-alive on", 300, 2000, _published("--batch=1"))
BATCH_CLOSE = Way("batches of 25, keep-alive off", *_SLOW, _published("--close"))
BATCH_KEEP = Way("batches of 25, keep-alive on", *_SLOW, _published())
SYNC = Way("ddbload, one request at a time", *_SLOW, _ddbload("sync", 1), kind=OURS)


def threads(count: int, processes: int = 1) -> Way:
    """Return the way that uses boto3 in threads."""
    label = f"boto3, {count} threads" + (f" in each of {processes} processes" * (processes > 1))
    options = ("--threads", str(count), "--processes", str(processes))
    return Way(label, 3, 400_000, _published(*options), processes)


def concurrent(count: int, processes: int = 1) -> Way:
    """Return the way that uses ddbload's default engine."""
    label = f"ddbload, {count} request{'s' * (count > 1)} at once"
    label += f" in each of {processes} processes" * (processes > 1)
    part = _SLOW if count == 1 else (3, 400_000) if count == 4 else (1, 10**9)
    return Way(label, *part, _ddbload("async", count, processes), processes, OURS)


STEPS: tuple[Way, ...] = (
    *(ROW_CLOSE, ROW_KEEP, BATCH_CLOSE, BATCH_KEEP, SYNC),
    *(threads(count) for count in CONCURRENCY[1:]),
    threads(16, 2),
    *(concurrent(count) for count in CONCURRENCY),
    concurrent(CONCURRENCY[-1], 2),
)


class Ladder:
    """Steps of the ladder on one server, with files that hold the first rows of one sequence."""

    def __init__(self, setup: Setup, server: SinkProcess) -> None:
        self._setup, self._server = setup, server
        self.file = cache(lambda rows: File.generate(setup.folder, SHAPE, rows, setup.seed))
        secure = {"AWS_CA_BUNDLE": server.ready["ca"]}
        self.environment = {**harness.environment(dynamodb=server.ready["https"]), **secure}

    def measure(self, steps: Sequence[Way]) -> list[Result]:
        """Run the ways one after the other.

        Raises `InvalidRound` or `CountsDiffer` if a way loses, changes or adds a row.
        """
        starts: dict[tuple[str, int], float] = {}
        results = []
        for way in steps:
            kind = way.kind, way.processes
            if kind not in starts:
                # The first start of a program compiles it and fills the system's caches, so it is
                # not measured.
                once = partial(self._run, way, self.file(BATCH))
                label = f"the start of {way.label}"
                starts[kind] = min(self._setup.measured(label, once).cpu for _ in range(2))
            file = self.file(way.rows(self._setup.size))
            result = self._setup.measured(way.label, partial(self._run, way, file))
            results.append(replace(result, cpu=max(0.0, result.cpu - starts[kind])))
        return results

    def _run(self, way: Way, file: File) -> Result:
        with tempfile.TemporaryDirectory(prefix="ledger-", dir=self._setup.folder) as ledger:
            before = self._reset()
            used = harness.run(way.command(file.path, Path(ledger)), self.environment)
        if way.kind != OURS:
            rows = used.printed["rows"]
            require_count(f"{way.label}, as it reports", file.due.items, rows)
        report = used.printed if way.kind == OURS else None
        return self._result(way.label, way.kind, file, (used.cpu, used.seconds), report, before)

    def execute(self, machine: StateMachine, workers: Sequence[int]) -> list[Result]:
        """Import all rows with the state machine, once for each number of workers."""
        file = self.file(self._setup.size)
        machine.upload(file.path)

        def once(label: str, count: int) -> Result:
            before = self._reset()
            used = machine.load(count, chunk_bytes=file.path.stat().st_size // CHUNKS + 1)
            return self._result(label, OURS, file, (used.cpu, used.seconds), used.report, before)

        labels = {n: f"state machine, {n} worker{'s' * (n > 1)}" for n in workers}
        return [self._setup.measured(label, partial(once, label, n)) for n, label in labels.items()]

    def _reset(self) -> float:
        """Clear the server's counters; return the CPU seconds it has used so far."""
        latency = self._setup.latency
        self._server.reset(Scenario(SHAPE, True, latency, handshake=HANDSHAKES * latency))
        return float(self._server.counters()["cpu_seconds"])

    def _result(
        self,
        label: str,
        kind: str,
        file: File,
        used: tuple[float, float],
        report: Mapping[str, Any] | None,
        before: float,
    ) -> Result:
        """Check ddbload's report, and that all items of the file arrived."""
        counters = self._server.counters()
        if report is not None and report["retries"]:
            raise InvalidRound(
                f"refused: {label}: {report['retries']} requests were sent again, because the"
                " machine was too busy to answer them in time; run it again, or with a smaller SIZE"
            )
        require_count(label, file.due.items, counters["items"])
        check(label, counters, file.due)
        if report is not None:
            check_ddbload_report(label, report, file.due.items)
        cpu = counters["cpu_seconds"] - before
        return Result(label, kind, file.due.items, used[0], counters, used[1], cpu)


def run(setup: Setup) -> Findings:
    """Run all steps, then deploy the state machine and run it."""
    with sink(Cores(None, None)) as server:
        ladder = Ladder(setup, server)
        try:
            # Checked before the steps, which take a minute.
            tools = install(DEMO_TOOLS, setup.say)
            steps = ladder.measure(STEPS)
            setup.say("deploying the state machine")
            with deployed(setup.folder, tools, TABLE, ladder.environment, max(WORKERS)) as machine:
                executions = ladder.execute(machine, WORKERS)
        except (DdbloadError, LocalAwsFailed) as error:
            raise InvalidRound(f"refused: the state machine was not deployed: {error}") from error
    return findings(steps, executions)


def findings(steps: Sequence[Result], executions: Sequence[Result]) -> Findings:
    """Summarize all results in tables and charts."""
    everything = [*steps, *executions]
    seconds = sum(each.counters["seconds_to_answer"] for each in everything)
    return Findings(
        tables=[
            beside_published(steps, executions),
            _all_steps(steps),
            _all_executions(executions),
        ],
        charts=[
            _ladder_chart(steps, executions),
            _concurrency_chart(steps),
            _workers_chart(executions),
            _cpu_chart(steps),
        ],
        notes=[busy("fake DynamoDB", sum(each.server_cpu for each in everything), seconds)],
    )


def _all_steps(results: Sequence[Result]) -> Table:
    rows = [
        (
            *(each.label, f"{each.rows:,}", f"{each.rate:,.0f}"),
            number(each.cpu_per_million) if each.rows >= LEAST_ROWS else "-",
            *(f"{each.counters[name]:,}" for name in ("requests", "connections", "most_in_flight")),
        )
        for each in results
    ]
    columns = ("step", "rows", "rows/s", "CPU s for a million", "requests", "connections")
    return Table("All steps on this machine", (*columns, "most in flight"), rows, detail=True)


def _all_executions(results: Sequence[Result]) -> Table:
    rows = [
        (
            *(each.label, f"{each.rows:,}", f"{each.rate:,.0f}", number(each.whole)),
            *(number(each.cpu), f"{each.counters['most_in_flight']:,}"),
        )
        for each in results
    ]
    columns = (
        *("execution", "rows", "rows/s while it writes", "seconds of `ddbload start`"),
        *("CPU s of the functions", "most in flight"),
    )
    return Table("The state machine, emulated", columns, rows, detail=True)


def pairs(steps: Sequence[Result], executions: Sequence[Result]) -> list[tuple[str, int, Result]]:
    """Match each published step with the local way that does the same."""
    by_label = {each.label: each for each in steps}
    ours = [each for each in steps if each.kind == OURS]
    several = [each for each in ours if "processes" in each.label]
    alone = [each for each in ours if each not in several]
    here = (
        by_label[BATCH_CLOSE.label],
        by_label[BATCH_KEEP.label],
        by_label[SYNC.label],
        *(max(group, key=lambda each: each.rate) for group in (alone, several, executions)),
    )
    return [
        (name, rate, result) for (name, rate), result in zip(PUBLISHED_STEPS, here, strict=True)
    ]


def beside_published(steps: Sequence[Result], executions: Sequence[Result]) -> Table:
    """Compare the published steps with today's, with the gain of each step."""
    rows: list[tuple[str, ...]] = []
    before: tuple[float, float] | None = None
    for name, rate, result in pairs(steps, executions):
        gains = ("", "")
        if before is not None:
            gains = (f"{rate / before[0]:.1f} x", f"{result.rate / before[1]:.1f} x")
        rows.append((name, f"{rate:,}", gains[0], result.label, f"{result.rate:,.0f}", gains[1]))
        before = rate, result.rate
    columns = ("published step", "rows/s", "gain", "here", "rows/s here", "gain here")
    return Table("The ladder", columns, rows)


def _ladder_chart(steps: Sequence[Result], executions: Sequence[Result]) -> Chart:
    bars = []
    for name, rate, result in pairs(steps, executions):
        bars.append(Series(f"published: {name}", PUBLISHED, [rate]))
        bars.append(Series(result.label, result.kind, [result.rate]))
    return Chart("bars", "The ladder, published and here", "rows a second", bars, logarithmic=True)


def _concurrency_chart(results: Sequence[Result]) -> Chart:
    by_label = {each.label: each.rate for each in results}
    alone = [(1, by_label[BATCH_KEEP.label])]
    boto3 = alone + [(n, by_label[threads(n).label]) for n in CONCURRENCY[1:]]
    ours = [(n, by_label[concurrent(n).label]) for n in CONCURRENCY]
    series = [Series("ddbload", OURS, ours), Series("boto3 in threads", BOTO3, boto3)]
    title = "Rows a second by requests in flight, one process"
    return Chart("lines", title, "rows/s", series, x="requests in flight")


def _workers_chart(results: Sequence[Result]) -> Chart:
    points = [(n, each.rate) for n, each in zip(WORKERS, results, strict=True)]
    series = [
        Series("state machine, emulated", OURS, points),
        Series("published: 1 and about 40 functions", PUBLISHED, PUBLISHED_FUNCTIONS),
    ]
    return Chart("lines", "Rows a second by workers", "rows/s", series, x="workers")


def _cpu_chart(results: Sequence[Result]) -> Chart:
    bars = [
        Series(each.label, each.kind, [each.cpu_per_million])
        for each in results
        # Left out: the bars of single rows would make all others too short.
        if each.label not in (ROW_CLOSE.label, ROW_KEEP.label)
    ]
    return Chart("bars", "CPU seconds for a million rows, in batches", "CPU s", bars)


EXPERIMENT = Experiment(
    name="ladder",
    title="The ladder: from one row a request to a state machine",
    source="Importing data into DynamoDB (2020)",
    unit="rows",
    size=30_000,
    published_size=4_000_000,
    latency_ms=8.0,
    run=run,
)
