"""What an import costs, by arithmetic: one table of prices, and what is counted of each.

List prices of us-east-1 in US dollars, without free tiers and discounts. Counts of requests are
the pipeline's own. docs/cost.md is written with the same arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddbload.source.s3_object import RANGE_BYTES

REGION = "us-east-1"
PRICES_OF = "2026-11"
"""When these prices were last looked at."""

# DynamoDB.
WRITE_UNIT, WRITE_UNIT_IA = 0.625 / 1e6, 0.78 / 1e6
"""A write request unit, on demand. The same for each replica of a global table."""
CAPACITY_HOUR, CAPACITY_HOUR_IA = 0.00065, 0.00081
"""A provisioned write capacity unit for an hour."""
WARM_UNIT = 0.00065
"""A write unit a second that a table is warmed by: paid once."""
STORED_GB_MONTH, STORED_GB_MONTH_IA = 0.25, 0.10
RECOVERY_GB_MONTH = 0.20
"""Point-in-time recovery."""
# What surrounds it.
GB_SECOND = 0.0000133334
"""Lambda on arm64."""
INVOCATION = 0.20 / 1e6
TRANSITION = 0.025 / 1e3
S3_WRITE = 0.005 / 1e3
"""PUT and LIST."""
S3_READ = 0.0004 / 1e3
METRIC_MONTH = 0.30
LOG_GB = 0.50

INDEX_OVERHEAD = 100
"""Bytes that DynamoDB stores beside each item, and beside each of an index."""

CPU_SECONDS = 5
"""Of one processor, for a million narrow rows: measured where ddbload was written."""
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
# What a deployment has unless its cdk.json says otherwise.
MEMORY_MB = 1769
TIMEOUT_SECONDS = 900
RESERVE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class PriceLine:
    """Something that is paid for."""

    service: str
    how: str
    """How it was counted, with the price of one."""
    dollars: float


@dataclass(frozen=True, slots=True)
class Workload:
    """What a deployed import does, as far as it is billed."""

    bytes: int
    """Of the source."""
    chunks: int
    workers: int
    seconds: float
    """From the first write to the last."""
    objects: int = 1

    @property
    def segments(self) -> int:
        """Invocations that import. A function hands on before its timeout."""
        lasts = self.seconds * self.workers / max(1, self.chunks)
        return self.chunks * max(1, math.ceil(lasts / (TIMEOUT_SECONDS - RESERVE_SECONDS)))

    @property
    def preflights(self) -> int:
        """Invocations that look for row ends."""
        return max(1, math.ceil(self.bytes / SCANNED / (TIMEOUT_SECONDS - RESERVE_SECONDS)))

    @property
    def function_seconds(self) -> float:
        """Of all functions: those that import wait for the table most of the time."""
        return self.workers * self.seconds + self.bytes / SCANNED + self.invocations * SHORT

    @property
    def gb_seconds(self) -> float:
        """What Lambda bills."""
        return self.function_seconds * MEMORY_MB / 1024

    @property
    def invocations(self) -> int:
        """Of all functions: report and on_upload are two."""
        return self.segments + self.preflights + 2

    @property
    def transitions(self) -> int:
        """What Step Functions bills."""
        return OF_THE_MACHINE + OF_A_CHUNK * self.chunks + 2 * (self.segments - self.chunks)

    @property
    def s3_writes(self) -> int:
        """Segments, and rejects for as many; the Map's results; the ledger's other objects; a
        list request a second while somebody follows the run.
        """
        return 2 * self.segments + self.chunks + 20 + math.ceil(self.seconds)

    @property
    def s3_reads(self) -> int:
        """The source twice, in ranges; for each invocation the run's record and its chunk; each
        segment by report and by whoever follows.
        """
        source = max(math.ceil(self.bytes / RANGE_BYTES), self.objects)
        return 2 * source + 5 * self.segments + 2 * self.chunks + 50

    def lines(self) -> list[PriceLine]:
        """What is paid for beside DynamoDB."""
        hours = max(1, math.ceil(self.seconds / 3600))
        functions = "1 function" if self.workers == 1 else f"{self.workers} functions"
        return [
            PriceLine(
                "Lambda",
                (
                    f"{functions} x {self.seconds:,.0f} s, and the others:"
                    f" {self.gb_seconds:,.0f} GB-s x $0.0000133334;"
                    f" {self.invocations:,} requests x $0.20 a million"
                ),
                self.gb_seconds * GB_SECOND + self.invocations * INVOCATION,
            ),
            PriceLine(
                "Step Functions",
                f"{self.transitions:,} transitions x $0.025 a thousand",
                self.transitions * TRANSITION,
            ),
            PriceLine(
                "S3 requests",
                (
                    f"{self.s3_writes:,} PUT and LIST x $0.005 a thousand;"
                    f" {self.s3_reads:,} GET x $0.0004 a thousand"
                ),
                self.s3_writes * S3_WRITE + self.s3_reads * S3_READ,
            ),
            PriceLine(
                "CloudWatch",
                (
                    f"{METRICS} metrics x $0.30 a month, for {hours} h of it;"
                    f" {self.invocations * LOGGED / 1e6:,.2f} MB of logs x $0.50 a GB"
                ),
                METRICS * METRIC_MONTH * hours / 730 + self.invocations * LOGGED / 1e9 * LOG_GB,
            ),
        ]


def writes(units: int, *, replicas: int = 0, infrequent: bool = False) -> PriceLine:
    """Write request units of an on-demand table, in all its regions."""
    price = WRITE_UNIT_IA if infrequent else WRITE_UNIT
    told = f"{price * 1e6:.3f}".rstrip("0")
    times = f" x {replicas + 1} regions" if replicas else ""
    how = f"{units:,} write units{times} x ${told} a million"
    return PriceLine("DynamoDB", how, units * (replicas + 1) * price)


def capacity(
    write_capacity: int, seconds: float, *, replicas: int = 0, infrequent: bool = False
) -> PriceLine:
    """Provisioned capacity for as long as an import takes. It is paid for anyway."""
    price = CAPACITY_HOUR_IA if infrequent else CAPACITY_HOUR
    hours = max(1, math.ceil(seconds / 3600))
    times = f" x {replicas + 1} regions" if replicas else ""
    how = f"{write_capacity:,} write capacity units x {hours:,} h{times} x ${price:.5f} an hour"
    return PriceLine("DynamoDB", how, write_capacity * hours * (replicas + 1) * price)
