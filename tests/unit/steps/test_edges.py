"""Preflight by edges reads little, and the import of its chunks loads the file's rows or fails."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest

from ddbload.errors import UnterminatedQuote
from ddbload.steps import prepare
from tests.unit.steps.chaos import Chaos, plan
from tests.unit.steps.expected import assert_rejects_are, outcome
from tests.unit.steps.many_files import HEADER, assert_imported, files_of
from tests.unit.steps.world import RUN, World
from tests.unit.steps.worlds import ManyObjects

EDGES = {"scan": "edges", "max_row_bytes": 400}
PLAIN = b"id,a\n" + b"".join(b"%05d,x\n" % number for number in range(900))


def quoted(rows: int) -> bytes:
    """Rows of which some have quotes, or several lines, or a field too many."""
    lines = [
        (b'%d,"%s"\r\n', b'%d,"a\n,""%s"\n', b"%d,%s\n", b"%d,b,%s\n")[number % 4]
        % (number, b"x" * (number % 23))
        for number in range(rows)
    ]
    return b"id,a\n" + b"".join(lines)


def ranges_read(world: World) -> list[tuple[int, int]]:
    """Ranges of the source that were requested, in order."""
    gets = [each.params for each in world.s3.calls if each.operation == "get_object"]
    bounds = [params["Range"].removeprefix("bytes=").split("-") for params in gets]
    return [(int(first), int(last) + 1) for first, last in bounds]


def test_rejects_are_stored_without_a_line_and_shown_with_it():
    data = quoted(200)
    world = World(data, options={**EDGES, "chunk_bytes": 700})
    world.run()
    stored = [
        json.loads(line)
        for name in world.in_ledger("rejects/")
        for line in world.store.objects[f"runs/{RUN}/{name}"].splitlines()
    ]
    first = world.manifest[0].end
    rows = outcome(data).rejects
    assert [each["line"] for each in stored] == [
        row.line if row.byte < first else None for row in rows
    ]
    assert all(("lines_before" in each) == (each["line"] is None) for each in stored)
    assert_rejects_are(rows, world.rejects())


def test_first_window_within_quotes_proves_no_row_end(monkeypatch):
    monkeypatch.setattr("ddbload.steps.chunker.FIRST_WINDOW_BYTES", 16)
    rows = b"".join(b'%d,"%s"\n' % (number, b"x\ny\n" * 20) for number in range(40))
    world = World(b"id,a\n" + rows, options={**EDGES, "chunk_bytes": 300})
    assert world.run().rows.written == 40
    assert len(world.manifest) > 5


@pytest.mark.parametrize("scan", ["whole", "edges"])
def test_open_quote_at_the_end_fails_the_import_itself(scan):
    data = PLAIN + b'9,"open\n10,x\n'
    world = World(data, options={**EDGES, "scan": scan, "chunk_bytes": 1300})
    if scan == "whole":
        with pytest.raises(UnterminatedQuote, match=f"line 902, byte {len(PLAIN)} "):
            world.preflight()
        assert world.manifest == ()
        return
    world.preflight()
    with pytest.raises(UnterminatedQuote, match=f"the row at byte {len(PLAIN)} "):
        world.import_one(world.manifest[-1])
    report = world.report()
    assert (report.status, report.error.name) == ("FAILED", "UnterminatedQuote")
    world.import_one(world.manifest[0])
    report = world.report()
    written = report.rows.written
    assert written > 1
    told = f"{written} rows were written before; a new run with --scan whole"
    assert told in report.error.message


# Objects that are one chunk.


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_counted_once_when_functions_die_or_run_twice(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr("ddbload.steps.chunker.MAX_OBJECTS", rng.choice((2, 400)))
    monkeypatch.setattr("ddbload.steps.chunker._WRITES_AHEAD", 0)
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", rng.choice((2, 1000)))
    files = files_of(seed, 8, compressed=rng.random() < 0.7)
    options = {**EDGES, "chunk_bytes": rng.choice((20, 200, 10**6))}
    world = ManyObjects(files=files, options=options)
    chaos = Chaos(world, plan(rng.randbytes(1 + 3 * 16)))
    report = chaos.conclude()
    assert_imported(files, world, report)


def test_objects_of_one_chunk_are_not_read_beyond_their_beginning(monkeypatch):
    monkeypatch.setattr("ddbload.reading.open_sources.HEAD_BYTES", 500)
    files = {f"{number}.csv": HEADER + b"%d,x\n" % number * 200 for number in range(20)}
    world = ManyObjects(files=files, options={**EDGES, "chunk_bytes": 10**6})
    world.preflight()
    keys = [each.params["Key"] for each in world.s3.calls if each.operation == "get_object"]
    ranges = zip(keys, ranges_read(world), strict=True)
    # The first object tells format and types.
    assert {bounds for key, bounds in ranges if key != "many/0.csv"} == {(0, 500)}
    assert len(world.manifest) == 1


def test_compressed_object_is_not_read_beyond_its_header(monkeypatch):
    monkeypatch.setattr("ddbload.source.decoding.decoded_source.FIRST_BYTES", 1024)
    rng = random.Random(1)
    rows = b"".join(b"%d,%d\n" % (number, rng.getrandbits(60)) for number in range(5000))
    data = gzip.compress(b"id,a\n" + rows)
    world = World(data, options={**EDGES, "chunk_bytes": 1000})
    world.preflight()
    assert max(end for _, end in ranges_read(world)) < len(data) // 2
    (chunk,) = world.manifest
    record = world.ledger.record()
    assert (record.size, record.padded) == (None, True)
    assert world.import_one(chunk, seconds=3.5) >= 1
    report = world.report()
    assert (report.status, report.rows.read) == ("SUCCEEDED", 5000)
    # What was kept free for the object is not counted as bytes.
    assert report.bytes == report.size == 5 + len(rows)


# What `auto` chooses.


@pytest.mark.parametrize(
    ("source", "scan"),
    [("plain", "whole"), ("large", "edges"), ("gzip", "edges"), ("several", "edges")],
)
def test_auto_reads_large_sources_by_edges(source, scan, monkeypatch):
    monkeypatch.setattr(prepare, "EDGES_ABOVE_BYTES", 100)
    monkeypatch.setattr(prepare, "EDGES_ABOVE_COMPRESSED_BYTES", 20)
    rows = b"id,a\n" + b"1,x\n" * (30 if source == "large" else 10)
    world: Any = World(gzip.compress(rows) if source == "gzip" else rows)
    if source == "several":
        world = ManyObjects(files={"a.csv": rows, "b.csv": rows, "c.csv": rows})
    world.preflight()
    options = world.ledger.record().payload.options
    assert options.scan == ("auto" if scan == "whole" else "edges")
    assert options.max_row_bytes == (16 if scan == "whole" else 1) * 1024 * 1024
