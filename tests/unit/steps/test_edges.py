"""Preflight by edges reads little, and the import of its chunks loads the file's rows or fails."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from typing import Any

import pytest

from ddbload.errors import SplitMismatch, UnterminatedQuote
from ddbload.steps import chunker, prepare
from tests.unit.steps.chaos import Chaos, plan
from tests.unit.steps.expected import assert_rejects_are, outcome, status_for, table_of
from tests.unit.steps.many_files import HEADER, assert_imported, files_of
from tests.unit.steps.world import RUN, World
from tests.unit.steps.worlds import ManyObjects, SlowReads

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


def undecidable(rows: int) -> bytes:
    """Rows of which no window proves an end: each quote stands beside a mark."""
    return b"id,a\n" + b"".join(b'%d,",\n,"\n' % number for number in range(rows))


def ranges_read(world: World) -> list[tuple[int, int]]:
    """Ranges of the source that were requested, in order."""
    gets = [each.params for each in world.s3.calls if each.operation == "get_object"]
    bounds = [params["Range"].removeprefix("bytes=").split("-") for params in gets]
    return [(int(first), int(last) + 1) for first, last in bounds]


def bytes_read(world: World) -> int:
    return sum(end - start for start, end in ranges_read(world))


@pytest.mark.parametrize("data", [quoted(400), undecidable(900), PLAIN])
@pytest.mark.parametrize("window", [1, 30, 16_384])
def test_rows_are_those_of_the_file(data, window, monkeypatch):
    monkeypatch.setattr(chunker, "FIRST_WINDOW_BYTES", window)
    world = World(data, options={**EDGES, "chunk_bytes": 700})
    report = world.run()
    assert report.status == status_for(report.rows)
    assert table_of(world) == outcome(data).last_of_each_key
    assert_rejects_are(outcome(data).rejects, world.rejects())
    assert len(world.manifest) > len(data) // 1500
    assert (report.bytes, report.size) == (len(data), len(data))


def test_json_lines_end_at_line_feeds():
    data = b"".join(b'{"id": "%d", "a": "x\\n\\""}\n' % number for number in range(500))
    world = World(data, source={"format": "json"}, options={**EDGES, "chunk_bytes": 1000})
    world.run()
    assert len(world.items) == 500
    assert len(world.manifest) == len(data) // 1000 + 1


def test_quoted_text_is_read_in_small_windows(monkeypatch):
    monkeypatch.setattr(chunker, "FIRST_WINDOW_BYTES", 64)
    data = b"id,a\n" + b"".join(b'%05d,"x,\ny"\n' % number for number in range(3000))
    world = World(data, options={**EDGES, "chunk_bytes": 2000})
    world.s3.calls.clear()
    world.preflight()
    windows = [end - start for start, end in ranges_read(world) if start]
    assert windows == [64] * (len(data) // 2000)


def test_short_windows_are_not_read_where_only_long_ones_prove_anything(monkeypatch):
    monkeypatch.setattr(chunker, "FIRST_WINDOW_BYTES", 64)
    world = World(PLAIN, options={**EDGES, "chunk_bytes": 500})
    world.preflight()
    sizes = [end - start for start, end in ranges_read(world) if start and end < len(PLAIN)]
    # In the first batches the rest of a window is read after its beginning.
    assert set(sizes) == {64, 401 - 64, 401}
    assert sizes.count(64) == chunker.ASKED_AT_FIRST + 2 * chunker.ASKED_AT_FIRST


def test_few_windows_are_read_where_none_proves_anything(monkeypatch):
    monkeypatch.setattr(chunker, "FIRST_WINDOW_BYTES", 64)
    data = undecidable(9000)
    world = World(data, options={**EDGES, "chunk_bytes": 1000})
    world.preflight()
    windows = sum(
        end - start for start, end in ranges_read(world) if start > 0 and end - start <= 401
    )
    assert windows <= 2 * chunker.MOST_UNDECIDED * 401


def test_windows_without_proof_are_counted_across_invocations(monkeypatch):
    monkeypatch.setattr("ddbload.steps.chunker.BLOCK_BYTES", 64)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 500)
    world = SlowReads(undecidable(900), options={**EDGES, "chunk_bytes": 300})
    counts, cursor = [], None
    while True:
        result = world.preflight_step(cursor, world.context(12))
        cursor = result.cursor
        if cursor is None:
            break
        counts.append(cursor.undecided)
    assert len(counts) > 3
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == chunker.MOST_UNDECIDED
    for chunk in world.manifest:
        world.import_one(chunk)
    assert world.report().rows.read == 900


@pytest.mark.parametrize("seed", range(3))
def test_continued_preflight_makes_the_same_chunks(seed, monkeypatch):
    monkeypatch.setattr(chunker, "FIRST_WINDOW_BYTES", 50)
    monkeypatch.setattr(chunker, "MOST_ASKED", 4)
    data = random.Random(seed).choice((quoted(400), PLAIN))
    options = {**EDGES, "chunk_bytes": 150}
    at_once, continued = World(data, options=options), SlowReads(data, options=options)
    at_once.preflight()
    continued.preflight(seconds=13 + seed)
    assert len(continued.in_ledger("manifest/")) > 1
    assert continued.manifest == at_once.manifest


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


def test_line_is_null_while_a_chunk_before_is_not_imported():
    world = World(quoted(200), options={**EDGES, "chunk_bytes": 700})
    world.preflight()
    for chunk in world.manifest[1:]:
        world.import_one(chunk)
    assert {each["line"] for each in world.rejects()} == {None}
    world.import_one(world.manifest[0])
    assert_rejects_are(outcome(quoted(200)).rejects, world.rejects())


def test_row_longer_than_allowed_fails_by_name():
    # Its lines look like rows, in any window that no row may fill.
    data = b'id,a\n1,"' + b"2,b\n" * 1000 + b'"\n' + b"3,c\n" * 250
    world = World(data, options={**EDGES, "chunk_bytes": 300})
    world.preflight()
    with pytest.raises(SplitMismatch, match="--scan whole"):
        world.import_one(world.manifest[0])
    for chunk in world.manifest[1:]:
        with suppress(SplitMismatch):
            world.import_one(chunk)
    report = world.report()
    assert (report.status, report.error.name) == ("FAILED", "SplitMismatch")


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


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_several_objects_are_read_once(seed, monkeypatch):
    monkeypatch.setattr("ddbload.reading.open_sources.HEAD_BYTES", 20)
    rng = random.Random(seed)
    files = files_of(seed, rng.choice((1, 2, 12)), compressed=rng.random() < 0.7)
    if not any(files.values()):
        files["999.csv"] = HEADER
    options = {**EDGES, "chunk_bytes": rng.choice((1, 10, 60, 500, 10**6))}
    world = ManyObjects(files=files, options=options, ticks=0.2)
    report = world.run(rng.choice((12.5, 60.5, 10**6)))
    assert_imported(files, world, report)


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
    chaos.run()
    chaos.finish()
    report = world.report()
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
    monkeypatch.setattr("ddbload.source.byte_source.FIRST_BYTES", 1024)
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


def test_compressed_object_is_continued_where_it_stopped():
    rows = b"".join(b"%d,x\n" % number for number in range(500))
    options = {**EDGES, "concurrency": 1}
    world = World(gzip.compress(b"id,a\n" + rows), options=options, request_seconds=1.0)
    world.preflight()
    assert world.import_one(world.manifest[0], seconds=4.5) > 2
    report = world.report()
    assert (report.rows.written, report.bytes) == (500, 5 + len(rows))


def test_damage_of_an_unread_object_fails_its_import():
    data = gzip.compress(b"id,a\n" + b"1,x\n" * 10_000)
    world = World(data[:-9], options=EDGES)
    world.preflight()
    with pytest.raises(Exception, match="end too early"):
        world.import_one(world.manifest[0])
    assert world.report().status == "FAILED"


@pytest.mark.parametrize("content", [b"", b"id,a\n", b"id,a"])
def test_compressed_object_without_rows_is_loaded(content):
    world = World(
        gzip.compress(content), options=EDGES, source={"columns": ["id", "a"], "header": True}
    )
    report = world.run()
    assert (report.status, report.rows.read) == ("SUCCEEDED", 0)


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


def test_given_limit_of_a_row_is_kept():
    world = World(PLAIN, options={"scan": "edges", "max_row_bytes": 16 * 1024 * 1024})
    world.preflight()
    assert world.ledger.record().payload.options.max_row_bytes == 16 * 1024 * 1024
