"""Parts in folders and buckets appear all at once, or not at all."""

from __future__ import annotations

import gzip
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ddbload.aws.retry import RetryPolicy
from ddbload.convert.sharded_sink import BucketShards, FolderShards, ShardedSink
from ddbload.errors import AccessDenied, OutputUnwritable
from tests.fakes.client import read_timeout

LINES = [f'{{"Item":{{"id":{{"N":"{number}"}}}}}}' for number in range(1000)]


@pytest.fixture(autouse=True)
def _tidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that no temporary files are left."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield
    assert list((tmp_path / "tmp").iterdir()) == []


class Uploads:
    """Fake S3 client with multipart uploads."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.pending: dict[str, tuple[str, bytes]] = {}
        self.fail: dict[str, list[Exception | None]] = {}
        self.calls: list[str] = []
        self._lock = threading.Lock()

    def _begin(self, operation: str) -> None:
        with self._lock:
            self.calls.append(operation)
            script = self.fail.get(operation, [])
            error = script.pop(0) if script else None
        if error is not None:
            raise error

    def list_objects_v2(self, **asked: Any) -> Any:
        self._begin("list_objects_v2")
        assert asked["MaxKeys"] == 1
        return {"KeyCount": sum(key.startswith(asked["Prefix"]) for key in self.objects)}

    def create_multipart_upload(self, **asked: Any) -> Any:
        self._begin("create_multipart_upload")
        with self._lock:
            upload = str(len(self.calls))
            self.pending[upload] = (asked["Key"], b"")
        return {"UploadId": upload}

    def upload_part(self, **asked: Any) -> Any:
        data = asked["Body"].read()
        self._begin("upload_part")
        with self._lock:
            assert self.pending[asked["UploadId"]][0] == asked["Key"]
            self.pending[asked["UploadId"]] = (asked["Key"], data)
        return {"ETag": f"etag {len(data)}"}

    def complete_multipart_upload(self, **asked: Any) -> Any:
        with self._lock:
            if asked["UploadId"] not in self.pending:
                raise error("NoSuchUpload", 404)
            _, data = self.pending[asked["UploadId"]]
        assert asked["MultipartUpload"] == {
            "Parts": [{"ETag": f"etag {len(data)}", "PartNumber": 1}]
        }
        lost = self.fail.get("answer", [])
        if not lost:
            self._begin("complete_multipart_upload")
        with self._lock:
            self.objects[asked["Key"]] = data
            del self.pending[asked["UploadId"]]
        if lost:
            raise lost.pop()
        return {}

    def abort_multipart_upload(self, **asked: Any) -> Any:
        self._begin("abort_multipart_upload")
        with self._lock:
            if self.pending.pop(asked["UploadId"], None) is None:
                raise error("NoSuchUpload", 404)
        return {}

    def head_object(self, **asked: Any) -> Any:
        return {"ContentLength": len(self.objects[asked["Key"]])}

    def delete_object(self, **asked: Any) -> Any:
        self._begin("delete_object")
        self.objects.pop(asked["Key"], None)
        return {}


def error(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "operation")


def bucket(client: Uploads, prefix: str = "out/") -> BucketShards:
    fake: Any = client
    return BucketShards(fake, "bucket", prefix, retry_policy=RetryPolicy(sleep=lambda _: None))


def sink(target: BucketShards | FolderShards, part_bytes: int = 5000) -> ShardedSink:
    made = ShardedSink(target, compression="gzip", part_bytes=part_bytes)
    for start in range(0, len(LINES), 100):
        text = "\n".join([*LINES[start : start + 100], ""]).encode()
        # A line may come in pieces.
        made.write(text[:50])
        made.write(text[50:])
    return made


def test_sharded_sink_writes_equal_parts_to_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = sink(FolderShards(str(out)))
    assert not out.exists()
    made.finish()
    paths = sorted(out.iterdir())
    total = sum(len(line) + 1 for line in LINES)
    assert [path.name for path in paths] == [
        f"part-{number:05d}.json.gz" for number in range(-(-total // 5000))
    ]
    assert (made.parts, made.bytes) == (len(paths), sum(path.stat().st_size for path in paths))
    parts = [gzip.decompress(path.read_bytes()) for path in paths]
    # About equal, and each of whole lines.
    assert max(map(len, parts)) - min(map(len, parts)) < 60
    found = b"".join(parts).decode().splitlines()
    assert found != LINES
    assert sorted(found) == sorted(LINES)


def test_folder_shards_refuse_folder_with_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    sink(FolderShards(str(out))).finish()
    with pytest.raises(OutputUnwritable, match="exists and is not empty"):
        FolderShards(str(out))
    (tmp_path / "file").touch()
    with pytest.raises(OutputUnwritable, match="exists and is not empty"):
        FolderShards(str(tmp_path / "file"))
    with pytest.raises(OutputUnwritable, match="No such file"):
        FolderShards(str(tmp_path / "no" / "out"))


def test_sharded_sink_removes_everything_when_abandoned(tmp_path: Path) -> None:
    sink(FolderShards(str(tmp_path / "out"))).abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_bucket_shards_appear_when_all_are_uploaded() -> None:
    client = Uploads()
    client.objects["other/part"] = b""
    made = sink(bucket(client))
    made.finish()
    del client.objects["other/part"]
    assert client.pending == {}
    assert sorted(client.objects) == [f"out/part-{n:05d}.json.gz" for n in range(made.parts)]
    found = [gzip.decompress(client.objects[key]) for key in sorted(client.objects)]
    assert sorted(b"".join(found).decode().splitlines()) == sorted(LINES)
    assert made.bytes == sum(map(len, client.objects.values()))
    first = client.calls.index("complete_multipart_upload")
    assert set(client.calls[first:]) == {"complete_multipart_upload"}


@pytest.mark.parametrize("operation", ["create_multipart_upload", "upload_part"])
def test_bucket_shards_leave_nothing_when_upload_fails(operation: str) -> None:
    client = Uploads()
    target = bucket(client)
    made = sink(target)
    client.fail[operation] = [None, None, error("AccessDenied", 403)]
    with pytest.raises(AccessDenied):
        made.finish()
    assert client.objects == {}
    made.abandon()
    assert (client.objects, client.pending) == ({}, {})


def test_bucket_shards_succeed_when_answer_is_lost() -> None:
    client = Uploads()
    made = sink(bucket(client))
    client.fail["answer"] = [read_timeout()]
    made.finish()
    assert len(client.objects) == made.parts
