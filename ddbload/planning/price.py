"""Estimate the price of an import from AWS's list prices and the requests of an import.

docs/cost.md is generated with the same code.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Self

from ddbload.aws.table_description import provisioned_writes
from ddbload.contracts import run_record as prices
from ddbload.contracts import upload_rule
from ddbload.contracts.options import EDGES
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import S3_READ, RunRecord, WritePrice
from ddbload.planning.capacity import TableFacts
from ddbload.reading.open_sources import HEAD_BYTES
from ddbload.records import Record
from ddbload.source.s3_object import RANGE_BYTES
from ddbload.steps.chunker import FIRST_WINDOW_BYTES

US_EAST_1_PRICE = WritePrice.of(prices.LIST_PRICE_REGION, on_demand=True)
VALUE_BYTES, ITEM_BYTES = 12, 12
"""Approximate bytes that DynamoDB JSON adds per value and per item.

They are those of `"":{"S":""},` and of `{"Item":{}}`.
"""

SCAN_BYTES_PER_SECOND = 20e6
"""Bytes per second that preflight reads; far below the rates that decision 0004 measured."""
INFLATED_BYTES_PER_SECOND = 60e6
"""Decompressed bytes per second while preflight looks for seek points.

docs/scale.md assumes 100e6.
"""
REQUESTS_PER_SECOND = 900.0
"""Requests per second of preflight for headers and windows, as in docs/scale.md."""
SHORT_SECONDS = 5.0
"""Seconds of a Report or OnUpload invocation, and of a cold start."""
METRICS = 7
"""Number of CloudWatch metrics: five row counts, throttled requests, write units."""
LOG_BYTES = 2000
"""Bytes of logs per function invocation."""
RUN_TRANSITIONS = 8
"""State transitions of a run apart from its groups of chunks: seven states, and its start."""
GROUP_TRANSITIONS = 4
"""State transitions of the child execution of a group of chunks, including its start."""
_LEAST_EXPANSION = 1.05
"""Ratio of row bytes to stored bytes above which objects count as compressed."""
_INVOCATION_SECONDS = upload_rule.DEFAULT_TIMEOUT_SECONDS - upload_rule.DEFAULT_RESERVE_SECONDS


class PriceLine(Record):
    """Line of a price estimate."""

    service: str
    how: str
    """Calculation of the line: quantity and unit price."""
    dollars: float


class PreflightWork(Record):
    """Bytes and requests that preflight needs to find where a source can be cut."""

    bytes: int
    requests: int
    """Number of GET requests."""
    text: int = 0
    """Decompressed bytes."""

    @property
    def seconds(self) -> float:
        """Estimated duration in seconds: that of the slowest of the three."""
        return max(
            self.bytes / SCAN_BYTES_PER_SECOND,
            self.text / INFLATED_BYTES_PER_SECOND,
            self.requests / REQUESTS_PER_SECOND,
        )

    @classmethod
    def whole(cls, size: int, *, objects: int = 1, text: int = 0) -> Self:
        """Return the work of a scan that reads the whole source."""
        return cls(size, max(math.ceil(size / RANGE_BYTES), objects), text)

    @classmethod
    def by_edges(
        cls, size: int, cuts: int, row_limit: int, *, quoted: bool, objects: int = 1
    ) -> Self:
        """Return the maximum work of a scan that reads a window at each cut.

        In text that may be `quoted`, a window may have to be longer than the longest row.
        """
        longest = row_limit + 1
        first = min(FIRST_WINDOW_BYTES, longest)
        windows = cuts * (longest if quoted else first)
        requests = objects + cuts * (2 if quoted and first < longest else 1)
        return cls(min(size, objects * HEAD_BYTES + windows), requests)


def preflight_work(
    record: RunRecord, stored: int, chunks: int, expansion: float, text: int
) -> PreflightWork:
    """Estimate the bytes and requests of preflight, which depend on how the source is scanned.

    Args:
        record: Record of the run.
        stored: Stored bytes of the source.
        chunks: Estimated number of chunks.
        expansion: Bytes of rows per stored byte, measured on the rows that were read.
        text: Bytes of all rows.
    """
    source, options = record.payload.source, record.payload.options
    objects = record.objects or 1
    # Objects may be compressed or not; the expansion measured on the rows read decides for all.
    is_compressed = record.size is None and (record.objects is None or expansion > _LEAST_EXPANSION)
    if (
        options.scan != EDGES
        or source.kind.is_container
        or (is_compressed and record.wants_index(stored // objects))
    ):
        return PreflightWork.whole(stored, objects=objects, text=text if is_compressed else 0)
    is_cut = not is_compressed and stored / objects > record.chunk_bytes
    return PreflightWork.by_edges(
        stored,
        max(0, chunks - 1) if is_cut else 0,
        options.row_limit,
        # A window without quotes proves a row end only if it is longer than any row.
        quoted=source.kind.has_columns and source.quote is not None,
        objects=objects,
    )


class Workload(Record):
    """Billed work of a deployed import."""

    bytes: int
    """Stored bytes of the source."""
    chunks: int
    groups: int
    """Groups of chunks that are imported side by side."""
    workers: int
    seconds: float
    """Seconds from the first to the last write."""
    preflight: PreflightWork
    objects: int = 1

    @property
    def imports(self) -> int:
        """Number of ImportChunk invocations. A group needs several if it outlasts the timeout."""
        per_group = self.seconds * self.workers / max(1, self.groups)
        return self.groups * max(1, math.ceil(per_group / _INVOCATION_SECONDS))

    @property
    def segments(self) -> int:
        """Number of segments: each invocation may write one for each chunk of its group."""
        return self.imports * self.chunks // max(1, self.groups)

    @property
    def preflights(self) -> int:
        """Number of Preflight invocations."""
        return max(1, math.ceil(self.preflight.seconds / _INVOCATION_SECONDS))

    @property
    def gb_seconds(self) -> float:
        """GB-seconds that Lambda bills; ImportChunk mostly waits for the table."""
        importing = self.workers * self.seconds + self.imports * SHORT_SECONDS
        others = self.preflight.seconds + (self.invocations - self.imports) * SHORT_SECONDS
        megabytes = upload_rule.IMPORT_MEMORY_MB, upload_rule.DEFAULT_MEMORY_MB
        return (importing * megabytes[0] + others * megabytes[1]) / 1024

    @property
    def invocations(self) -> int:
        """Number of invocations, including one Report and one OnUpload."""
        return self.imports + self.preflights + 2

    @property
    def transitions(self) -> int:
        """State transitions that Step Functions bills."""
        return RUN_TRANSITIONS + GROUP_TRANSITIONS * self.groups + 2 * (self.imports - self.groups)

    @property
    def s3_writes(self) -> int:
        """Number of PUT and LIST requests.

        These write segments, each with a file of rejects, the Map's results and the other objects
        of the ledger, and list the ledger once a second while the run is followed.
        """
        return 2 * self.segments + self.groups + 20 + math.ceil(self.seconds)

    @property
    def source_reads(self) -> int:
        """Number of GET requests with which chunks read the source."""
        return max(math.ceil(self.bytes / RANGE_BYTES), self.objects, self.segments)

    @property
    def s3_reads(self) -> int:
        """Number of GET requests.

        These read the ranges of the source, for chunks and preflight; the run's record and the
        manifest in each invocation; and each segment once for Report and once to continue its
        chunk.
        """
        return (
            self.source_reads + self.preflight.requests + 5 * self.imports + 2 * self.segments + 50
        )

    def lines(self) -> list[PriceLine]:
        """Return a price line for each service other than DynamoDB."""
        hours = max(1, math.ceil(self.seconds / 3600))
        functions = "1 function" if self.workers == 1 else f"{self.workers} functions"
        return [
            PriceLine(
                "Lambda",
                (
                    f"{functions} x {self.seconds:,.0f} s, and others:"
                    f" {self.gb_seconds:,.0f} GB-s x $0.0000133334;"
                    f" {self.invocations:,} requests x $0.20 a million"
                ),
                self.gb_seconds * prices.GB_SECOND + self.invocations * prices.INVOCATION,
            ),
            PriceLine(
                "Step Functions",
                f"{self.transitions:,} transitions x $0.025 a thousand",
                self.transitions * prices.TRANSITION,
            ),
            PriceLine(
                "S3 requests",
                (
                    f"{self.s3_writes:,} PUT and LIST x $0.005 a thousand;"
                    f" {self.s3_reads:,} GET x $0.0004 a thousand"
                ),
                self.s3_writes * prices.S3_WRITE + self.s3_reads * S3_READ,
            ),
            PriceLine(
                "CloudWatch",
                (
                    f"{METRICS} metrics x $0.30 a month, for {hours} h;"
                    f" {self.invocations * LOG_BYTES / 1e6:,.2f} MB of logs x $0.50 a GB"
                ),
                METRICS * prices.METRIC_MONTH * hours / 730
                + self.invocations * LOG_BYTES / 1e9 * prices.LOG_GB,
            ),
        ]


def writes(units: int, price: WritePrice = US_EAST_1_PRICE) -> PriceLine:
    """Price a table's write request units, in all of its regions."""
    times = f" x {price.regions} regions" if price.regions > 1 else ""
    dollars = prices.dollars_text(price.dollars_per_million)
    how = f"{units:,} write units{times} x {dollars} a million"
    if price.source != prices.LIST_PRICE:
        how += f" ({price.origin})"
    return PriceLine("DynamoDB", how, price.dollars(units))


def capacity(
    write_capacity: int, seconds: float, *, regions: int = 1, infrequent: bool = False
) -> PriceLine:
    """Price the provisioned capacity during an import, which is billed with or without it."""
    price = prices.CAPACITY_HOUR_IA if infrequent else prices.CAPACITY_HOUR
    hours = max(1, math.ceil(seconds / 3600))
    times = f" x {regions} regions" if regions > 1 else ""
    how = f"{write_capacity:,} write capacity units x {hours:,} h{times} x ${price:.5f} an hour"
    return PriceLine("DynamoDB", how, write_capacity * hours * regions * price)


def price_import(
    record: RunRecord, facts: TableFacts, work: Workload, units: int
) -> dict[str, Any]:
    """Return the `price` object of a plan.

    `work`: billed work of the import; `units`: its write units in one region.
    """
    infrequent, regions = facts.infrequent, len(facts.replicas) + 1
    unit_price = record.write_price or WritePrice.of(
        facts.region, on_demand=facts.on_demand, infrequent=infrequent, regions=regions
    )
    table = writes(units, unit_price)
    if not facts.on_demand:
        billed = [facts.described, *(each.described for each in facts.indexes if each.is_global)]
        table = capacity(
            sum(map(provisioned_writes, billed)),
            work.seconds,
            regions=regions,
            infrequent=infrequent,
        )
    lines = [table, *work.lines()]
    in_s3 = any(name.startswith("s3://") for name in record.payload.source.names)
    reads = (work.source_reads + work.preflight.requests) * S3_READ if in_s3 else 0.0
    return {
        "currency": "USD",
        "region": prices.LIST_PRICE_REGION,
        "prices_of": prices.LIST_PRICE_DATE,
        "write_units": {
            "dollars_per_million": unit_price.dollars_per_million,
            "source": unit_price.source,
            "text": unit_price.text,
        },
        "billing": "on-demand" if facts.on_demand else "provisioned",
        "lines": [{**asdict(line), "dollars": round(line.dollars, 6)} for line in lines],
        "services": {line.service: round(line.dollars, 6) for line in lines},
        "total": round(sum(line.dollars for line in lines), 6),
        "by_import": round(table.dollars + reads, 6),
    }


def compare_importers(
    payload: Payload,
    facts: TableFacts,
    json_bytes: int,
    dollars: float,
    seconds: float | None,
) -> list[dict[str, Any]]:
    """Compare ddbload with AWS's own importers.

    Args:
        payload: Input of the run.
        facts: Settings of the table.
        json_bytes: Size of the items as DynamoDB JSON.
        dollars: Price of the import by ddbload.
        seconds: Duration of the import by ddbload.
    """
    is_new = not facts.table.id
    put = [] if payload.options.write_mode.replaces else ["mode put"]
    made_first = ["the table, made first"] if is_new else []
    converted = ["DynamoDB JSON in S3, by ddbload convert SOURCE s3://BUCKET/PREFIX/"]
    if payload.source.kind.is_native:
        converted = [] if payload.source.uri.startswith("s3://") else ["the source in S3"]
    new_table = [] if is_new else ["a new table: it cannot write to one that exists"]
    one_region = ["a table that is not global"] if facts.replicas else []

    imported = json_bytes / 1e9 * prices.IMPORT_GB
    ways: tuple[tuple[str, list[str], list[str], float | None, float | None], ...] = (
        ("ddbload", [], made_first, dollars, seconds),
        ("ImportTable", new_table + put, converted, imported, None),
        ("StartBulkPutItems", one_region + put, made_first + converted, None, None),
    )
    names = "tool", "possible", "dollars", "seconds", "needs"
    found = [
        dict(zip(names, (tool, not missing, price, taken, missing + needs), strict=True))
        for tool, missing, needs, price, taken in ways
    ]
    return sorted(found, key=lambda each: not each["possible"])
