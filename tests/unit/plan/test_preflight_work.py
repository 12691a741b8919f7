"""The plan's estimate of what preflight reads, beside what it reads of the same source."""

from __future__ import annotations

import gzip
import random
import re

import pytest

from ddbload.plan.figures import estimate_chunks, preflight_work
from ddbload.plan.make_plan import make_plan
from ddbload.plan.price import PreflightWork
from ddbload.reading.open_sources import HEAD_BYTES
from ddbload.source.byte_source import FIRST_BYTES
from tests.unit.steps.world import World
from tests.unit.steps.worlds import ManyObjects

ROW_LIMIT = 2_000
OPTIONS = {"chunk_bytes": 20_000, "workers": 4, "max_row_bytes": ROW_LIMIT}


def text(quoted: bool, rows: int = 4_000) -> bytes:
    rng = random.Random(3)
    cell = b'"some, %d"' if quoted else b"some %d"
    lines = (b"%d,%s,x\n" % (n, cell % rng.getrandbits(60)) for n in range(rows))
    return b"id,a,b\n" + b"".join(lines)


def measured(world: World) -> tuple[int, int]:
    """Bytes and requests of the source by which preflight reads it."""
    before = len(world.s3.calls)
    world.preflight()
    size = count = 0
    for call in world.s3.calls[before:]:
        if call.operation == "get_object":
            first, last = map(int, re.findall(r"\d+", call.params["Range"]))
            whole = world.s3.head_object(Bucket=call.params["Bucket"], Key=call.params["Key"])
            size += min(last + 1, whole["ContentLength"]) - first
            count += 1
    return size, count


def estimated(world: World) -> PreflightWork:
    plan = make_plan(world.payload, world.context())
    assert plan.error is None
    assert plan.record is not None
    assert plan.survey is not None
    chunks = estimate_chunks(plan.record)
    return preflight_work(plan.record, chunks, plan.survey, 1.0)


QUOTED, PLAIN = text(quoted=True), text(quoted=False)
SMALL = {f"{n:03d}.csv": b"id,a\n" + b"%d,x\n" % n for n in range(50)}
PACKED = {f"{n:03d}.csv.gz": gzip.compress(PLAIN[:20_000], mtime=0) for n in range(6)}
ONE = gzip.compress(QUOTED, mtime=0)
SOURCES = {
    "quoted": (QUOTED, "edges", {}),
    "no quotes": (PLAIN, "edges", {}),
    "no quote character": (PLAIN, "edges", {"quote": None}),
    "whole": (QUOTED, "whole", {}),
    "small objects": (SMALL, "edges", {}),
    "small objects, whole": (SMALL, "whole", {}),
    "large objects": ({"1.csv": QUOTED, "2.csv": QUOTED}, "edges", {}),
    "compressed objects": (PACKED, "edges", {}),
    "compressed objects, whole": (PACKED, "whole", {}),
    "one compressed object": (ONE, "edges", {}),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_estimate_is_what_preflight_reads(kind, monkeypatch):
    monkeypatch.setattr("ddbload.steps.chunker.FIRST_WINDOW_BYTES", 500)
    monkeypatch.setattr("ddbload.plan.price.FIRST_WINDOW_BYTES", 500)
    data, scan, source = SOURCES[kind]
    options = {**OPTIONS, "scan": scan}
    if isinstance(data, bytes):
        world = World(data, source=source, options=options)
    else:
        world = ManyObjects(files=data, source=source, options=options)
    estimate = estimated(world)
    size, requests = measured(world)
    # Format, header and types are told by the first bytes of the first object.
    largest = max(map(len, data.values())) if isinstance(data, dict) else len(data)
    size, requests = size - min(FIRST_BYTES, largest), requests - 1
    assert size <= estimate.bytes
    # Where windows of the first size decide, the estimate has a second one for each cut.
    assert requests <= estimate.requests <= max(2 * requests + 2, 4)
    if scan == "edges" and "quoted" not in kind and "large" not in kind:
        assert estimate.bytes <= 1.25 * size + HEAD_BYTES
    assert bool(estimate.text) == (kind == "compressed objects, whole")
