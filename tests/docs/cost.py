"""Generate docs/cost.md: `python -m tests.docs.cost > docs/cost.md`. A test compares the two.

The arithmetic is that of `ddbload plan`, in `ddbload/pipeline/plan/price.py`.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from ddbload.contracts.payload import DEFAULT_CHUNK_BYTES, DEFAULT_WORKERS
from ddbload.plan.price import (
    CPU_SECONDS,
    OF_A_CHUNK,
    OF_THE_MACHINE,
    SCANNED,
    PriceLine,
    Workload,
    writes,
)

ROOT = Path(__file__).resolve().parents[2]
KNOBS = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]

KEY_MONTH = 1.0

ROW_BYTES = 100
TABLE_RATE = 4000
"""Write units per second that a new on-demand table accepts from its first second on."""


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
        return min(DEFAULT_WORKERS, self.chunks)

    @property
    def seconds(self) -> float:
        """Duration of the import: limited by the table, or by the processors."""
        return max(self.rows / TABLE_RATE, self.rows / 1e6 * CPU_SECONDS / self.workers)

    @property
    def work(self) -> Workload:
        return Workload(self.bytes, self.chunks, self.workers, self.seconds)

    def lines(self) -> list[Line]:
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

An estimate by arithmetic, and not a bill: nothing here was measured on AWS. It is for new items of
up to 1 KB in a table with on-demand capacity and without indexes, in us-east-1, without free tiers;
for a file of {ROW_BYTES} bytes a row, and ddbload's defaults: chunks of
{DEFAULT_CHUNK_BYTES >> 20} MiB, {DEFAULT_WORKERS} workers, functions on arm64 with
{KNOBS["memory_mb"]["import_chunk"]:,} MB.

{"".join(_table(run) for run in runs)}
DynamoDB is nearly all of it. A write unit is 1 KB of item, so an item of 3.2 KB costs four; each
index that an item is in costs the same again; overwriting costs the larger of both items. Rows that
are rejected cost nothing there.

## What is assumed

- The table takes {TABLE_RATE:,} write units a second, as a new on-demand table does from its first
  second on, whatever ddbload sends: {_time(runs[0])} for a million rows, {_time(runs[1])} for a
  hundred million. Lambda bills its functions while they wait for the table, so that at ten times
  the rate the Lambda line is nearly a tenth. Fewer `workers` cost less where the table is the limit:
  each can send more than {TABLE_RATE // DEFAULT_WORKERS:,} rows a second.
- A million narrow rows take {CPU_SECONDS} seconds of one processor at most (`make bench`, on the machine
  where ddbload was written; Lambda's processors differ). At these rates that is not the limit.
- Preflight reads {SCANNED / 1e6:.0f} MB a second. The source is read twice: by preflight, which looks
  for row ends, and by the import.
- A chunk is {OF_A_CHUNK} state transitions (children are standard executions), a run
  {OF_THE_MACHINE} more. Retries add to that.
- Somebody follows the run (`ddbload start`): a LIST a second for each 1,000 chunks.
- Nothing is resumed: `resume` calls the function of each chunk once more, also of those that are done.

## What it costs while nothing runs

| what | a month |
|---|---|
| with `log_key`, the key that the log groups are encrypted with | ${KEY_MONTH:.2f} (and $1 more for each of its first two rotations, once a year) |
| the ledger in the work bucket: a few KB a chunk, rejects as large as the rows | S3's $0.023 a GB, until `retain_runs_days` |
| uploads in the inbox, and their replaced versions | the same; nothing removes the newest version |
| logs | $0.03 a GB, until `log_retention_days` |
| `cdk bootstrap`'s bucket: the asset of each deployed version, a few MB | S3's $0.023 a GB |

Functions, state machine, rule and queue cost nothing while nothing is uploaded. A bucket that tells
EventBridge of its uploads may be billed $1 per million events, whether a rule covers them or not.
"""


def _table(run: Run) -> str:
    lines = [f"| {line.service} | {line.how} | ${line.dollars:,.4f} |" for line in run.lines()]
    return "\n".join(
        [
            f"## {run.rows:,} rows: ${run.total:,.2f}",
            "",
            f"{run.bytes / 1e9:,.1f} GB in {run.chunks:,} chunks, {_time(run)}.",
            "",
            "| | how much | $ |",
            "|---|---|---|",
            *lines,
            f"| **together** | | **${run.total:,.2f}** |",
            "\n",
        ]
    )


def _time(run: Run) -> str:
    if run.seconds < 3600:
        return f"{run.seconds / 60:,.0f} minutes"
    return f"{run.seconds / 3600:,.0f} hours"


if __name__ == "__main__":
    sys.stdout.write(page())
