"""Loads of a terabyte, and of a million objects, in virtual time: `make simulate-scale`.

Preflight and Report are ddbload's own code over simulated S3; the imports between are computed.
Prints docs/scale.md.
"""

# ruff: noqa: E501 - lines of a page are as long as its tables make them

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ddbload.aws.table_description import UNITS_PER_WORKER, choose_workers
from ddbload.context import Context
from ddbload.contracts import run_record as prices
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import RowCounts as Counts
from ddbload.contracts.row_counts import WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.states import PreflightResult, PreflightTask
from ddbload.contracts.upload_rule import DEFAULT_MEMORY_MB, IMPORT_MEMORY_MB
from ddbload.planning import price
from ddbload.source.decoding.decoded_source import FIRST_BYTES
from ddbload.steps.preflight import preflight
from ddbload.steps.report import write_report
from tests.fakes.dynamodb import FakeDynamoDB
from tests.sim import scale_aws, scale_imports
from tests.sim.scale_aws import FunctionClock, SimulatedLedger, SimulatedObjects, SimulatedS3
from tests.sim.scale_imports import Load, import_all
from tests.unit.steps.world import BUCKET, RUN, TABLE, FakeClients, World

TB = 10**12
ROW_BYTES = 100
TABLE_RATE = 40_000.0
"""Write units a second: the default quota of a table."""
WORKERS = choose_workers(TABLE_RATE)
WORKER_RATE = 20_000.0
"""Rows a second of one function: a third of what its memory's processor could encode."""
TEXT_BYTES_PER_SECOND = 150e6 / scale_aws.PROCESSOR
"""Text that a function decompresses."""
MEMORY_GB = DEFAULT_MEMORY_MB / 1024
IMPORT_MEMORY_GB = IMPORT_MEMORY_MB / 1024
WHOLE_PART = 50
"""Part of a million objects over which a scan of everything is simulated."""
UPLOADS_PER_SECOND = 150.0


@dataclass(frozen=True)
class Scenario:
    """A source, and the seconds that preflight took when it read all of it."""

    name: str
    objects: SimulatedObjects
    whole_seconds: float
    runs: int = 1
    expansion: float = 1.0
    part: int = 1
    """The simulation runs over one of so many parts of the objects, and multiplies its figures."""

    @property
    def rows(self) -> float:
        return self.objects.count * self.objects.size * self.expansion / ROW_BYTES


@dataclass
class Outcome:
    """Figures of a scenario."""

    scenario: Scenario
    scan: str
    chunks: int = 0
    groups: int = 0
    preflight_seconds: float = 0.0
    preflights: int = 0
    preflight_requests: Counter[str] = field(default_factory=Counter)
    preflight_bytes: int = 0
    first_write: float = 0.0
    last_first_write: float = 0.0
    """First write of the run that waits longest."""
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
            0.0,
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
    part = scenario.part
    objects = replace(scenario.objects, count=max(1, scenario.objects.count // part))
    s3 = SimulatedS3(objects, clock)
    tables = World(b"id\n")
    outcome = Outcome(scenario, scan)
    key = {"key": "in/file.csv"} if objects.count == 1 else {"prefix": "in/"}
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
    assert isinstance(result, PreflightResult)
    worked = part * (clock() - begun)
    outcome.preflights = max(
        outcome.preflights, math.ceil(worked / scale_imports.INVOCATION_SECONDS)
    )
    outcome.preflight_seconds = worked + outcome.preflights * scale_imports.START_SECONDS
    outcome.processor_seconds = part * (time.process_time() - used)
    outcome.chunks = part * result.chunks
    groups = _context(store, s3, tables.dynamodb, clock).ledger(RUN).find_groups() or ()
    outcome.groups = part * len(groups)
    requests = s3.requests + store.requests
    outcome.preflight_requests = Counter({kind: part * requests[kind] for kind in requests})
    outcome.preflight_bytes = part * s3.bytes_read
    notice(f"{scenario.name}: preflight {outcome.preflight_seconds:,.0f} s")
    _import(scenario, outcome, result.workers)
    _report(scenario, outcome, store, s3, tables.dynamodb, clock)
    outcome.wall = outcome.imported + outcome.report_seconds
    outcome.dollars = _dollars(scenario, outcome)
    return outcome


def _whole_seconds(scenario: Scenario) -> float:
    """Simulate a scan of everything."""
    part = simulate(replace(scenario, part=WHOLE_PART), "whole")
    return part.preflight_seconds


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
            outcome.groups,
            scenario.rows / outcome.groups,
            workers,
        )
        for number in range(scenario.runs)
    ]
    fleet = import_all(loads, TABLE_RATE, WORKER_RATE)
    outcome.first_write, outcome.last_first_write = fleet.first_writes[0], fleet.first_writes[-1]
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
    chunks = ledger.find_manifest() or ()
    for chunk in chunks:
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
    outcome.report_seconds = scenario.part * (clock() - begun) + scale_imports.START_SECONDS


def _encoded(segment: Segment, record: Any) -> bytes:
    from ddbload.contracts.messages import encode_json

    return encode_json({**segment.to_json(), **record.stamp})


def _dollars(scenario: Scenario, outcome: Outcome) -> float:
    """Return the price of all but the table's write units."""
    seconds = scenario.runs * (outcome.preflight_seconds + outcome.report_seconds)
    requests = outcome.preflight_requests
    # An import reads ranges of 8 MiB, and writes segments and its progress.
    stored = scenario.objects.count * scenario.objects.size
    reads = scenario.runs * (requests["GET"] + stored / (8 << 20) + scenario.objects.count)
    segments = outcome.invocations * outcome.chunks / outcome.groups
    writes = scenario.runs * (requests["PUT"] + requests["LIST"])
    writes += segments + 2 * outcome.invocations
    return (
        (outcome.import_seconds * IMPORT_MEMORY_GB + seconds * MEMORY_GB) * prices.GB_SECOND
        + outcome.invocations * prices.INVOCATION
        + reads * prices.S3_READ
        + writes * prices.S3_WRITE
        + scenario.runs
        * (outcome.groups * price.GROUP_TRANSITIONS + price.RUN_TRANSITIONS)
        * prices.TRANSITION
    )


def page(outcomes: list[Outcome]) -> str:
    """Render docs/scale.md."""
    return f"""\
# Loads of a terabyte

<!-- `make simulate-scale` writes this page. -->

For estimating how long a large load takes on the deployed stack. The figures are simulated; nothing was measured on AWS:
preflight and report are ddbload's own code, over an S3 whose answers take the time that is listed below, in virtual time; the
imports between them are computed by the rates there.

## Until the first write

| load | first write | when preflight read everything | invocations of preflight | its requests | bytes that it read | processor seconds |
|---|---|---|---|---|---|---|
{"".join(map(_preflight_line, outcomes))}
*When preflight read everything* is computed: the bytes at {scale_aws.BYTES_PER_SECOND / 1e6:.0f} MB a second, compressed text at {TEXT_BYTES_PER_SECOND / 1e6:.0f} MB a second, and the same start of
the Map. Of the million small objects, where requests take the time, reading a fiftieth of them was simulated, and multiplied. It is what `--scan whole` takes today. *Processor seconds* are those of preflight's code on the machine that made this page.

## The whole load

| load | rows | chunks | wall time | of it report | invocations | AWS without DynamoDB | DynamoDB's write units |
|---|---|---|---|---|---|---|---|
{"".join(map(_whole_line, outcomes))}
**What remains is the table.** At {TABLE_RATE:,.0f} write units a second, the default quota of a table, {1e12 / ROW_BYTES:,.0f} rows take {1e12 / ROW_BYTES / TABLE_RATE / 3600:.0f} hours, whatever reads them. A
higher quota, and a table that is warmed up for it (`--prewarm`), shortens that in proportion; `auto` then uses more functions.

The 100 uploads go into one table. Each run wants {WORKERS} functions, and all together may have {scale_imports.CONCURRENCY:,}. Most of their price is functions that wait
for the table: with `workers` of 1 in the rule of such uploads they take as long, and cost a tenth.

## Assumptions

| what | value | source |
|---|---|---|
| first byte of an answer of S3 | {scale_aws.FIRST_BYTE_SECONDS * 1000:.0f} ms, also for pages of a listing and objects of the ledger | "consistent small object latencies (and first-byte-out latencies for larger objects) of roughly 100–200 milliseconds" ([Amazon S3 user guide](https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html)) |
| bytes that a function receives | {scale_aws.BYTES_PER_SECOND / 1e6:.0f} MB a second | AWS documents no figure; 400 to 700 Mbit/s were measured by others for large objects. Not measured here |
| requests to a prefix | not limited: preflight makes {_most_requests(outcomes):,.0f} a second, where it makes the most | "at least 3,500 PUT/COPY/POST/DELETE or 5,500 GET/HEAD requests per second per partitioned Amazon S3 prefix" (the same page) |
| processor of a function | {1 / scale_aws.PROCESSOR:.2f} times the one that made this page | {DEFAULT_MEMORY_MB:,} MB is ddbload's default for preflight and report: "At 1,769 MB, a function has the equivalent of one vCPU" ([AWS Lambda developer guide](https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html)). The factor is a guess |
| HTTP and TLS of a request | {scale_aws.HTTP_SECONDS * 1e6:.0f} µs by ddbload's client, {scale_aws.BOTO_SECONDS * 1000:.0f} ms by boto3 | 32 µs and 1.2 ms without TLS ([benchmarks.md](contributing/benchmarks.md#many-small-objects)), rounded up. Listings, sources and segments go by the first, other objects of the ledger by the second |
| time of an invocation | {scale_imports.INVOCATION_SECONDS:.0f} s | Lambda's 15 minutes, less the reserve of 30 seconds |
| functions at once | {scale_imports.CONCURRENCY:,}, of which {scale_imports.STARTS_PER_SECOND:.0f} new ones a second | the default quota of an account; "for each function, your concurrency scaling rate is 1,000 execution environment instances every 10 seconds" ([AWS Lambda developer guide](https://docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html)) |
| cold start, and a continuation | {scale_imports.START_SECONDS:.0f} s | guessed |
| from Preflight to the first child of the Map | {scale_imports.MAP_SECONDS:.0f} s | guessed: AWS documents no figure |
| table | {TABLE_RATE:,.0f} write units a second from the beginning, shared evenly by all functions of all runs | "40,000 read request units and 40,000 write request units" per table ([Amazon DynamoDB developer guide](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html)). A new on-demand table begins with 4,000, and takes longer |
| workers of a run | {WORKERS} | `auto`: one for each {UNITS_PER_WORKER:,} write units |
| rows | {ROW_BYTES} bytes of text, one write unit each; new keys; none is throttled, rejected or sent twice | – |
| rows of one function | {WORKER_RATE:,.0f} a second at most | 5 s of processor for a million ([cost.md](cost.md)) would be {IMPORT_MEMORY_MB / DEFAULT_MEMORY_MB / 5e-6 / scale_aws.PROCESSOR:,.0f} a second of import_chunk's {IMPORT_MEMORY_MB} MB |
| text of gzip | {TEXT_BYTES_PER_SECOND / 1e6:.0f} MB a second | 150 MB for each second of the processor ([decision 0011](contributing/decisions/0011-gzip-seek-points.md)), by the factor above |
| prices of us-east-1, {prices.LIST_PRICE_DATE} | Lambda on arm64: ${prices.GB_SECOND:.10f} a GB-second, ${prices.INVOCATION * 1e6:.2f} a million requests. Step Functions: ${prices.TRANSITION * 1e3:.3f} a thousand transitions. S3: ${prices.S3_WRITE * 1e3:.3f} a thousand PUT and LIST, ${prices.S3_READ * 1e3:.4f} a thousand GET. DynamoDB: ${price.US_EAST_1_PRICE.dollars_per_million:.3f} a million write units on demand | AWS's price lists, as in `ddbload/contracts/run_record.py` ([cost.md](cost.md)) |
| requests that are priced | those of preflight as they were made; for imports one GET for each 8 MiB and for each object, a PUT for each segment, and two for each invocation | – |

Left out: errors, throttled requests, requests that are slower than others, what Step Functions adds between states, the growth of an
on-demand table, and other load on the account.
"""


def _most_requests(outcomes: list[Outcome]) -> float:
    """Return the requests a second of the preflight that makes the most."""
    return max(sum(each.preflight_requests.values()) / each.preflight_seconds for each in outcomes)


def _preflight_line(each: Outcome) -> str:
    started = scale_imports.MAP_SECONDS + 2 * scale_imports.START_SECONDS
    before = _time(each.scenario.whole_seconds + started)
    objects = each.scenario.objects
    if objects.count == 1 and each.preflight_bytes >= objects.size:
        before = "the same: up to 2 GiB it reads everything"
    requests = sum(each.preflight_requests.values())
    first = _time(each.first_write)
    if each.scenario.runs > 1:
        first += f"; of the last run {_time(each.last_first_write)}"
    return (
        f"| {each.scenario.name} | {first} | {before} | {each.preflights:,} | {requests:,} |"
        f" {each.preflight_bytes / 1e9:,.2f} GB | {each.processor_seconds:,.0f} |\n"
    )


def _whole_line(each: Outcome) -> str:
    scenario = each.scenario
    rows = scenario.rows * scenario.runs
    return (
        f"| {scenario.name} | {rows / 1e6:,.0f} million | {each.chunks * scenario.runs:,} |"
        f" {_time(each.wall)} | {_time(each.report_seconds)} | {each.invocations:,} |"
        f" ${each.dollars:,.2f} | ${rows * price.US_EAST_1_PRICE.dollars_per_million / 1e6:,.0f} |\n"
    )


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.scale", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads")
    parser.add_argument("--keep", type=Path, help="folder of finished outcomes, which are reused")
    args = parser.parse_args()
    outcomes = []
    for number, each in enumerate(scenarios(args.scale)):
        kept = None if args.keep is None else args.keep / f"{number}.json"
        if kept is not None and kept.exists():
            outcomes.append(_from_json(each, json.loads(kept.read_text())))
            continue
        # Of small objects, requests and not bytes take the time.
        whole = each.whole_seconds or _whole_seconds(each)
        outcomes.append(simulate(replace(each, whole_seconds=whole), notice=_tell))
        if kept is not None:
            kept.write_text(json.dumps(_to_json(outcomes[-1])))
    sys.stdout.write(page(outcomes))
    return 0


def _to_json(outcome: Outcome) -> dict[str, Any]:
    figures = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    return {**figures, "scenario": outcome.scenario.whole_seconds}


def _from_json(scenario: Scenario, value: dict[str, Any]) -> Outcome:
    whole = replace(scenario, whole_seconds=value["scenario"])
    requests = Counter(value["preflight_requests"])
    return Outcome(**{**value, "scenario": whole, "preflight_requests": requests})


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
