"""Generate docs/cost.md: `python -m tests.docs.cost > docs/cost.md`. A test compares the two.

The arithmetic is that of `ddbload plan`, in `ddbload/plan/price.py`.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from ddbload.aws.table_description import NEW_TABLE_RATE, choose_workers
from ddbload.contracts.options import DEFAULT_CHUNK_BYTES
from ddbload.contracts.options import EDGES_MAX_ROW_BYTES as EDGES_ROW_BYTES
from ddbload.contracts.run_record import (
    LIST_PRICE_DATE,
    LIST_PRICE_REGION,
    WARM_UNIT,
    WRITE_UNIT_PRICE,
    WRITE_UNIT_PRICE_IA,
    dollars_text,
)
from ddbload.plan.capacity import CPU_SECONDS
from ddbload.plan.price import (
    CHUNK_TRANSITIONS,
    INFLATED_BYTES_PER_SECOND,
    REQUESTS_PER_SECOND,
    RUN_TRANSITIONS,
    SCAN_BYTES_PER_SECOND,
    PreflightWork,
    PriceLine,
    Workload,
    writes,
)
from ddbload.steps.chunker import FIRST_WINDOW_BYTES
from ddbload.steps.prepare import EDGES_ABOVE_BYTES

ROOT = Path(__file__).resolve().parents[2]
KNOBS = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]

KEY_MONTH = 1.0
POLLS = 5 * 86400 * 30.4 / 20
"""Requests with which Lambda polls a queue in a month: five long polls of 20 seconds at once."""
POLL_PRICE = 0.40 / 1e6

ROW_BYTES = 100
TABLE_RATE = NEW_TABLE_RATE
WORKERS = choose_workers(TABLE_RATE)


@dataclass(frozen=True)
class Run:
    """Run with the default settings over rows of `ROW_BYTES` bytes."""

    rows: int

    @property
    def bytes(self) -> int:
        return self.rows * ROW_BYTES

    @property
    def chunks(self) -> int:
        return math.ceil(self.bytes / DEFAULT_CHUNK_BYTES)

    @property
    def workers(self) -> int:
        return min(WORKERS, self.chunks)

    @property
    def seconds(self) -> float:
        """Duration of the import: limited by the table, or by the processors."""
        return max(self.rows / TABLE_RATE, self.rows / 1e6 * CPU_SECONDS / self.workers)

    @property
    def work(self) -> Workload:
        preflight = (
            PreflightWork.by_edges(self.bytes, self.chunks - 1, EDGES_ROW_BYTES, quoted=True)
            if self.bytes > EDGES_ABOVE_BYTES
            else PreflightWork.whole(self.bytes)
        )
        return Workload(self.bytes, self.chunks, self.workers, self.seconds, preflight)

    def lines(self) -> list[PriceLine]:
        """Return the lines of the bill: service, calculation, dollars."""
        return [writes(self.rows), *self.work.lines()]

    @property
    def total(self) -> float:
        return sum(line.dollars for line in self.lines())


def page() -> str:
    """Render docs/cost.md."""
    runs = [Run(10**6), Run(10**8)]
    return f"""\
# What it costs

<!-- `python -m tests.docs.cost > docs/cost.md` writes this page, and a test compares the two. -->

For estimating what an import costs on the deployed stack. `ddbload plan` calculates it for a given file.
The figures are calculated, and not measured on AWS. They assume new items of up to 1 KB, a
table in us-east-1 with on-demand capacity and without indexes, no free tiers, a file of {ROW_BYTES}
bytes per row, and ddbload's defaults: chunks of {DEFAULT_CHUNK_BYTES >> 20} MiB, {WORKERS} workers, functions on
arm64 with {KNOBS["memory_mb"]["import_chunk"]:,} MB.

{"".join(_table(run) for run in runs)}
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
  wait for the table, so at ten times the rate the Lambda line shrinks to nearly a tenth. Fewer
  `workers` cost less while the table is the limit: each worker can send more than
  {TABLE_RATE // WORKERS:,} rows per second.
- A million narrow rows take at most {CPU_SECONDS} seconds of one processor (measured with `make bench` on the
  development machine; Lambda's processors differ). At these rates the processor is not the limit.
- Preflight reads {SCAN_BYTES_PER_SECOND / 1e6:.0f} MB per second. A source up to {EDGES_ABOVE_BYTES >> 30} GiB is read twice: by preflight, to find row
  ends, and by the import. Of a larger one preflight reads, at each place where it cuts, a window of {FIRST_WINDOW_BYTES >> 10} KiB, and, where
  quotes leave it open, one of {EDGES_ROW_BYTES >> 20} MiB; the table above counts both. In `ddbload plan`: many objects at {REQUESTS_PER_SECOND:.0f} requests a second, a
  compressed object that is to be cut at {INFLATED_BYTES_PER_SECOND / 1e6:.0f} MB of text a second, and one that is not at its header.
- A chunk makes {CHUNK_TRANSITIONS} state transitions, a run {RUN_TRANSITIONS} more. Nothing is retried or resumed: `resume` invokes
  the function once more for each chunk, finished ones included.
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
a month are free for each account; beyond that they would be ${POLLS * POLL_PRICE:.2f}. A bucket that sends its events to EventBridge
may be billed $1 per million events, even for events without a matching rule. Functions, state machine, rules and
queues have no standing charge.
"""


def _table(run: Run) -> str:
    lines = [f"| {line.service} | {line.how} | ${line.dollars:,.4f} |" for line in run.lines()]
    return "\n".join(
        [
            f"## {run.rows:,} rows: ${run.total:,.2f}",
            "",
            f"{run.bytes / 1e9:,.1f} GB in {run.chunks:,} chunks, {_time(run)}.",
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
