"""Loads of a terabyte, and of a million objects, in virtual time: `make simulate-scale`.

Preflight and Report are ddbload's own code over simulated S3; the imports between are computed.
Prints docs/scale.md.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import gzip
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ddbload.contracts.results import RowCounts as Counts
from ddbload.contracts.results import Segment, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.states import PreflightTask
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.preflight import preflight
from ddbload.pipeline.report import write_report
from ddbload.plan import price
from ddbload.source.byte_source import FIRST_BYTES
from tests.fakes.dynamodb import FakeDynamoDB
from tests.sim import scale_aws, scale_imports
from tests.sim.scale_aws import FunctionClock, SimulatedLedger, SimulatedObjects, SimulatedS3
from tests.sim.scale_imports import Load, import_all
from tests.unit.pipeline.world import BUCKET, RUN, TABLE, FakeClients, World

TB = 10**12
ROW_BYTES = 100
TABLE_RATE = 40_000.0
"""Write units a second: the default quota of a table."""
WORKERS = 40
WORKER_RATE = 20_000.0
"""Rows a second of one function: 50 processor microseconds a row, ten times what is measured."""
TEXT_BYTES_PER_SECOND = 150e6 / scale_aws.PROCESSOR
"""Text that a function decompresses."""
MEMORY_GB = 1769 / 1024
UPLOADS_PER_SECOND = 150.0


@dataclass(frozen=True)
class Scenario:
    """A source, and the seconds that preflight took when it read all of it."""

    name: str
    objects: SimulatedObjects
    whole_seconds: float
    runs: int = 1
    text_bytes: int = 0
    """Bytes of all rows of a run."""
    expansion: float = 1.0

    @property
    def rows(self) -> float:
        return self.objects.count * self.objects.size * self.expansion / ROW_BYTES


@dataclass
class Outcome:
    """Figures of a scenario."""

    scenario: Scenario
    scan: str
    chunks: int = 0
    preflight_seconds: float = 0.0
    preflights: int = 0
    preflight_requests: Counter[str] = field(default_factory=Counter)
    preflight_bytes: int = 0
    first_write: float = 0.0
    imported: float = 0.0
    import_seconds: float = 0.0
    report_seconds: float = 0.0
    wall: float = 0.0
    invocations: int = 0
    dollars: float = 0.0
    processor_seconds: float = 0.0


class SimulatedClients(FakeClients):
    """Clients whose requests to S3 take virtual time."""

    def s3_signer(self, bucket: str) -> Any:
        """Return the simulated signer of the bucket."""
        del bucket
        return self.s3


def scenarios(scale: float = 1.0) -> list[Scenario]:
    """Return all scenarios; `scale` makes them smaller, for tests."""
    size, many, million = (int(of * scale) for of in (TB, 100_000, 1_000_000))
    quoted = b'%07d,"some text, with a delimiter","two\nlines of text",1234.5,abcdefghijklmnop\n'
    plain = (
        b"%07d,some text without any quotes at all,1234.5,abcdefghijklmnop,qrstuvwxyz,01234567\n"
    )
    block = b"".join(quoted % number for number in range(20_000))
    bare = b"".join(plain % number for number in range(20_000))
    rng = random.Random(1)
    text = b"id,a,b\n" + b"".join(
        b"%07d,%s,%d\n" % (number, rng.choice((b"red", b"green", b"blue")), rng.getrandbits(40))
        for number in range(20_000)
    )
    head = gzip.compress(text)
    expansion = len(text) / len(head)
    # No more than the head is read. Zeros behind gzip data are padding.
    head += bytes(2 * FIRST_BYTES)
    small = b"id,a,b\n" + b"".join(b"%07d,some text,0123456789\n" % number for number in range(370))
    header = b"id,a,b,c,d,e\n"
    compressed = 10_000_000
    return [
        Scenario(
            "1 TB in one CSV, some cells quoted",
            SimulatedObjects(1, size, scale_aws.repeated(b"id,a,b,c,d\n", block)),
            size / scale_aws.BYTES_PER_SECOND,
        ),
        Scenario(
            "1 TB in one CSV, no quotes",
            SimulatedObjects(1, size, scale_aws.repeated(header, bare)),
            size / scale_aws.BYTES_PER_SECOND,
        ),
        Scenario(
            "100,000 gzip objects of 10 MB",
            SimulatedObjects(many, compressed, lambda start, end: head[start:end]),
            many * compressed * expansion / TEXT_BYTES_PER_SECOND,
            expansion=expansion,
        ),
        Scenario(
            f"a million CSV objects of {len(small) / 1000:.0f} KB",
            SimulatedObjects(million, len(small), lambda start, end: small[start:end]),
            million * (len(small) / scale_aws.BYTES_PER_SECOND),
        ),
        Scenario(
            "100 uploads of 1 GB at once",
            SimulatedObjects(1, int(10**9 * scale), scale_aws.repeated(header, bare)),
            10**9 * scale / scale_aws.BYTES_PER_SECOND,
            runs=100,
        ),
    ]


def simulate(
    scenario: Scenario,
    scan: str = "auto",
    *,
    counts_processor: bool = True,
    notice: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run preflight, compute the imports, and run the report."""
    clock = FunctionClock(counts_processor=counts_processor)
    store = SimulatedLedger(clock)
    s3 = SimulatedS3(scenario.objects, clock)
    tables = World(b"id\n")
    outcome = Outcome(scenario, scan)
    key = {"key": "in/file.csv"} if scenario.objects.count == 1 else {"prefix": "in/"}
    options = {"scan": scan, "workers": WORKERS, "max_rejects": 0}
    payload = {
        "source": {"bucket": BUCKET, **key},
        "target": {"table": TABLE},
        "options": options,
    }
    begun, used = clock(), time.process_time()
    cursor = None
    while True:
        context = _context(store, s3, tables.dynamodb, clock)
        result = preflight(PreflightTask(payload, RUN, cursor), context)
        outcome.preflights += 1
        cursor = result.cursor
        if cursor is None:
            break
        clock.sleep(scale_imports.START_SECONDS)
    outcome.preflight_seconds = clock() - begun + scale_imports.START_SECONDS
    outcome.processor_seconds = time.process_time() - used
    outcome.chunks = result.chunks
    outcome.preflight_requests = s3.requests + store.requests
    outcome.preflight_bytes = s3.bytes_read
    notice(f"{scenario.name}: preflight {outcome.preflight_seconds:,.0f} s, {result.chunks} chunks")
    _import(scenario, outcome, result.workers)
    _report(scenario, outcome, store, s3, tables.dynamodb, clock)
    outcome.wall = outcome.imported + outcome.report_seconds
    outcome.dollars = _dollars(scenario, outcome)
    return outcome


def _context(
    store: SimulatedLedger, s3: SimulatedS3, dynamodb: FakeDynamoDB, clock: FunctionClock
) -> Context:
    return Context(
        store=store,
        clients=SimulatedClients(dynamodb, s3),
        deadline=clock() + scale_imports.INVOCATION_SECONDS,
        clock=clock,
        now=clock,
        sleep=clock.sleep,
        rng=random.Random(1),
    )


def _import(scenario: Scenario, outcome: Outcome, workers: int) -> None:
    loads = [
        Load(
            outcome.preflight_seconds + number / UPLOADS_PER_SECOND,
            outcome.chunks,
            scenario.rows / outcome.chunks,
            workers,
        )
        for number in range(scenario.runs)
    ]
    fleet = import_all(loads, TABLE_RATE, WORKER_RATE)
    outcome.first_write = fleet.first_write
    outcome.imported = fleet.end
    outcome.invocations = fleet.invocations + (outcome.preflights + 1) * scenario.runs
    outcome.import_seconds = fleet.function_seconds


def _report(
    scenario: Scenario,
    outcome: Outcome,
    store: SimulatedLedger,
    s3: SimulatedS3,
    dynamodb: FakeDynamoDB,
    clock: FunctionClock,
) -> None:
    """Write a segment for each invocation of an import, and run the report over them."""
    context = _context(store, s3, dynamodb, clock)
    ledger = context.ledger(RUN)
    record = ledger.record()
    rows = int(scenario.rows / outcome.chunks)
    for chunk in ledger.find_manifest() or ():
        segment = Segment(
            chunk.chunk,
            Cursor(chunk.start, chunk.first_line),
            Cursor(chunk.end, chunk.first_line),
            True,
            Counts(rows, rows),
            WriteStats(rows // 25, 0, 0, float(rows)),
            None,
        )
        name = f"runs/{RUN}/chunks/{chunk.chunk:05d}/{chunk.start}.json"
        store.objects[name] = _encoded(segment, record)
    clock()
    begun = clock()
    report = write_report(RUN, _context(store, s3, dynamodb, clock))
    assert report.status == "SUCCEEDED", report.error
    outcome.report_seconds = clock() - begun + scale_imports.START_SECONDS


def _encoded(segment: Segment, record: Any) -> bytes:
    from ddbload.ledger.run_objects import encode_json

    return encode_json({**segment.to_json(), **record.stamp})


def _dollars(scenario: Scenario, outcome: Outcome) -> float:
    """Return the price of all but the table's write units."""
    seconds = outcome.import_seconds + scenario.runs * (
        outcome.preflight_seconds + outcome.report_seconds
    )
    requests = outcome.preflight_requests
    # An import reads ranges of 8 MiB, and writes a segment and its progress.
    stored = scenario.objects.count * scenario.objects.size
    reads = scenario.runs * (requests["GET"] + stored / (8 << 20) + scenario.objects.count)
    writes = scenario.runs * (requests["PUT"] + requests["LIST"]) + 3 * outcome.invocations
    return (
        seconds * MEMORY_GB * price.GB_SECOND
        + outcome.invocations * price.INVOCATION
        + reads * price.S3_READ
        + writes * price.S3_WRITE
        + scenario.runs
        * (outcome.chunks * price.CHUNK_TRANSITIONS + price.RUN_TRANSITIONS)
        * price.TRANSITION
    )
