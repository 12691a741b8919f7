"""S3 objects read through failures of S3 and of the network."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import (
    AccessDenied,
    RequestRefused,
    ServiceUnavailable,
    SourceChanged,
    SourceUnreadable,
)
from ddbload.source import s3_object as s3_module
from ddbload.source.s3_object import S3Object, open_s3
from tests.fakes.client import ServiceError, connect_timeout, read_timeout, unreachable
from tests.fakes.s3 import FakeS3
from tests.fakes.s3_faults import (
    Fault,
    ends_after,
    ends_silently_after,
    internal_error,
    resets_after,
    slow_down,
    stalls_after,
)

DATA = bytes(range(256)) * 2
BREAKS: list[Callable[[int], Fault]] = [ends_after, ends_silently_after, resets_after, stalls_after]
AGAIN = [
    slow_down(),
    internal_error(),
    Fault(raises=ServiceError("ServiceUnavailable", 503)),
    Fault(raises=ServiceError("RequestTimeout", 400)),
    Fault(raises=ServiceError("TooManyRequestsException", 429)),
    Fault(raises=ServiceError("BadGateway", 502)),
    Fault(raises=read_timeout()),
    Fault(raises=connect_timeout()),
    Fault(raises=unreachable()),
]


class Bucket:
    """One object, and the pauses of its reader."""

    def __init__(self, data: bytes = DATA, **how: Any) -> None:
        self.s3 = FakeS3(**how)
        self.s3.create_bucket(Bucket="b")
        self.s3.put_object(Bucket="b", Key="k", Body=data)
        self.slept: list[float] = []
        self.rng = random.Random(1)

    def put(self, data: bytes) -> None:
        self.s3.put_object(Bucket="b", Key="k", Body=data)

    def open(self, client: Any = None, **which: Any) -> S3Object:
        policy = RetryPolicy(sleep=self.slept.append, rng=self.rng)
        return open_s3(client or self.s3, "b", "k", retry_policy=policy, **which)

    def gets(self) -> list[dict[str, Any]]:
        return [call.params for call in self.s3.calls if call.operation == "get_object"]


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch) -> None:
    monkeypatch.setattr(s3_module, "RANGE_BYTES", 100)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def read(source: S3Object, start: int = 0, end: int = 512, piece_bytes: int = 30) -> bytes:
    return b"".join(source.stream(start, end, piece_bytes))


def test_get_has_a_bounded_range_and_if_match(bucket):
    source = bucket.open()
    assert read(source, 20, 350) == DATA[20:350]
    etag = source.pinned["etag"]
    assert [(get["Range"], get["IfMatch"]) for get in bucket.gets()] == [
        ("bytes=20-119", etag),
        ("bytes=120-219", etag),
        ("bytes=220-319", etag),
        ("bytes=320-349", etag),
    ]
    assert all("VersionId" not in get for get in bucket.gets())
    assert bucket.slept == []


def test_get_names_the_version(bucket):
    bucket.s3.put_bucket_versioning(Bucket="b", VersioningConfiguration={"Status": "Enabled"})
    bucket.put(DATA)
    source = bucket.open()
    read(source)
    version = source.pinned["version_id"]
    assert version
    assert {get["VersionId"] for get in bucket.gets()} == {version}


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("after", [0, 1, 29, 30, 31, 99])
def test_broken_body_is_continued_where_it_broke(bucket, broken, after):
    bucket.s3.faults.add("get_object", None, broken(after), None, broken(after))
    assert read(bucket.open()) == DATA
    assert not bucket.s3.faults.left()
    assert not bucket.s3.open_bodies()
    assert len(bucket.slept) == 2


@given(
    st.lists(st.tuples(st.sampled_from(BREAKS), st.integers(0, 110)) | st.none(), max_size=25),
    st.integers(0, 512),
    st.integers(0, 512),
    st.integers(1, 120),
)
def test_each_byte_is_returned_exactly_once(breaks, start, end, piece_bytes):
    bucket = Bucket()
    for place, broken in enumerate(breaks):
        fault = None if broken is None else broken[0](broken[1])
        # Six failed attempts in a row are an error, so each sixth attempt succeeds.
        bucket.s3.faults.add("get_object", fault, *[None] * (place % 5 == 4))
    start, end = min(start, end), max(start, end)
    pieces = list(bucket.open().stream(start, end, piece_bytes))
    assert b"".join(pieces) == DATA[start:end]
    assert all(0 < len(piece) <= piece_bytes for piece in pieces)


@pytest.mark.parametrize("fault", AGAIN)
def test_transient_failure_is_repeated(bucket, fault):
    source = bucket.open()
    bucket.s3.faults.add("get_object", fault, times=5)
    assert read(source) == DATA
    assert len(bucket.slept) == 5


@pytest.mark.parametrize("status", [403, 401])
def test_denied_read_is_not_repeated(bucket, status):
    denied = Fault(raises=ServiceError("AccessDenied", status, "Access Denied"))
    source = bucket.open()
    bucket.s3.faults.add("get_object", denied)
    with pytest.raises(AccessDenied, match="s3://b/k from byte 0"):
        read(source)
    bucket.s3.faults.add("head_object", Fault(raises=ServiceError("403", status, "Forbidden")))
    with pytest.raises(AccessDenied, match="s3://b/k"):
        bucket.open()
    assert bucket.slept == []


def test_refused_request_is_reported(bucket):
    source = bucket.open()
    moved = Fault(raises=ServiceError("PermanentRedirect", 301, "another endpoint"))
    bucket.s3.faults.add("get_object", moved)
    with pytest.raises(RequestRefused, match="PermanentRedirect"):
        read(source)


def test_object_with_its_writers_key_is_reported(bucket):
    """By "Specifying server-side encryption with customer-provided keys (SSE-C)".

    S3 answers such a GET with InvalidRequest, and a HEAD with 400 and no body.
    """
    text = "The object was stored using a form of Server Side Encryption. The correct parameters"
    refused = Fault(raises=ServiceError("InvalidRequest", 400, text))
    source = bucket.open()
    bucket.s3.faults.add("get_object", refused)
    with pytest.raises(SourceUnreadable, match=r"s3://b/k: .*SSE-C"):
        read(source)
    bucket.s3.faults.add("head_object", Fault(raises=ServiceError("400", 400, "Bad Request")))
    with pytest.raises(RequestRefused, match=r"s3://b/k: 400: .*SSE-C.*or the credentials"):
        bucket.open()


def test_forbidden_object_says_what_may_be_missing(bucket):
    bucket.s3.faults.add("head_object", Fault(raises=ServiceError("403", 403, "Forbidden")))
    with pytest.raises(AccessDenied, match=r"s3:ListBucket .* kms:Decrypt .* --requester-pays"):
        bucket.open()


# Servers that ignore parts of the request.


@pytest.mark.parametrize(("start", "end"), [(0, 100), (100, 200), (1, 512)])
def test_part_is_refused_from_a_server_without_ranges(monkeypatch, start, end):
    monkeypatch.setattr(s3_module, "RANGE_BYTES", 1000)
    bucket = Bucket()
    source = bucket.open()
    bucket.s3.faults.add("get_object", Fault(ignore_range=True), times=20)
    with pytest.raises(ServiceUnavailable, match="not the range"):
        read(source, start, end)
    assert not bucket.s3.open_bodies()


class Changed:
    """Client that changes the parameters and the responses of GetObject."""

    def __init__(
        self,
        s3: FakeS3,
        ask: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params,
        answer: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> None:
        self._s3, self._ask, self._answer = s3, ask, answer

    def head_object(self, **params: Any) -> Any:
        return self._s3.head_object(**params)

    def get_object(self, **params: Any) -> Any:
        return self._answer(self._s3.get_object(**self._ask(params)))


@pytest.mark.parametrize("given", ["bytes 1-100/512", "bytes 0-98/512", "bytes 0-99", "0-99/512"])
def test_another_range_is_refused(bucket, given):
    client = Changed(bucket.s3, answer=lambda answer: answer | {"ContentRange": given})
    with pytest.raises(ServiceUnavailable, match="not the range"):
        read(bucket.open(client))


# Versions.


@pytest.mark.parametrize("data", [DATA[::-1], DATA + b"x", DATA[:50], b""])
@pytest.mark.parametrize("number", [0, 1, 5])
def test_overwrite_between_reads_is_a_change(bucket, data, number):
    bucket.s3.faults.add("get_object", *[None] * number, Fault(before=lambda: bucket.put(data)))
    found: list[bytes] = []
    with pytest.raises(SourceChanged, match="overwritten"):
        found.extend(bucket.open().stream(0, 512, 30))
    assert b"".join(found) == DATA[: number * 100]


@pytest.mark.parametrize("versioned", [True, False])
def test_deletion_is_a_change(bucket, versioned):
    version = {}
    if versioned:
        bucket.s3.put_bucket_versioning(Bucket="b", VersioningConfiguration={"Status": "Enabled"})
        bucket.put(DATA)
        version = {"VersionId": bucket.open().pinned["version_id"]}
    source = bucket.open()
    stream = source.stream(0, 512, 100)
    next(stream)
    bucket.s3.delete_object(Bucket="b", Key="k", **version)
    with pytest.raises(SourceChanged, match="gone"):
        next(stream)


@pytest.mark.parametrize("code", ["NoSuchKey", "NoSuchVersion", "NoSuchBucket", "MethodNotAllowed"])
def test_each_error_code_of_a_missing_object_is_a_change(bucket, code):
    source = bucket.open()
    bucket.s3.faults.add("get_object", Fault(raises=ServiceError(code, 404)))
    with pytest.raises(SourceChanged, match="gone"):
        read(source)


@pytest.mark.parametrize(
    ("code", "status"), [("PreconditionFailed", 412), ("InvalidRange", 416), ("", 412), ("", 416)]
)
def test_each_error_code_of_an_overwritten_object_is_a_change(bucket, code, status):
    source = bucket.open()
    bucket.s3.faults.add("get_object", Fault(raises=ServiceError(code, status)))
    with pytest.raises(SourceChanged, match="overwritten"):
        read(source)


# Connections.


def test_abandoned_reader_closes_its_body(bucket):
    stream = bucket.open().stream(0, 512, 30)
    next(stream)
    stream.close()
    assert not bucket.s3.open_bodies()


@pytest.mark.parametrize(
    ("told", "archived"),
    [
        ({"StorageClass": "GLACIER"}, True),
        ({"StorageClass": "DEEP_ARCHIVE", "Restore": 'ongoing-request="true"'}, True),
        ({"StorageClass": "INTELLIGENT_TIERING", "ArchiveStatus": "ARCHIVE_ACCESS"}, True),
        ({"StorageClass": "GLACIER", "Restore": 'ongoing-request="false", expiry-date="x"'}, False),
        ({"StorageClass": "GLACIER_IR"}, False),
        ({"StorageClass": "STANDARD_IA"}, False),
    ],
)
def test_archived_object_is_reported(told, archived):
    """S3 reports an archived object as forbidden."""

    class Heads:
        def head_object(self, **_: Any) -> dict[str, Any]:
            return {"ETag": '"e"', "ContentLength": 1, **told}

    client: Any = Heads()
    if archived:
        with pytest.raises(SourceUnreadable, match="restore it first"):
            open_s3(client, "b", "k")
    else:
        assert open_s3(client, "b", "k").size == 1
