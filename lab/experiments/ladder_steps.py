"""Steps of the ladder: ways to import a file, each run and measured on the same server."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.clients import TABLE
from bench.compare import File
from bench.rounds import (
    InvalidRound,
    Scenario,
    SinkProcess,
    check,
    check_ddbload_report,
)
from bench.shapes import SHAPES
from lab import ways
from lab.experiment import Setup
from lab.findings import require_count
from lab.state_machine import StateMachine

SHAPE = replace(
    SHAPES["ngrams"],
    columns={"ngram": "S", "year": "N", "match_count": "S", "page_count": "S", "volume_count": "S"},
    header=True,
)
"""Rows like those that were published: Google's 1-grams, of which only the year became a number."""
HANDSHAKES = 2
"""Round trips of a new connection: TCP's handshake and that of TLS 1.3."""
CONCURRENCY = (1, 4, 16, 64)
WORKERS = (1, 2, 4, 8)
CHUNKS = 8
"""Chunks of an execution: one for each of the most workers."""
BATCH = 25


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a way: a part of the experiment's size, since slow ways need not read everything."""

    divisor: int
    most: int

    def rows(self, size: int) -> int:
        """Return the number of rows for an experiment of `size`."""
        return min(self.most, max(1, size // self.divisor))


SINGLE, SEQUENTIAL, THREADS = Part(300, 2_000), Part(12, 40_000), Part(3, 400_000)
EVERYTHING = Part(1, 10**9)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to import a file, without a state machine."""

    label: str
    part: Part
    command: Callable[[Path, Path], list[str]]
    """Build the command from the file, and a folder for its ledger."""
    in_flight: int = 1
    """Most requests at once that it may have."""
    processes: int = 1
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a way, timed by the server: from the first request to the last response."""

    label: str
    rows: int
    seconds: float
    cpu: float
    """CPU seconds of all its processes, without those of their start where that is known."""
    counters: dict[str, Any]
    whole: float
    """Seconds of the whole command."""
    server_cpu: float
    """CPU seconds of the server meanwhile."""
    ours: bool = False

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds for a million rows."""
        return self.cpu / self.rows * 1e6


def _published(*options: str) -> Callable[[Path, Path], list[str]]:
    return lambda file, _: ways.published("import_rows", str(file), TABLE, *options)


def _ddbload(
    engine: str, concurrency: int, processes: int = 1
) -> Callable[[Path, Path], list[str]]:
    def command(file: Path, folder: Path) -> list[str]:
        # Chunks for all processes, however small the file.
        chunk_bytes = file.stat().st_size // (4 * processes) + 1 if processes > 1 else 1 << 30
        return ways.ddbload(
            *("import", str(file), TABLE, "--engine", engine, "--concurrency", str(concurrency)),
            *("--processes", str(processes), "--chunk-bytes", str(chunk_bytes), "--json"),
            *("--ledger", str(folder)),
        )

    return command


ROW_CLOSE = Way("one row a request, keep-alive off", SINGLE, _published("--batch", "1", "--close"))
ROW_KEEP = Way("one row a request, keep-alive on", SINGLE, _published("--batch", "1"))
BATCH_CLOSE = Way("batches of 25, keep-alive off", SEQUENTIAL, _published("--close"))
BATCH_KEEP = Way("batches of 25, keep-alive on", SEQUENTIAL, _published())
SYNC = Way("ddbload, one request at a time", SEQUENTIAL, _ddbload("sync", 1), ours=True)


def threads(count: int, processes: int = 1) -> Way:
    """Return the way with boto3 in threads."""
    label = f"boto3, {count} threads" + (f" in each of {processes} processes" * (processes > 1))
    options = ("--threads", str(count), "--processes", str(processes))
    return Way(label, THREADS, _published(*options), count * processes, processes)


def concurrent(count: int, processes: int = 1) -> Way:
    """Return the way with ddbload's usual engine."""
    label = f"ddbload, {count} request{'s' * (count > 1)} at once"
    label += f" in each of {processes} processes" * (processes > 1)
    part = SEQUENTIAL if count == 1 else THREADS if count == 4 else EVERYTHING
    command = _ddbload("async", count, processes)
    return Way(label, part, command, count * processes, processes, ours=True)


STEPS: tuple[Way, ...] = (
    *(ROW_CLOSE, ROW_KEEP, BATCH_CLOSE, BATCH_KEEP, SYNC),
    *(threads(count) for count in CONCURRENCY[1:]),
    threads(16, 2),
    *(concurrent(count) for count in CONCURRENCY),
    concurrent(CONCURRENCY[-1], 2),
)


class Files:
    """Files with the first rows of one sequence, made once for each number of rows."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._made: dict[int, File] = {}

    def first(self, rows: int) -> File:
        """Return the file with the first `rows` rows."""
        if rows not in self._made:
            setup = self._setup
            self._made[rows] = File.generate(setup.folder, SHAPE, rows, setup.seed)
        return self._made[rows]


def scenario(setup: Setup) -> Scenario:
    """Return the server's settings: TLS, the latency, and handshakes of two round trips."""
    return Scenario(SHAPE, True, setup.latency, handshake=HANDSHAKES * setup.latency)


def environment(server: SinkProcess) -> dict[str, str]:
    """Return the variables that direct clients to the server."""
    made = ways.environment(dynamodb=server.ready["https"])
    return {**made, "AWS_CA_BUNDLE": server.ready["ca"]}


def measure(steps: Sequence[Way], setup: Setup, server: SinkProcess, files: Files) -> list[Result]:
    """Run the ways one after the other. Raises an error if one loses, changes or adds a row.

    Raises `InvalidRound` or `CountsDiffer`.
    """
    starts: dict[tuple[bool, int], float] = {}
    results = []
    for way in steps:
        setup.say(way.label)
        kind = way.ours, way.processes
        if kind not in starts:
            # The first start of a program compiles it and fills the system's caches.
            once = partial(run_way, way, files.first(BATCH), setup, server)
            short = [setup.measured(f"the start of {way.label}", once) for _ in range(2)]
            starts[kind] = min(each.cpu for each in short)
        once = partial(run_way, way, files.first(way.part.rows(setup.size)), setup, server)
        result = setup.measured(way.label, once)
        results.append(replace(result, cpu=max(0.0, result.cpu - starts[kind])))
    return results


def run_way(way: Way, file: File, setup: Setup, server: SinkProcess) -> Result:
    """Run one way, and check what arrived. Raises as `measure`."""
    with tempfile.TemporaryDirectory(prefix="ledger-", dir=setup.folder) as ledger:
        before = _reset(setup, server)
        used = ways.run(way.command(file.path, Path(ledger)), environment(server))
    if way.ours:
        _check_no_retries(way.label, used.printed)
    counters = _arrived(way.label, file, server)
    if way.ours:
        check_ddbload_report(way.label, used.printed, file.due.items)
    else:
        require_count(f"{way.label}, as it reports", file.due.items, used.printed["rows"])
    return Result(
        *(way.label, file.due.items, counters["seconds_to_answer"], used.cpu, counters),
        *(used.seconds, counters["cpu_seconds"] - before, way.ours),
    )


def _reset(setup: Setup, server: SinkProcess) -> float:
    """Clear the server's counters; return the CPU seconds that it has used."""
    server.reset(scenario(setup))
    return float(server.counters()["cpu_seconds"])


def _arrived(label: str, file: File, server: SinkProcess) -> dict[str, Any]:
    """Return the server's counters, once they say that all items of the file arrived."""
    counters = server.counters()
    require_count(label, file.due.items, counters["items"])
    check(label, counters, file.due)
    return counters


def _check_no_retries(label: str, report: Mapping[str, Any]) -> None:
    """Refuse a run whose repeated requests the server has counted twice."""
    if report["retries"]:
        raise InvalidRound(
            f"refused: {label}: {report['retries']} requests were sent again, because the machine"
            " was too busy to answer them in time; run it again, or with a smaller SIZE"
        )


def execute(
    machine: StateMachine,
    workers: Sequence[int],
    file: File,
    setup: Setup,
    server: SinkProcess,
) -> list[Result]:
    """Import the file once for each number of workers. Raises as `measure`."""
    machine.upload(file.path)
    results = []
    for count in workers:
        label = f"state machine, {count} worker{'s' * (count > 1)}"
        setup.say(label)
        once = partial(_execute_once, label, machine, count, file, setup, server)
        results.append(setup.measured(label, once))
    return results


def _execute_once(
    label: str,
    machine: StateMachine,
    workers: int,
    file: File,
    setup: Setup,
    server: SinkProcess,
) -> Result:
    before = _reset(setup, server)
    used = machine.load(workers, chunk_bytes=file.path.stat().st_size // CHUNKS + 1)
    _check_no_retries(label, used.report)
    counters = _arrived(label, file, server)
    check_ddbload_report(label, used.report, file.due.items)
    return Result(
        *(label, file.due.items, counters["seconds_to_answer"], used.cpu, counters),
        *(used.seconds, counters["cpu_seconds"] - before, True),
    )
