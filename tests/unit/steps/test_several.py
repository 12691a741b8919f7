"""Several objects are read as one: every row once, wherever chunks and invocations end."""

from __future__ import annotations

import gzip
import random

import pytest

from ddbload import errors
from tests.unit.steps.chaos import Chaos, plan
from tests.unit.steps.many_files import HEADER, assert_imported, expected, files_of, found
from tests.unit.steps.worlds import ManyObjects


@pytest.mark.parametrize("seed", range(16))
def test_rows_are_counted_once_when_functions_die_or_run_twice(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr("ddbload.rows.blocks.BLOCK_BYTES", 32)
    monkeypatch.setattr("ddbload.steps.chunker.BLOCK_BYTES", 32)
    monkeypatch.setattr("ddbload.steps.chunker.MAX_OBJECTS", rng.choice((2, 400)))
    # Moments come one after the other, not from several threads.
    monkeypatch.setattr("ddbload.steps.chunker._WRITES_AHEAD", 0)
    monkeypatch.setattr("ddbload.reading.open_sources.READ_WHOLE_BYTES", rng.choice((0, 50, 10**6)))
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", rng.choice((2, 1000)))
    files = files_of(seed, 8, compressed=rng.random() < 0.5)
    world = ManyObjects(files=files, options={"chunk_bytes": rng.choice((20, 200, 10**6))})
    chaos = Chaos(world, plan(rng.randbytes(1 + 3 * 16)))
    report = chaos.conclude()
    assert_imported(files, world, report)


def test_small_objects_share_chunks_and_large_ones_are_cut(monkeypatch):
    monkeypatch.setattr("ddbload.steps.chunker.MAX_OBJECTS", 30)
    small = {f"a{number:03d}.csv": HEADER + b"%d,x\n" % number for number in range(100)}
    large = {"b.csv": HEADER + b"".join(b"b%d,x\n" % row for row in range(1000))}
    world = ManyObjects(files=small | large, options={"chunk_bytes": 2000})
    world.run()
    chunks = world.manifest
    parts = [world.ledger.slices(chunk) for chunk in chunks]
    assert [len(each) for each in parts[:4]] == [30, 30, 30, 10]
    assert all(len(each) == 1 for each in parts[4:])
    assert len(chunks) == 8
    assert found(world) == expected(small | large)


def test_errors_name_object_and_position_within_it():
    world = ManyObjects(files={"1.csv": HEADER + b"1,x\n", "2.csv": HEADER + b'2,"x\n'})
    words = r"s3://bucket/many/2\.csv: the row at line 2, byte 5 has a quoted field"
    with pytest.raises(errors.UnterminatedQuote, match=words):
        world.preflight()


@pytest.mark.parametrize("first", [gzip.compress(b"", mtime=0), b"\xef\xbb\xbf", b"\n\r\n"])
@pytest.mark.parametrize("format_", ["csv", "auto"])
def test_columns_are_those_of_first_object_with_rows(first, format_):
    files = {"0.csv": first, "1.csv": first, "2.csv": b"id;a\n1;x\n", "3.csv": first}
    source = {"format": format_, "delimiter": ";" if format_ == "csv" else "auto"}
    world = ManyObjects(files=files, source=source)
    assert world.run().rows.written == 1
    assert world.items == [{"id": {"S": "1"}, "a": {"S": "x"}}]
    assert world.preflight().cursor is None


def test_empty_prefix_raises_source_not_found():
    with pytest.raises(errors.SourceNotFound, match="s3://bucket/many/: no object"):
        ManyObjects(files={"1.csv": b"", "folder/": b""}).preflight()
