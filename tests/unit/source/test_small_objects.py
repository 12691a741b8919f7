"""Many objects and listings through a fake client, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import ServiceUnavailable, SourceChanged, SourceNotFound
from ddbload.source.s3_listing.list_objects import list_objects
from ddbload.source.s3_requests import pinned_version, read_ranges, whole_object
from tests.fakes.s3 import FakeS3
from tests.fakes.s3_faults import ends_after, resets_after, slow_down


@pytest.fixture
def s3() -> FakeS3:
    made = FakeS3(max_read=7)
    for bucket in ("b", "other"):
        made.create_bucket(Bucket=bucket)
        for number in range(20):
            made.put_object(Bucket=bucket, Key=f"{number:02d}", Body=f"{bucket}{number}" * number)
    return made


def pinned(s3: FakeS3, *buckets: str) -> list[Any]:
    return [
        pinned_version(bucket, each.key, each.etag, each.size)
        for bucket in buckets or ("b",)
        for each in list_objects(s3, bucket)  # type: ignore[arg-type]
    ]


def read(s3: Any, wanted: Any, **how: Any) -> list[bytes]:
    ranges = map(whole_object, wanted)
    return list(read_ranges(ranges, s3, retry_policy=RetryPolicy(sleep=lambda _: None), **how))


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("ahead", [0, 10, 10**6])
def test_objects_are_returned_in_order(s3, concurrency, ahead, monkeypatch):
    monkeypatch.setattr("ddbload.source.s3_requests.BYTES_AHEAD", ahead)
    wanted = pinned(s3, "b", "other", "b")
    found = read(s3, wanted, concurrency=concurrency)
    bodies = [b"%s%d" % (bucket, n) * n for bucket in (b"b", b"other", b"b") for n in range(20)]
    assert found == bodies
    assert not s3.open_bodies()


def test_broken_bodies_are_continued(s3):
    s3.faults.add("get_object", ends_after(3), None, resets_after(9), slow_down(), times=8)
    assert read(s3, pinned(s3)) == [b"b%d" % n * n for n in range(20)]
    assert s3.faults.left() == {}


def test_errors_are_named(s3):
    wanted = pinned(s3)
    s3.put_object(Bucket="b", Key="07", Body=b"new")
    with pytest.raises(SourceChanged, match="s3://b/07 was overwritten"):
        read(s3, wanted)
    s3.faults.add("get_object", slow_down(), times=99)
    with pytest.raises(ServiceUnavailable, match="reading s3://b/01"):
        read(s3, wanted, concurrency=1)
    with pytest.raises(SourceNotFound, match="s3://no: no such bucket"):
        list(list_objects(s3, "no"))


def test_list_objects_skips_keys_that_a_store_returns_despite_start_after(s3):
    class IgnoringStartAfter:
        def list_objects_v2(self, StartAfter: str, **parameters: Any) -> Any:  # noqa: N803
            assert StartAfter == "05"
            return s3.list_objects_v2(**parameters)

    client: Any = IgnoringStartAfter()
    keys = [each.key for each in list_objects(s3, "b")]
    assert "05" in keys
    assert [each.key for each in list_objects(client, "b", after="05")] == [
        key for key in keys if key > "05"
    ]
