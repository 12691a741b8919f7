"""Sinks that write streams and files."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
import zstandard

from ddbload.convert.convert import OutputOptions, open_sink
from ddbload.convert.sharded_sink import ShardedSink
from ddbload.convert.sinks import INCOMPLETE, FileSink, Sink, StreamSink
from tests.unit.steps.world import World

DATA = '{"Item":{"id":{"S":"é"}}}\n{"Item":{}}\n'.encode()


def write(sink: Sink) -> Sink:
    """Write the lines piece by piece."""
    first, rest = DATA.splitlines(keepends=True)
    for piece in (first, b"", rest):
        sink.write(piece)
    return sink


def test_stream_sink_writes_lines() -> None:
    stream = io.BytesIO()
    sink = write(StreamSink(stream, "stream"))
    assert stream.getvalue() == DATA
    sink.finish()
    assert (stream.getvalue(), sink.bytes, sink.parts) == (DATA, len(DATA), 0)


def test_stream_sink_writes_incomplete_mark_when_abandoned() -> None:
    stream = io.BytesIO()
    write(StreamSink(stream, "stream")).abandon()
    assert stream.getvalue() == DATA + INCOMPLETE


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("out.json", bytes),
        ("out.json.gz", gzip.decompress),
        ("OUT.GZ", gzip.decompress),
        ("out.zst", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ],
)
def test_file_sink_compresses_by_file_name(tmp_path: Path, name: str, read: object) -> None:
    path = tmp_path / name
    sink = write(FileSink(str(path)))
    # Nothing is there before all is.
    assert not path.exists()
    sink.finish()
    assert callable(read)
    assert read(path.read_bytes()) == DATA
    assert (sink.bytes, sink.parts) == (path.stat().st_size, 1)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_file_sink_keeps_old_file_when_abandoned(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    write(FileSink(str(path))).abandon()
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_file_sink_keeps_permissions_of_replaced_file(tmp_path: Path) -> None:
    path, link = tmp_path / "out.json", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    write(FileSink(str(link))).finish()
    assert path.read_bytes() == DATA
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def test_file_sink_makes_new_file_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(FileSink(str(tmp_path / "new"))).finish()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_open_sink_chooses_sink_by_output(tmp_path: Path) -> None:
    def opened(out: str) -> Sink:
        sink = open_sink(OutputOptions(out, None, 1000), World(b"").context())
        sink.abandon()
        return sink

    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert isinstance(opened(str(tmp_path / "pipe")), StreamSink)
        assert os.read(reader, 100) == INCOMPLETE
    finally:
        os.close(reader)
    assert isinstance(opened(os.devnull), StreamSink)
    assert isinstance(opened(str(tmp_path / "file")), FileSink)
    assert isinstance(opened(str(tmp_path / "new") + "/"), ShardedSink)
    (tmp_path / "folder").mkdir()
    assert isinstance(opened(str(tmp_path / "folder")), ShardedSink)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]
