"""Ladder of "Importing data into DynamoDB": from one row a request to a state machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.clients import TABLE
from bench.rounds import Cores, InvalidRound, sink
from ddbload.deploy.toolchain import DEMO_TOOLS, install
from ddbload.errors import DdbloadError
from lab.draw import number
from lab.experiment import Experiment, Setup
from lab.experiments import ladder_cost
from lab.experiments.ladder_steps import (
    BATCH_CLOSE,
    BATCH_KEEP,
    CONCURRENCY,
    HANDSHAKES,
    ROW_CLOSE,
    ROW_KEEP,
    SHAPE,
    STEPS,
    SYNC,
    WORKERS,
    Files,
    Result,
    concurrent,
    environment,
    execute,
    measure,
    threads,
)
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Bar,
    Bars,
    Findings,
    Lines,
    Series,
    ServerCost,
    Table,
)
from lab.state_machine import deployed
from localaws.launcher import LocalAwsFailed


def run(setup: Setup) -> Findings:
    """Run all steps, deploy the state machine and run it, and price the work."""
    files = Files(setup)
    with sink(Cores(None, None)) as server, ThreadPoolExecutor(1) as pool:
        try:
            # Before the steps, which take a minute.
            tools = install(DEMO_TOOLS, setup.say)
            steps = measure(STEPS, setup, server, files)
            setup.say("deploying the state machine")
            given = environment(server)
            # Neither the plan nor the deployment is timed.
            plan = pool.submit(ladder_cost.measure, setup, SHAPE, given)
            with deployed(setup.folder, tools, TABLE, given, max(WORKERS)) as machine:
                costs = plan.result()
                executions = execute(machine, WORKERS, files.first(setup.size), setup, server)
        except (DdbloadError, LocalAwsFailed) as error:
            raise InvalidRound(f"refused: the state machine was not deployed: {error}") from error
    return findings(steps, executions, costs)


def findings(
    steps: Sequence[Result], executions: Sequence[Result], plan: Mapping[str, Any]
) -> Findings:
    """Put all results into tables and charts. `plan`: what `ddbload plan --json` printed."""
    everything = [*steps, *executions]
    busiest = max(everything, key=lambda each: each.server_cpu / each.seconds)
    return Findings(
        tables=[
            beside_published(steps, executions),
            _all_steps(steps),
            _all_executions(executions),
            *ladder_cost.tables(plan),
        ],
        charts=[
            _ladder_chart(steps, executions),
            _concurrency_chart(steps),
            _workers_chart(executions),
            _cpu_chart(steps),
        ],
        servers=[
            ServerCost(
                "fake DynamoDB",
                sum(each.server_cpu for each in everything),
                sum(each.seconds for each in everything),
            )
        ],
        notes=[
            *NOTES,
            (
                f"The server was busiest with *{busiest.label}*:"
                f" {busiest.server_cpu / busiest.seconds:.0%} of a core."
            ),
            *ladder_cost.NOTES,
        ],
    )


def _all_steps(results: Sequence[Result]) -> Table:
    rows = [
        (
            *(each.label, f"{each.rows:,}", f"{each.rate:,.0f}", _cpu(each)),
            *(f"{each.counters['requests']:,}", f"{each.counters['connections']:,}"),
            f"{each.counters['most_in_flight']:,}",
        )
        for each in results
    ]
    columns = ("step", "rows", "rows/s", "CPU s for a million", "requests", "connections")
    return Table("All steps on this machine", (*columns, "most in flight"), rows)


def _cpu(result: Result) -> str:
    """Write the CPU seconds for a million rows, if the rows took more than a start varies by."""
    return number(result.cpu_per_million) if result.rows >= LEAST_ROWS else "-"


def _all_executions(results: Sequence[Result]) -> Table:
    rows = [
        (
            *(each.label, f"{each.rows:,}", f"{each.rate:,.0f}", number(each.whole)),
            *(number(each.cpu), f"{each.counters['most_in_flight']:,}"),
        )
        for each in results
    ]
    columns = ("execution", "rows", "rows/s while it writes", "seconds of `ddbload start`")
    return Table(
        "The state machine, emulated", (*columns, "CPU s of the functions", "most in flight"), rows
    )


PUBLISHED_STEPS = (
    ("streaming script", 290),
    ("with keep-alive", 847),
    ("in another language", 880),
    ("in parallel", 5_490),
    ("on a bigger machine", 29_000),
    ("Step Functions, 4 M rows in 50 s", 80_000),
)
"""Steps that were published, with their inserts a second."""


def pairs(steps: Sequence[Result], executions: Sequence[Result]) -> list[tuple[str, int, Result]]:
    """Give each published step the way here that does the same."""
    by_label = {each.label: each for each in steps}
    ours = [each for each in steps if each.ours]
    several = [each for each in ours if "processes" in each.label]
    alone = [each for each in ours if each not in several]
    here = (
        by_label[BATCH_CLOSE.label],
        by_label[BATCH_KEEP.label],
        by_label[SYNC.label],
        *(max(group, key=_rate) for group in (alone, several, executions)),
    )
    return [
        (name, rate, result) for (name, rate), result in zip(PUBLISHED_STEPS, here, strict=True)
    ]


def _rate(result: Result) -> float:
    return result.rate


def beside_published(steps: Sequence[Result], executions: Sequence[Result]) -> Table:
    """Put the published ladder beside today's, with the gain of each step."""
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


def _ladder_chart(steps: Sequence[Result], executions: Sequence[Result]) -> Bars:
    bars = []
    for name, rate, result in pairs(steps, executions):
        bars.append(Bar(f"published: {name}", rate, PUBLISHED))
        bars.append(Bar(result.label, result.rate, OURS if result.ours else RIVAL))
    return Bars("The ladder, published and here", "rows a second", bars)


def _concurrency_chart(results: Sequence[Result]) -> Lines:
    by_label = {each.label: each.rate for each in results}
    alone = [(1.0, by_label[BATCH_KEEP.label])]
    boto3 = alone + [(float(n), by_label[threads(n).label]) for n in CONCURRENCY[1:]]
    ours = [(float(n), by_label[concurrent(n).label]) for n in CONCURRENCY]
    return Lines(
        *("Rows a second by requests in flight, one process", "requests in flight", "rows/s"),
        [Series("ddbload", OURS, ours), Series("boto3 in threads", RIVAL, boto3)],
    )


def _workers_chart(results: Sequence[Result]) -> Lines:
    points = [(float(n), each.rate) for n, each in zip(WORKERS, results, strict=True)]
    return Lines(
        *("Rows a second by the state machine's workers", "workers", "rows/s"),
        [Series("state machine", OURS, points)],
    )


def _cpu_chart(results: Sequence[Result]) -> Bars:
    bars = [
        Bar(each.label, each.cpu_per_million, OURS if each.ours else RIVAL)
        for each in results
        if each.label not in SINGLE_ROWS
    ]
    return Bars("CPU seconds for a million rows, in batches", "CPU s", bars)


SINGLE_ROWS = (ROW_CLOSE.label, ROW_KEEP.label)
"""Steps whose bars would make all others too short."""
LEAST_ROWS = 1000
"""Fewest rows whose CPU seconds are told from those of the process's start."""
NOTES = (
    (
        "Rows a second count from the first request's arrival to the last response, by the"
        " server's clock; CPU seconds are those of the whole process tree, less those for its"
        " start (measured with 25 rows). Those of fewer than 1,000 rows are too few to tell."
    ),
    (
        f"A new connection costs {HANDSHAKES} round trips of the stated latency, added to its first"
        " response, because TCP's and TLS's handshakes take no time on 127.0.0.1. So *keep-alive"
        " off* costs about what it costs between two machines. The columns *requests* and"
        " *connections* show that it was off, or on."
    ),
    (
        "With `LATENCY_MS=27` (2026-11-23, 2 cores) keep-alive off and on gave 286 and 798 rows a"
        " second, about the 290 and 847 that were published: batches of 25, one at a time, and two"
        " round trips more for each new connection explain both figures."
    ),
    (
        "Slow steps load the first rows of the same file: what they would take for all of them is"
        " known after a few hundred."
    ),
    (
        "The published *in another language* was Go; the step here is ddbload with its engine"
        " `sync`, which sends one request at a time, too. Both show that the wait for each response"
        " is the limit, whatever waits."
    ),
    (
        "ddbload does not know what a table takes, and finds out: it begins with 500 rows a"
        " second, which doubles in 0.17 seconds until something is returned; each chunk of the"
        " state machine begins anew. So a short file shows this start and not the speed: with"
        " `SIZE=200000` (2026-11-23, 2 cores) the last steps were two to five times as fast as with"
        " 30,000 rows."
    ),
    (
        "With `SIZE=4000000` (2026-11-23, 2 cores) one process with 64 requests at once loaded the"
        " published 4 million rows in 50 seconds, as Step Functions did then: into a table that"
        " takes everything."
    ),
    (
        "Client, functions, emulated services and the fake DynamoDB share this machine's cores."
        " With more workers than cores it is waits that overlap, for responses and for each"
        " worker's own rate, and not work: so these figures show that the orchestration works, and"
        " not what workers gain on AWS. Nor can a *bigger machine* be had here: the step is two"
        " processes on the same one."
    ),
    (
        "The functions of the emulated stack write to the same fake DynamoDB as all other steps."
        " Their CPU seconds include their cold starts, most of which fall into the first execution."
        " `ddbload start` takes longer than the writing: preflight, the Map and the report are in"
        " it."
    ),
)

EXPERIMENT = Experiment(
    name="ladder",
    title="The ladder: from one row a request to a state machine",
    source="Importing data into DynamoDB (2020)",
    measures=(
        "It measures how many rows a second arrive at a table that takes everything, step by step:"
        " one row a request, batches, keep-alive, requests in flight, processes, and the deployed"
        " state machine with 1 to 8 workers on an emulated AWS; and what the rows cost. The rows"
        " are like the published ones, Google's 1-grams. It does not measure what a real table"
        " takes, which is where the published ladder ends."
    ),
    unit="rows",
    size=30_000,
    published_size=4_000_000,
    latency_ms=8.0,
    run=run,
)
