"""Byte sources: files and objects behave the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import SourceChanged, SourceNotFound
from ddbload.source import s3_object as s3_module
from ddbload.source.decoding.decoded_source import ByteSource
from ddbload.source.local_file import open_local
from ddbload.source.s3_object import S3Object, open_s3
from tests.contract.conftest import S3_SERVERS, s3_server
from tests.fakes.s3 import FakeS3

DATA = bytes(range(256)) * 4


class FilePlace:
    """A file as a source."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._puts = 0

    def put(self, data: bytes) -> None:
        self._path.write_bytes(data)
        # As if each write came a second later: file systems' clocks are coarse.
        self._puts += 1
        os.utime(self._path, ns=(0, self._puts * 10**9))

    def remove(self) -> None:
        self._path.unlink()

    def open(self) -> ByteSource:
        return open_local(str(self._path))

    def reopen(self, pinned: Mapping[str, Any]) -> ByteSource:
        return open_local(str(self._path), pinned)


class ObjectPlace:
    """An S3 object as a source."""

    def __init__(self, s3: Any, *, versioned: bool = False) -> None:
        self._s3 = s3
        s3.create_bucket(Bucket="bucket")
        if versioned:
            s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})

    def put(self, data: bytes) -> None:
        self._s3.put_object(Bucket="bucket", Key="a key", Body=data)

    def remove(self) -> None:
        self._s3.delete_object(Bucket="bucket", Key="a key")

    def open(self) -> ByteSource:
        return open_s3(self._s3, "bucket", "a key", retry_policy=RetryPolicy(sleep=_no_sleep))

    def reopen(self, pinned: Mapping[str, Any]) -> ByteSource:
        return S3Object(self._s3, pinned, retry_policy=RetryPolicy(sleep=_no_sleep))


Place = FilePlace | ObjectPlace


def _no_sleep(_: float) -> None:
    pytest.fail("nothing failed that could be tried again")


@pytest.fixture
def _small_ranges(monkeypatch) -> None:
    monkeypatch.setattr(s3_module, "RANGE_BYTES", 100)


@pytest.fixture(params=["file", *S3_SERVERS])
def place(request, tmp_path, _small_ranges) -> Iterator[Place]:
    """Source without versions."""
    if request.param == "file":
        yield FilePlace(tmp_path / "a file")
    elif request.param == "fake":
        yield ObjectPlace(FakeS3(max_read=7))
    else:
        with s3_server(request.param, request) as client:
            yield ObjectPlace(client)


@pytest.fixture
def versioned(s3, _small_ranges) -> Place:
    """Source with versions."""
    return ObjectPlace(s3, versioned=True)


def read(source: ByteSource, start: int, end: int, piece_bytes: int) -> bytes:
    pieces = list(source.stream(start, end, piece_bytes))
    assert all(1 <= len(piece) <= piece_bytes for piece in pieces)
    return b"".join(pieces)


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 101, 5000])
@pytest.mark.parametrize(
    ("start", "end"), [(0, 1024), (0, 1), (1023, 1024), (99, 101), (100, 200), (5, 5), (1024, 1024)]
)
def test_stream_returns_exactly_the_range(place, start, end, piece_bytes):
    place.put(DATA)
    source = place.open()
    assert source.size == 1024
    assert read(source, start, end, piece_bytes) == DATA[start:end]
    source.close()


def test_pinned_version_opens_after_json(place):
    place.put(DATA)
    first = place.open()
    again = place.reopen(json.loads(json.dumps(dict(first.pinned))))
    assert again.size == first.size
    assert again.name == first.name
    assert dict(again.pinned) == dict(first.pinned)
    assert read(again, 10, 500, 64) == DATA[10:500]
    first.close()
    again.close()


@pytest.mark.parametrize("data", [DATA[::-1], DATA + b"x", DATA[:-1], b""])
def test_other_content_is_not_read_for_the_pinned_version(place, data):
    place.put(DATA)
    source = place.open()
    pinned = source.pinned
    place.put(data)
    with pytest.raises(SourceChanged, match="a"):
        list(source.stream(0, 1024, 100))
    with pytest.raises(SourceChanged, match="start a new run"):
        list(place.reopen(pinned).stream(500, 600, 100))
    source.close()


def test_removed_source_is_reported(place):
    place.put(DATA)
    source = place.open()
    pinned = source.pinned
    source.close()
    place.remove()
    with pytest.raises((SourceChanged, SourceNotFound)):
        list(place.reopen(pinned).stream(0, 10, 10))
    with pytest.raises(SourceNotFound, match="no such"):
        place.open()


@pytest.mark.parametrize("data", [DATA[::-1], DATA * 2, DATA[:500], b""])
@pytest.mark.parametrize("after", [1, 5, 50])
def test_change_while_reading_gives_no_mixture(place, data, after):
    place.put(DATA)
    source = place.open()
    stream = source.stream(0, 1024, 10)
    found = [next(stream) for _ in range(after)]
    place.put(data)
    with pytest.raises(SourceChanged):
        found.extend(stream)
    assert DATA.startswith(b"".join(found))
    source.close()


def test_pinned_object_version_stays_readable(versioned):
    versioned.put(DATA)
    source = versioned.open()
    versioned.put(b"another")
    assert read(source, 0, 1024, 64) == DATA
    versioned.remove()
    assert read(versioned.reopen(source.pinned), 0, 1024, 64) == DATA
    with pytest.raises(SourceNotFound):
        versioned.open()


# What only S3 can be asked for.


@pytest.mark.parametrize(
    ("bucket", "key"), [("nowhere", "k"), ("bucket", "nothing"), ("bucket", "k/")]
)
def test_missing_source_is_reported(s3, bucket, key):
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")
    with pytest.raises(SourceNotFound, match=f"s3://{bucket}/{key}: no such object"):
        open_s3(s3, bucket, key)


def test_deleted_or_unknown_version_is_reported(s3):
    s3.create_bucket(Bucket="bucket")
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket="bucket", Key="k", Body=b"x")["VersionId"]
    s3.put_object(Bucket="bucket", Key="k", Body=b"y")
    s3.delete_object(Bucket="bucket", Key="k", VersionId=first)
    with pytest.raises(SourceNotFound, match="in version"):
        open_s3(s3, "bucket", "k", version_id=first)
    marker = s3.delete_object(Bucket="bucket", Key="k")["VersionId"]
    with pytest.raises(SourceNotFound):
        open_s3(s3, "bucket", "k", version_id=marker)
