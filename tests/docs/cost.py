"""Generate docs/cost.md: `python -m tests.docs.cost > docs/cost.md`. A test compares the two.

The arithmetic is that of `ddbload plan`, in `ddbload/planning/price.py`.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from ddbload.aws.table_description import UNITS_PER_WORKER, choose_workers
from ddbload.contracts import run_record as prices
from ddbload.contracts.chunks import MOST_PLACES, group_sizes
from ddbload.contracts.options import DEFAULT_CHUNK_BYTES
from ddbload.contracts.options import EDGES_MAX_ROW_BYTES as EDGES_ROW_BYTES
from ddbload.contracts.run_record import (
    LIST_PRICE_DATE,
    LIST_PRICE_REGION,
    S3_READ,
    WARM_UNIT,
    WRITE_UNIT_PRICE,
    WRITE_UNIT_PRICE_IA,
    dollars_text,
)
from ddbload.contracts.upload_rule import DEFAULT_MEMORY_MB
from ddbload.dynamodb.limits import NEW_TABLE_RATE
from ddbload.planning.capacity import CPU_SECONDS
from ddbload.planning.price import (
    GROUP_TRANSITIONS,
    INFLATED_BYTES_PER_SECOND,
    LOG_BYTES,
    REQUESTS_PER_SECOND,
    RUN_TRANSITIONS,
    SCAN_BYTES_PER_SECOND,
    PreflightWork,
    PriceLine,
    Workload,
    writes,
)
from ddbload.steps.chunker import FIRST_WINDOW_BYTES
from ddbload.steps.prepare import CHUNKS_OF_WORKER, EDGES_ABOVE_BYTES, MIN_CHUNK_BYTES

ROOT = Path(__file__).resolve().parents[2]
KNOBS = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]

KEY_MONTH = 1.0
POLLS = 5 * 86400 * 30.4 / 20
"""Requests with which Lambda polls a queue in a month: five long polls of 20 seconds at once."""
QUEUE_REQUEST = 0.40 / 1e6
EVENT = 1.00 / 1e6

ROW_BYTES = 100
TABLE_RATE = NEW_TABLE_RATE
WORKERS = choose_workers(TABLE_RATE)
MEMORY_MB = KNOBS["memory_mb"]
PROCESSOR = MEMORY_MB["import_chunk"] / DEFAULT_MEMORY_MB
"""Share of a processor that Lambda gives import_chunk."""


@dataclass(frozen=True)
class Run:
    """Run with the default settings over rows of `ROW_BYTES` bytes."""

    rows: int

    @property
    def bytes(self) -> int:
        return self.rows * ROW_BYTES

    @property
    def chunks(self) -> int:
        """Number of chunks, cut as preflight does."""
        part = max(MIN_CHUNK_BYTES, math.ceil(self.bytes / CHUNKS_OF_WORKER / self.workers))
        return math.ceil(self.bytes / min(DEFAULT_CHUNK_BYTES, part))

    @property
    def groups(self) -> int:
        return len(group_sizes(self.chunks, self.workers))

    @property
    def workers(self) -> int:
        return min(WORKERS, math.ceil(self.bytes / DEFAULT_CHUNK_BYTES))

    @property
    def seconds(self) -> float:
        """Duration of the import: limited by the table, or by the processors."""
        return max(self.rows / TABLE_RATE, self.busy_seconds / self.workers)

    @property
    def busy_seconds(self) -> float:
        """Seconds of all workers in which they do not wait for the table."""
        return self.rows / 1e6 * CPU_SECONDS / PROCESSOR

    @property
    def waiting(self) -> float:
        """Dollars for functions that wait for the table."""
        seconds = self.workers * self.seconds - self.busy_seconds
        return seconds * MEMORY_MB["import_chunk"] / 1024 * prices.GB_SECOND

    @property
    def work(self) -> Workload:
        preflight = (
            PreflightWork.by_edges(self.bytes, self.chunks - 1, EDGES_ROW_BYTES, quoted=True)
            if self.bytes > EDGES_ABOVE_BYTES
            else PreflightWork.whole(self.bytes)
        )
        return Workload(self.bytes, self.chunks, self.groups, self.workers, self.seconds, preflight)

    def lines(self) -> list[PriceLine]:
        """Return the lines of the bill: service, calculation, dollars."""
        return [writes(self.rows), *self.work.lines()]

    @property
    def total(self) -> float:
        return sum(line.dollars for line in self.lines())


SMALL_ROWS, SMALL_BYTES = 60, 3300
"""A small upload; its requests were counted against the emulation."""
SMALL_PUTS, SMALL_GETS, SMALL_OTHERS = 12, 8, 6
SMALL_TRANSITIONS = 6
"""Begin, Preflight, MorePreflight?, Outcome?, Succeeded, and the start."""
REQUEST_SECONDS = 0.05
START_SECONDS = 0.5
QUEUE_REQUESTS = 3
"""SendMessage, ReceiveMessage and DeleteMessage."""
MANY = 100_000


def small_uploads(number: int) -> dict[str, float]:
    """Return the dollars of small uploads, each a run of its own, by service."""
    preflight = (SMALL_PUTS + SMALL_GETS + SMALL_OTHERS) * REQUEST_SECONDS + START_SECONDS
    gb_seconds = (
        preflight * MEMORY_MB["preflight"] + START_SECONDS * MEMORY_MB["on_upload"]
    ) / 1024
    each = {
        "DynamoDB": SMALL_ROWS * WRITE_UNIT_PRICE / 1e6,
        "Lambda": gb_seconds * prices.GB_SECOND + 2 * prices.INVOCATION,
        "Step Functions": SMALL_TRANSITIONS * prices.TRANSITION,
        "S3 requests": SMALL_PUTS * prices.S3_WRITE + SMALL_GETS * S3_READ,
        "EventBridge and SQS": 2 * EVENT + QUEUE_REQUESTS * QUEUE_REQUEST,
        "CloudWatch": 2 * LOG_BYTES / 1e9 * prices.LOG_GB,
    }
    return {service: dollars * number for service, dollars in each.items()}


def one_run(objects: int) -> dict[str, float]:
    """Return the dollars of as many small objects as one run, by service."""
    rows, size = objects * SMALL_ROWS, objects * SMALL_BYTES
    chunks = math.ceil(size / DEFAULT_CHUNK_BYTES)
    preflight = PreflightWork.whole(size, objects=objects)
    workers = min(WORKERS, chunks)
    # Chunks of several objects are imported by themselves.
    work = Workload(size, chunks, chunks, workers, rows / TABLE_RATE, preflight, objects)
    return {line.service: line.dollars for line in [writes(rows), *work.lines()]}


def page() -> str:
    """Render docs/cost.md."""
    runs = [Run(10**6), Run(10**8)]
    return f"""\
# What it costs

<!-- `python -m tests.docs.cost > docs/cost.md` writes this page, and a test compares the two. -->

For estimating what an import costs on the deployed stack. `ddbload plan` calculates it for a given file.
The figures are calculated, and not measured on AWS. They assume new items of up to 1 KB, a
table in us-east-1 with on-demand capacity and without indexes, no free tiers, a file of {ROW_BYTES}
bytes per row, and ddbload's defaults: chunks of at most {DEFAULT_CHUNK_BYTES >> 20} MiB, {"one worker" if WORKERS == 1 else f"{WORKERS} workers"}, functions on
arm64, of which import_chunk has {MEMORY_MB["import_chunk"]:,} MB and the others {MEMORY_MB["preflight"]:,} MB.

{"".join(_table(run) for run in runs)}
{_small()}
A write unit covers 1 KB, so an item of 3.2 KB costs four units. Each index that contains the item costs the
same again. Replacing an item costs the larger of the old and the new one. Rejected rows need no write units.

## What a run has cost

`import`, `start`, `report` and `report.json` show the write units that DynamoDB says were consumed, those of indexes
included, and their price with its origin: `--unit-price` (dollars for a million units), else {LIST_PRICE_REGION}'s list price
of {LIST_PRICE_DATE}, {dollars_text(WRITE_UNIT_PRICE)} a million ({dollars_text(WRITE_UNIT_PRICE_IA)} for the class Standard-IA). In a global table every region bills them.
A table with provisioned capacity bills hours and not units, so its runs show no dollars. Writes to vector indexes are
metered in bytes, apart from write units, and are not in these prices.

`--prewarm N` raises an on-demand table's warm throughput before the import, for ${WARM_UNIT:.5f} for each write unit a second more,
once; it shows the price and asks. The warm throughput stays.

## Assumptions

- The table accepts {TABLE_RATE:,} write units per second, like a new on-demand table. A million rows
  then take {_time(runs[0])}, a hundred million {_time(runs[1])}. Lambda bills functions while they
  wait for the table: ${runs[0].waiting:.4f} for a million rows, whose function works {runs[0].busy_seconds:.0f} of its {runs[0].seconds:.0f} seconds.
  More workers would not be faster, and wait as long each: `workers: auto` takes one for each {UNITS_PER_WORKER:,} write units a
  second, and import_chunk's memory is chosen for that rate ([deploy.md](deploy.md#memory)).
- A million narrow rows take at most {CPU_SECONDS} seconds of one processor (measured with `make bench` on the
  development machine; Lambda's processors differ), and import_chunk has {PROCESSOR:.2f} of one. At these rates the processor is not
  the limit.
- Preflight reads {SCAN_BYTES_PER_SECOND / 1e6:.0f} MB per second. A source up to {EDGES_ABOVE_BYTES >> 30} GiB is read twice: by preflight, to find row
  ends, and by the import. Of a larger one preflight reads, at each place where it cuts, a window of {FIRST_WINDOW_BYTES >> 10} KiB, and, where
  quotes leave it open, one of {EDGES_ROW_BYTES >> 20} MiB; the table above counts both. In `ddbload plan`: many objects at {REQUESTS_PER_SECOND:.0f} requests a second, a
  compressed object that is to be cut at {INFLATED_BYTES_PER_SECOND / 1e6:.0f} MB of text a second, and one that is not at its header.
- A group of chunks that are imported side by side makes {GROUP_TRANSITIONS} state transitions, a run {RUN_TRANSITIONS} more. Nothing is retried or
  resumed: `resume` invokes the function once more for each group, finished ones included.
- The run is followed with `ddbload start`: a LIST request a second is counted, more than it makes.

## Cost while nothing runs

| what | per month |
|---|---|
| with `log_key`: the key that encrypts the log groups | ${KEY_MONTH:.2f}, plus $1 for each of the first two yearly rotations |
| the ledger in the work bucket: a few KB per chunk, and the rejected rows | $0.023 per GB (S3), until `retain_runs_days` |
| uploads in the inbox, and their replaced versions | the same; the newest version is never deleted |
| logs | $0.03 per GB, until `log_retention_days` |
| `cdk bootstrap`'s bucket: a few MB for each deployed version | $0.023 per GB (S3) |

Where uploads have rules, Lambda polls the upload queue all the time: {POLLS / 1e6:.2f} million requests a month. A million
a month are free for each account; beyond that they would be ${POLLS * QUEUE_REQUEST:.2f}. A bucket that sends its events to EventBridge
may be billed $1 per million events, even for events without a matching rule. Functions, state machine, rules and
queues have no standing charge.
"""


def _small() -> str:
    columns = small_uploads(1), small_uploads(MANY), one_run(MANY)
    services = list(dict.fromkeys([*columns[0], *columns[2]]))
    totals = [sum(each.values()) for each in columns]
    preflight = (SMALL_PUTS + SMALL_GETS + SMALL_OTHERS) * REQUEST_SECONDS + START_SECONDS

    def row(name: str, dollars: list[float], mark: str = "") -> str:
        shown = [f"${dollars[0]:.6f}", *(f"${each:,.2f}" for each in dollars[1:])]
        return (
            f"| {mark}{name}{mark} | " + " | ".join(f"{mark}{each}{mark}" for each in shown) + " |"
        )

    rows = [row(name, [each.get(name, 0.0) for each in columns]) for name in services]
    lines = "\n".join([*rows, row("total", totals, "**")])
    return f"""\
## Small uploads: ${totals[0]:.4f} each

An object of {SMALL_ROWS} rows and {SMALL_BYTES / 1e3:.1f} KB; {MANY:,} of them, each uploaded by itself; and the same as one run, `ddbload start` with a prefix.

| service | one upload | {MANY:,} uploads | {MANY:,} objects as one run |
|---|---|---|---|
{lines}

Preflight itself imports and reports [a small source](deploy.md#small-sources), so an upload takes two functions and five
states. Its requests, counted against an emulation: {SMALL_PUTS} PUT, {SMALL_GETS} GET, three BatchWriteItem, two DescribeTable, StartExecution and
PutEvents. Assumed: a request takes {REQUEST_SECONDS * 1000:.0f} ms, and a function half a second besides, so Preflight {preflight:.1f} s; the start of an
execution counts as a transition; S3's event and ddbload's cost $1 a million each. Files that may wait for each other cost an eighth
as one run.
"""


def _table(run: Run) -> str:
    lines = [f"| {line.service} | {line.how} | ${line.dollars:,.4f} |" for line in run.lines()]
    return "\n".join(
        [
            f"## {run.rows:,} rows: ${run.total:,.2f}",
            "",
            f"{run.bytes / 1e9:,.1f} GB in {run.chunks:,} chunks, of which one worker imports up to {MOST_PLACES} side by side, {_time(run)}.",
            "",
            "| service | calculation | $ |",
            "|---|---|---|",
            *lines,
            f"| **total** | | **${run.total:,.2f}** |",
            "\n",
        ]
    )


def _time(run: Run) -> str:
    if run.seconds < 3600:
        return f"{run.seconds / 60:,.0f} minutes"
    return f"{run.seconds / 3600:,.0f} hours"


if __name__ == "__main__":
    sys.stdout.write(page())
