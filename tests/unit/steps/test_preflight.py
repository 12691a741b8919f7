"""Headers, pinning, and the cutting into chunks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddbload import errors
from ddbload.contracts.run_record import Cursor
from ddbload.rows import blocks
from ddbload.steps import prepare as module
from tests.oracle.csv_machine import read_rows
from tests.unit.steps.world import World
from tests.unit.steps.worlds import SlowReads

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "source", "columns", "start"),
    [
        (b"id,a\n1,2\n", {}, ("id", "a"), (5, 2)),
        (BOM + b"id,a\r\n1,2\n", {}, ("id", "a"), (9, 2)),
        (BOM + b'"id",a\r1,2\n', {}, ("id", "a"), (10, 2)),
        (b"\n\r\n\rid,a\n1,2\n", {}, ("id", "a"), (9, 5)),
        (BOM + b"\n\nid,a\n", {}, ("id", "a"), (10, 4)),
        (b'id,"a\nb"\n1,2\n', {}, ("id", "a\nb"), (9, 3)),
        (b"id,a", {}, ("id", "a"), (4, 1)),
        (b"id,a\n\n\n", {}, ("id", "a"), (5, 2)),
        (b"id\ta\n1\t2\n", {"format": "tsv"}, ("id", "a"), (5, 2)),
        (b"id|a\n1|2\n", {"delimiter": "|"}, ("id", "a"), (5, 2)),
        (b"'id','a'\n1,2\n", {"quote": "'"}, ("id", "a"), (9, 2)),
        (b'id,"a\n1,2\n', {"quote": None}, ("id", '"a'), (6, 2)),
        (b"1,2\n", {"columns": ["id", "b"]}, ("id", "b"), (0, 1)),
        (BOM + b"1,2\n", {"columns": ["id", "b"]}, ("id", "b"), (3, 1)),
        (b"\n\n1,2\n", {"columns": ["id", "b"]}, ("id", "b"), (0, 1)),
        (b"1,2,3,4\n", {"columns": ["id", "b"]}, ("id", "b"), (0, 1)),
        (b'"bad"x\n', {"columns": ["id", "b"]}, ("id", "b"), (0, 1)),
        (b"x,y\n1,2\n", {"columns": ["id", "b"], "header": True}, ("id", "b"), (4, 2)),
        (b"", {}, (), (0, 1)),
        (BOM, {}, (), (3, 1)),
        (b"\n\r\n", {}, (), (3, 1)),
        (b"", {"columns": ["id"]}, ("id",), (0, 1)),
        (BOM + b"\n", {"columns": ["id"], "header": True}, ("id",), (4, 1)),
        (b"", {"header": False}, (), (0, 1)),
    ],
)
def test_header_gives_columns_and_data_start(data, source, columns, start):
    world = World(data, source=source)
    world.preflight()
    record = world.ledger.record()
    assert record.columns == columns
    assert record.data_start == Cursor(*start)
    assert record.size == len(data)


# Pinning.


@pytest.mark.parametrize(
    ("size", "workers", "used"), [(0, 10, 1), (1, 10, 1), (35, 10, 4), (200, 10, 10), (200, 1, 1)]
)
def test_workers_are_at_most_chunks(size, workers, used):
    world = World(b"id\n" + b"1\n" * (size // 2), options={"workers": workers, "chunk_bytes": 10})
    assert world.preflight().workers == used


# Chunks.


def tiles(world: World, delimiter: str = ",", quote: str | None = '"') -> None:
    """Chunks cover everything after the header once, in order, each from a row's start."""
    record = world.ledger.record()
    position = record.data_start.byte
    lines = {row.byte: row.line for row in read_rows(world.data, delimiter, quote)}
    for number, chunk in enumerate(world.manifest):
        assert (chunk.chunk, chunk.start) == (number, position)
        assert chunk.end > chunk.start
        if chunk.start in lines:
            assert chunk.first_line == lines[chunk.start]
        else:
            assert world.data[chunk.start] in b"\r\n"
        position = chunk.end
    assert position == record.size


@pytest.mark.parametrize(("workers", "chunks"), [(1, 1), (2, 2), (50, 3), ("auto", 1)])
def test_local_file_gives_every_process_a_chunk(workers, chunks, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MIN_LOCAL_CHUNK_BYTES", 1000)
    file = tmp_path / "in.csv"
    file.write_bytes(b"id,a\n" + b"1,2345678\n" * 300)
    world = World(b"", options={"workers": workers})
    world.access = type(world.access)(paths=True)
    world.source = {"bucket": None, "key": None, "path": str(file)}
    world.preflight()
    assert len(world.manifest) == chunks
    sizes = [chunk.end - chunk.start for chunk in world.manifest]
    assert max(sizes) - min(sizes) <= 30


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 49, 50, 1000])
def test_chunk_bytes_is_raised_when_there_would_be_too_many_chunks(rows, monkeypatch):
    monkeypatch.setattr(module, "MAX_CHUNKS", 5)
    world = World(b"id,a\n" + b"1,2\n" * rows, options={"chunk_bytes": 1})
    result = world.preflight()
    assert result.chunks == len(world.manifest) <= 5
    assert world.ledger.record().chunk_bytes == max(1, -(-rows * 4 // 5))
    tiles(world)


def test_places_of_many_workers_are_no_more_chunks_than_allowed(monkeypatch):
    monkeypatch.setattr(module, "MAX_CHUNKS", 40)
    monkeypatch.setattr(module, "MIN_CHUNK_BYTES", 1)
    world = World(b"id,a\n" + b"1,2\n" * 1000, options={"chunk_bytes": 400, "workers": 10})
    assert 30 < world.preflight().chunks <= 40
    tiles(world)


# Continuing.


def ticking(data: bytes, chunk_bytes: int) -> SlowReads:
    return SlowReads(data, options={"chunk_bytes": chunk_bytes})


ROWS = b"id,a\n" + b"".join(b'%d,"%s\n"\r\n' % (n, b"x" * (n % 7)) for n in range(120))


@pytest.fixture
def _small_reads(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 32)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 32)
    monkeypatch.setattr("ddbload.source.decoding.decoded_source.FIRST_BYTES", 32)


@pytest.mark.usefixtures("_small_reads")
@pytest.mark.parametrize("chunk_bytes", [1, 20])
@pytest.mark.parametrize("seconds", [0.5, 7.5])
def test_manifest_is_the_same_however_often_preflight_continues(chunk_bytes, seconds):
    whole, world = ticking(ROWS, chunk_bytes), ticking(ROWS, chunk_bytes)
    whole.preflight()
    world.preflight(seconds)
    assert len(world.in_ledger("manifest/")) > 3
    assert world.in_ledger("manifest/")[1:] != whole.in_ledger("manifest/")[1:]
    assert world.manifest == whole.manifest
    assert world.run().rows == whole.run().rows


@pytest.mark.usefixtures("_small_reads")
def test_preflight_raises_no_progress_when_no_row_ends_before_deadline():
    world = ticking(b"id,a\n1," + b"x" * 300 + b"\n", 10)
    with pytest.raises(errors.NoProgress, match="no row's end was found between byte 5"):
        world.preflight(2.5)
    assert world.in_ledger("manifest") == []
    world.preflight(100.0)
    assert len(world.manifest) == 1


# The same run again.


def test_preflight_accepts_existing_run_with_other_limits():
    world = World(ROWS, options={"chunk_bytes": 100, "max_rejects": 0})
    world.preflight()
    manifest = world.manifest
    world.options |= {
        "max_rejects": 5,
        "workers": 2,
        "concurrency": 3,
        "max_wcu": 1000.0,
        "max_row_bytes": 500,
        "engine": "threads",
        "chunk_bytes": 7,
    }
    assert world.preflight().workers == 2
    assert world.manifest == manifest
    options = world.ledger.record().payload.options
    assert (options.max_rejects, options.concurrency, options.max_wcu) == (5, 3, 1000.0)
    assert options.max_row_bytes == 500
    assert world.ledger.record().created == 1000.0


@pytest.mark.parametrize(
    ("source", "types", "named"),
    [
        ({"quote": "'"}, {}, "quote;"),
        ({"format": "tsv", "delimiter": ","}, {}, "format;"),
        ({"columns": ["id", "b"], "header": True}, {}, "columns;"),
        ({"columns": ["id", "a"]}, {}, "header, columns;"),
        ({}, {"a": "N"}, "types;"),
    ],
)
def test_preflight_refuses_existing_run_with_other_dialect(source, types, named):
    world = World(ROWS)
    world.preflight()
    before = dict(world.store.objects)
    world.source, world.types = source, types
    with pytest.raises(errors.RunMismatch, match=f"began with another {named}"):
        world.preflight()
    assert world.store.objects == before


def test_preflight_refuses_existing_run_with_other_version():
    world = World(ROWS)
    world.preflight()
    before = dict(world.store.objects)
    world.overwrite(ROWS + b"121,y\n")
    with pytest.raises(errors.SourceChanged, match="began with another version of s3://bucket"):
        world.preflight()
    assert world.store.objects == before


def test_one_run_begins_of_two_concurrent_with_one_id():
    world = World(ROWS)
    other = World(ROWS + b"121,y\n")
    other.store = world.store
    done = []

    def begin(moment: str, name: str, _data: bytes) -> None:
        if moment in ("put", "put_new") and name.endswith("run.json") and not done:
            done.append(None)
            other.preflight()

    world.store.hook = begin
    with pytest.raises(errors.SourceChanged):
        world.preflight()
    assert world.ledger.record().size == len(other.data)
    world.data = other.data
    tiles(world)


def test_preflight_refuses_cursor_within_row():
    world = World(b"id,n\n" + b"k,1\n" * 40, options={"max_row_bytes": 60})
    first = world.preflight_step(None, world.context(0.0))
    assert first.cursor is not None
    for byte in range(6, first.cursor.byte):
        with pytest.raises(errors.InvalidPayload, match=f"the cursor, byte {byte}, line"):
            world.preflight_step(replace(first.cursor, byte=byte))
    with pytest.raises(errors.InvalidPayload):
        world.preflight_step(replace(first.cursor, line=1))
    assert world.preflight_step(first.cursor).cursor is None


def test_manifest_that_differs_from_its_parts_is_damage():
    world = World(b"id,n\n" + b"k,1\n" * 40, options={"chunk_bytes": 20})
    world.preflight()
    manifest = world.read_json("manifest.json")
    for wrong in (manifest[:-1], [*manifest, manifest[-1]], []):
        world.write_json("manifest.json", wrong)
        with pytest.raises(errors.LedgerDamaged, match="is not what its parts say"):
            world.preflight()
    world.write_json("manifest.json", manifest)
    world.preflight()
