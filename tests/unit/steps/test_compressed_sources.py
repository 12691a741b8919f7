"""Compressed objects in many chunks, and chunks of them in many invocations."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import re
import zlib

import pytest
import zstandard

from ddbload import errors
from ddbload.contracts import run_record
from ddbload.contracts.results import ExecutionOutput
from ddbload.contracts.states import ReportTask
from ddbload.source.decoding import compression, decoded_source
from ddbload.steps.report import report_execution
from tests.fakes.s3_faults import Fault
from tests.unit.source.gzip_files import bgzip, deflate, member, rows
from tests.unit.steps.expected import counts, outcome
from tests.unit.steps.world import BUCKET, KEY, RUN, World, by_value
from tests.unit.steps.worlds import ManyObjects

BLOCK = 1201
HEADER = b"id,a,b,n\r\n"
TEXT = HEADER + rows(500)
MANY = {"chunk_bytes": 1, "workers": 4}
NO_INDEX = {"workers": 1}


@pytest.fixture(autouse=True)
def small_objects_are_indexed(monkeypatch):
    monkeypatch.setattr(run_record, "INDEX_BYTES", 0)


def in_blocks(text: bytes) -> bytes:
    """Compress with small blocks."""
    return member(text, deflate(text, flush=zlib.Z_BLOCK, block_bytes=BLOCK))


def frames(text: bytes) -> bytes:
    parts = (text[begin : begin + BLOCK] for begin in range(0, len(text), BLOCK))
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)


def streams(text: bytes, compress) -> bytes:
    parts = (text[begin : begin + BLOCK] for begin in range(0, len(text), BLOCK))
    return b"".join(map(compress, parts))


PACKED = {
    "gzip": in_blocks(TEXT),
    "bgzip": bgzip(TEXT, BLOCK),
    "zstd": frames(TEXT),
    "bzip2": streams(TEXT, bz2.compress),
    "xz": streams(TEXT, lzma.compress),
}


def requested(world: World, since: int = 0) -> int:
    """Bytes of the source that were requested from S3 since a number of calls."""
    total = 0
    for call in world.s3.calls[since:]:
        if call.operation == "get_object" and call.params["Key"].startswith("in/"):
            first, last = map(int, re.findall(r"\d+", call.params["Range"]))
            total += last + 1 - first
    return total


def assert_loaded(world: World, text: bytes = TEXT) -> None:
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert report.rows == counts(outcome(text))
    items = {item["id"]["S"]: by_value(item) for item in world.items}
    assert items == {row.item["id"][1]: row.item for row in outcome(text).items}


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_object_is_cut_at_seek_points(kind):
    world = World(PACKED[kind], options=MANY)
    world.preflight()
    chunks = world.manifest
    assert len(chunks) > 5
    # Chunks begin less than a row behind a point, and in its text, not in that of the file.
    for chunk in chunks[1:]:
        point = world.ledger.find_seek_point(chunk.start)
        assert 0 <= chunk.start - point.text < 60
        assert TEXT[chunk.start - 2 : chunk.start] == b"\r\n"
    for chunk in reversed(chunks):
        before = len(world.s3.calls)
        world.import_one(chunk)
        point = world.ledger.find_seek_point(chunk.start)
        if point is not None:
            # Each worker reads its own part alone.
            assert requested(world, before) == point.until - point.offset
    assert_loaded(world)
    assert world.report().size == len(TEXT)


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("chunk_bytes", [1, 5_000])
def test_preflight_of_compressed_object_continues_at_seek_point(monkeypatch, kind, chunk_bytes):
    options = {**MANY, "chunk_bytes": chunk_bytes}
    once = World(PACKED[kind], options=options)
    once.preflight()
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 600)
    monkeypatch.setattr("ddbload.source.decoding.decoded_source.FIRST_BYTES", 600)
    world = World(PACKED[kind], options=options)
    # Each request of a range takes a second.
    world.s3.faults.decide = lambda operation, _: (
        Fault(before=lambda: world.clock.sleep(1.0)) if operation == "get_object" else None
    )
    world.preflight_step()
    result, steps = world.preflight_step(None, world.context(6.0)), 1
    while result.cursor is not None:
        before = len(world.s3.calls)
        result = world.preflight_step(result.cursor, world.context(6.0))
        # Not from the beginning of the object on.
        assert requested(world, before) <= 8 * 600
        steps += 1
    assert world.manifest == once.manifest
    world.import_all()
    assert_loaded(world)


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bzip2", "xz"])
def test_chunk_continues_where_its_worker_stopped(monkeypatch, kind):
    monkeypatch.setattr(decoded_source.SeekTrail.__init__, "__defaults__", (BLOCK,))
    world = World(PACKED[kind], options=NO_INDEX, request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    result, left = world.import_step(chunk, context=world.context(4.0)), []
    while result.chunks:
        before = len(world.s3.calls)
        byte = result.segments[0].end.byte
        point = world.ledger.find_seek_point(byte)
        assert 0 <= byte - point.text < 3 * BLOCK
        result = world.import_step(chunk, context=world.context(4.0))
        left.append(requested(world, before))
        assert left[-1] == len(PACKED[kind]) - point.offset
    assert left == sorted(left, reverse=True)
    assert len(left) > 2
    assert_loaded(world)


@pytest.mark.parametrize("continued", [False, True])
def test_several_objects_are_cut_each(monkeypatch, continued):
    texts = [HEADER + rows(count, seed) for seed, count in enumerate((200, 3, 250))]
    names = iter(range(10**6))
    texts = [re.sub(rb"(?m)^\d", lambda _: b"%d-" % next(names), text) for text in texts]
    plain = HEADER + b"".join(b"plain-%d,1,2,3\r\n" % n for n in range(50))
    world = World(b"", source={"key": None, "prefix": "in/"}, options={**MANY, "workers": 9})
    world.s3.delete_object(Bucket=BUCKET, Key=KEY)
    for number, text in enumerate(texts):
        world.s3.put_object(Bucket=BUCKET, Key=f"in/{number}.gz", Body=in_blocks(text))
    world.s3.put_object(Bucket=BUCKET, Key="in/3.csv", Body=plain)
    if continued:
        monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 600)
        monkeypatch.setattr("ddbload.reading.open_sources.READ_WHOLE_BYTES", 0)
        world.s3.faults.decide = lambda operation, _: (
            Fault(before=lambda: world.clock.sleep(1.0)) if operation == "get_object" else None
        )
    world.preflight(10.0)
    assert len(world.manifest) > 8
    world.import_all()
    # None for the object that is not compressed.
    begin_of_plain = sum(len(text) - len(HEADER) for text in texts)
    seek = [int(name.removesuffix(".json").rpartition("/")[2]) for name in world.in_ledger("seek")]
    assert len(seek) > 4
    assert max(seek) < begin_of_plain
    whole = HEADER + b"".join(text.removeprefix(HEADER) for text in [*texts, plain])
    assert_loaded(world, whole)


def test_end_of_a_part_of_an_object_is_proven():
    """A cut that is no row's end is found, though the object's size is not known there."""
    world = World(PACKED["gzip"], source={"key": None, "prefix": "in/"}, options=MANY)
    world.preflight()
    first = world.manifest[0]
    name = f"parts/{first.start}-{first.end}.json"
    (part,) = world.read_json(name)["parts"]
    assert part["base"] + part["size"] > first.end
    value = world.read_json("manifest.json")
    value[0]["chunks"][0]["end"] -= 5
    stamp = {key: world.read_json(name)[key] for key in ("run", "configuration")}
    world.write_json("manifest.json", value)
    world.write_json(f"parts/{first.start}-{first.end - 5}.json", {"parts": [part], **stamp})
    with pytest.raises(errors.SplitMismatch):
        world.import_step(world.manifest[0])


def test_seek_point_of_another_run_is_refused():
    world = World(PACKED["gzip"], options=MANY)
    world.preflight()
    second = world.manifest[1]
    value = world.read_json(f"seek/{second.start}.json")
    for change in ({"run": "run-2"}, {"configuration": "0" * 64}, {"bits": 9}):
        world.write_json(f"seek/{second.start}.json", {**value, **change})
        with pytest.raises(errors.LedgerDamaged, match=f"seek/{second.start}.json"):
            world.import_step(second)


def test_damaged_gzip_is_refused_before_any_write():
    packed = bytearray(PACKED["gzip"])
    packed[-6] ^= 1
    world = World(bytes(packed), options=MANY)
    with pytest.raises(errors.DamagedCompression, match="incorrect data check"):
        world.preflight()
    assert world.manifest == ()
    assert world.items == []


# Empty objects.


@pytest.mark.parametrize("name", ["in/x.csv.gz", "in/x.GZ", "x.bgz", "x.json.gzip", "x.zst"])
def test_empty_object_with_the_name_of_compressed_data_is_refused(name):
    world = World(b"", source={"key": name})
    world.s3.put_object(Bucket=BUCKET, Key=name, Body=b"")
    with pytest.raises(
        errors.DamagedCompression, match=r"not valid (gzip|zstd): the file is empty"
    ):
        world.preflight()
    assert world.beyond_request == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0" * 9, "it begins with zero bytes"),
        (b"\x1f", "it ends after byte 1"),
        (b"\x28\xb5\x2f", "it ends after byte 3"),
    ],
)
def test_object_that_was_not_written_to_its_end_is_no_text(content, words):
    """Without a header it would be a row of these bytes."""
    files = {"0.csv.gz": gzip.compress(b"1\n"), "1.csv.gz": content}
    source = {"format": "csv", "header": False, "columns": ["id"]}
    world = ManyObjects(files=files, source=source)
    with pytest.raises(errors.DamagedCompression, match=f"1.csv.gz: not valid gzip: {words}"):
        world.preflight()
    assert world.manifest == ()


@pytest.mark.parametrize("text", [b"", b"id\n", b"\n\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("scan", ["whole", "edges"])
def test_source_without_rows_succeeds_and_warns(text, pack, scan):
    said: list[str] = []
    world = World(pack(text), source={"format": "csv"}, options={"scan": scan})
    world.preflight()
    world.import_all()
    context = world.context()
    context.notice = said.append
    made = report_execution(ReportTask(RUN), context)
    assert isinstance(made, ExecutionOutput)
    assert (made.status, made.rows.read) == ("SUCCEEDED", 0)
    (notice,) = (each for each in said if "no rows" in each)
    assert "check that it is the one you mean" in notice


# A limit that changes.

EXPANDING = gzip.compress(b"id,a\n0,%s\n" % random.Random(1).randbytes(900).hex().encode())
EXPANDING += gzip.compress(b"".join(b"%d,%s\n" % (row, b"y" * 200) for row in range(1, 60)))
"""What is read of it for its header expands little."""


@pytest.fixture
def no_allowance(monkeypatch):
    for module in (compression, decoded_source):
        monkeypatch.setattr(module, "EXPANSION_ALLOWANCE_BYTES", 10)


@pytest.mark.usefixtures("no_allowance")
def test_object_longer_than_its_range_leaves_out_no_row_of_the_next():
    """By edges a range is as long as the limit allows when preflight reserves it."""
    files = {"0.csv.gz": EXPANDING, "1.csv.gz": gzip.compress(b"id,a\nlast,z\n")}
    source = {"format": "csv", "max_expansion": 3}
    world = ManyObjects(files=files, source=source, options={"scan": "edges"})
    world.preflight()
    world.source = {**world.source, "max_expansion": 1000}
    world.preflight()
    with pytest.raises(errors.ExpansionTooLarge, match="start a new run"):
        world.run()
