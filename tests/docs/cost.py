"""Writes docs/cost.md: `python -m tests.docs.cost > docs/cost.md`. A test compares the two.

Counts of requests are the pipeline's own; prices and speeds are named where they are used.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from ddbload.contracts import DEFAULT_CHUNK_BYTES, DEFAULT_WORKERS
from ddbload.source.s3 import RANGE_BYTES

ROOT = Path(__file__).resolve().parents[2]
KNOBS = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]

# US dollars, us-east-1, without free tiers and discounts.
WRITE_UNIT = 0.625 / 1e6
GB_SECOND = 0.0000133334
INVOCATION = 0.20 / 1e6
TRANSITION = 0.025 / 1e3
S3_WRITE = 0.005 / 1e3
S3_READ = 0.0004 / 1e3
KEY_MONTH = 1.0
METRIC_MONTH = 0.30
LOG_GB = 0.50

ROW_BYTES = 100
TABLE_RATE = 4000
"""Write units a second that a new on-demand table takes from its first second on."""
CPU_SECONDS = 5
"""Of a function with one processor, for a million narrow rows: measured on the machine where
ddbload was written, not on Lambda."""
SCANNED = 20e6
"""Bytes a second in preflight; far below what `make bench-scan` shows."""
SHORT = 5.0
"""Seconds of report and on_upload, and of any function's start."""
METRICS = 7
"""What an import reports to CloudWatch: five counts of rows, throttled requests, write units."""
LOGGED = 2000
"""Bytes of log a call."""
OF_THE_MACHINE = 8
"""State transitions of a run without its chunks, a second Preflight included."""
OF_A_CHUNK = 4
"""State transitions of a chunk's child execution, its start included."""


@dataclass(frozen=True)
class Run:
    """A run of so many rows, in a file of `ROW_BYTES` each, at the defaults."""

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
        """What the import takes: the table is the limit, unless processors are."""
        return max(self.rows / TABLE_RATE, self.rows / 1e6 * CPU_SECONDS / self.workers)

    @property
    def segments(self) -> int:
        """Invocations that import. A function hands on before its timeout."""
        lasts = self.seconds * self.workers / self.chunks
        return self.chunks * math.ceil(
            lasts / (KNOBS["timeout_seconds"] - KNOBS["reserve_seconds"])
        )

    @property
    def preflights(self) -> int:
        lasts = KNOBS["timeout_seconds"] - KNOBS["reserve_seconds"]
        return math.ceil(self.bytes / SCANNED / lasts)

    @property
    def function_seconds(self) -> float:
        """Of all functions: those that import wait for the table most of the time."""
        scanning = self.bytes / SCANNED
        calls = self.segments + self.preflights + 2
        return self.workers * self.seconds + scanning + calls * SHORT

    @property
    def gb_seconds(self) -> float:
        return self.function_seconds * KNOBS["memory_mb"]["import_chunk"] / 1024

    @property
    def invocations(self) -> int:
        return self.segments + self.preflights + 2

    @property
    def transitions(self) -> int:
        return OF_THE_MACHINE + OF_A_CHUNK * self.chunks + 2 * (self.segments - self.chunks)

    @property
    def s3_writes(self) -> int:
        """Segments, and rejects for as many; the Map's results; the ledger's other objects; a
        list request a second while somebody follows the run."""
        return 2 * self.segments + self.chunks + 20 + math.ceil(self.seconds)

    @property
    def s3_reads(self) -> int:
        """The source twice, in ranges; for each invocation the run's record and its chunk; each
        segment by report and by whoever follows."""
        return 2 * math.ceil(self.bytes / RANGE_BYTES) + 5 * self.segments + 2 * self.chunks + 50

    def lines(self) -> list[tuple[str, str, float]]:
        """What is paid for, how it was counted, and dollars."""
        hours = max(1, math.ceil(self.seconds / 3600))
        return [
            (
                "DynamoDB",
                f"{self.rows:,} write units x $0.625 a million",
                self.rows * WRITE_UNIT,
            ),
            (
                "Lambda",
                (
                    f"{self.workers} functions x {self.seconds:,.0f} s, and the others:"
                    f" {self.gb_seconds:,.0f} GB-s x $0.0000133334;"
                    f" {self.invocations:,} requests x $0.20 a million"
                ),
                self.gb_seconds * GB_SECOND + self.invocations * INVOCATION,
            ),
            (
                "Step Functions",
                f"{self.transitions:,} transitions x $0.025 a thousand",
                self.transitions * TRANSITION,
            ),
            (
                "S3 requests",
                (
                    f"{self.s3_writes:,} PUT and LIST x $0.005 a thousand;"
                    f" {self.s3_reads:,} GET x $0.0004 a thousand"
                ),
                self.s3_writes * S3_WRITE + self.s3_reads * S3_READ,
            ),
            (
                "CloudWatch",
                (
                    f"{METRICS} metrics x $0.30 a month, for {hours} h of it;"
                    f" {self.invocations * LOGGED / 1e6:,.2f} MB of logs x $0.50 a GB"
                ),
                METRICS * METRIC_MONTH * hours / 730 + self.invocations * LOGGED / 1e9 * LOG_GB,
            ),
        ]

    @property
    def total(self) -> float:
        return sum(dollars for _, _, dollars in self.lines())


def page() -> str:
    """docs/cost.md."""
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
| the key that the log groups are encrypted with | ${KEY_MONTH:.2f} (and $1 more for each of its first two rotations, once a year) |
| the ledger in the work bucket: a few KB a chunk, rejects as large as the rows | S3's $0.023 a GB, until `retain_runs_days` |
| uploads in the inbox, and their replaced versions | the same; nothing removes the newest version |
| logs | $0.03 a GB, until `log_retention_days` |
| `cdk bootstrap`'s bucket: the asset of each deployed version, a few MB | S3's $0.023 a GB |

Functions, state machine, rule and queue cost nothing while nothing is uploaded. A bucket that tells
EventBridge of its uploads may be billed $1 per million events, whether a rule covers them or not.
"""


def _table(run: Run) -> str:
    lines = [f"| {what} | {how} | ${dollars:,.4f} |" for what, how, dollars in run.lines()]
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
