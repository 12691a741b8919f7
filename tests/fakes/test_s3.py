"""FakeS3 beyond the contract: AWS's rules and faults."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tests.fakes.client import read_timeout, unreachable
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

TEN = b"0123456789"


@pytest.fixture
def s3() -> FakeS3:
    made = FakeS3()
    made.create_bucket(Bucket="b")
    made.put_object(Bucket="b", Key="k", Body=TEN)
    return made


def test_malformed_range_is_ignored(s3):
    for header in ("5-", "5-7", "bytes 5-7", "rows=1-2", "bytes=7-5", "bytes=1-2,4-5"):
        response = s3.get_object(Bucket="b", Key="k", Range=header)
        assert response["Body"].read() == TEN
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_head_error_has_a_status_and_no_code(s3):
    with pytest.raises(ClientError) as raised:
        s3.head_object(Bucket="no-bucket", Key="k")
    assert raised.value.response["Error"]["Code"] == "404"


def test_unknown_parameters_are_refused(s3):
    with pytest.raises(TypeError, match="PartNumber"):
        s3.get_object(Bucket="b", Key="k", PartNumber=1)


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (slow_down(), ClientError, "SlowDown"),
        (internal_error(), ClientError, "InternalError"),
        (Fault(raises=unreachable()), EndpointConnectionError, None),
        (Fault(raises=read_timeout()), ReadTimeoutError, None),
    ],
)
@pytest.mark.parametrize("landed", [False, True])
def test_failing_responses_raise(s3, fault, error, code, landed):
    s3.faults.add("put_object", None, Fault(raises=fault.raises, landed=landed))
    s3.put_object(Bucket="b", Key="other", Body=b"")
    with pytest.raises(error) as raised:
        s3.put_object(Bucket="b", Key="k", Body=b"new")
    if code:
        assert raised.value.response["Error"]["Code"] == code
    assert s3.get_object(Bucket="b", Key="k")["Body"].read() == (b"new" if landed else TEN)
    assert s3.faults.left() == {}


@pytest.mark.parametrize("max_read", [None, 1, 3])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ends_after(4), IncompleteReadError),
        (resets_after(4), ResponseStreamingError),
        (stalls_after(4), ReadTimeoutError),
        (Fault(cut_after=4, cut_with=ConnectionResetError()), ConnectionResetError),
    ],
)
def test_broken_body_raises(s3, max_read, fault, error):
    s3.max_read = max_read
    s3.faults.add("get_object", fault)
    body = s3.get_object(Bucket="b", Key="k", Range="bytes=1-8")["Body"]
    read: list[bytes] = []
    with pytest.raises(error):
        read.extend(body.iter_chunks(3))
    assert TEN[1:5].startswith(b"".join(read))
    assert s3.get_object(Bucket="b", Key="k")["Body"].read() == TEN


def test_truncated_body_ends_silently(s3):
    s3.faults.add("get_object", ends_silently_after(4))
    response = s3.get_object(Bucket="b", Key="k")
    assert (response["ContentLength"], response["Body"].read()) == (10, b"0123")


def test_short_reads_return_fewer_bytes(s3):
    s3.max_read = 3
    body = s3.get_object(Bucket="b", Key="k")["Body"]
    assert [body.read(8) for _ in range(5)] == [b"012", b"345", b"678", b"9", b""]
    assert s3.get_object(Bucket="b", Key="k")["Body"].read() == TEN


def test_ignored_range_returns_the_whole_object(s3):
    s3.faults.add("get_object", Fault(ignore_range=True))
    response = s3.get_object(Bucket="b", Key="k", Range="bytes=5-6")
    assert response["Body"].read() == TEN
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "ContentRange" not in response


def test_object_is_overwritten_between_two_calls(s3):
    etag = s3.head_object(Bucket="b", Key="k")["ETag"]
    overwrite = Fault(before=lambda: s3.put_object(Bucket="b", Key="k", Body=b"new"))
    s3.faults.add("get_object", None, overwrite)
    s3.get_object(Bucket="b", Key="k", IfMatch=etag)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.get_object(Bucket="b", Key="k", IfMatch=etag)


def test_faults_are_decided_by_call(s3):
    s3.faults.decide = lambda _operation, params: slow_down() if params["Key"] == "k" else None
    s3.put_object(Bucket="b", Key="other", Body=b"")
    with pytest.raises(ClientError, match="SlowDown"):
        s3.get_object(Bucket="b", Key="k")


def test_open_bodies_are_detected(s3):
    for close in (False, True):
        body = s3.get_object(Bucket="b", Key="k")["Body"]
        body.read(2)
        if close:
            body.close()
    s3.get_object(Bucket="b", Key="k")["Body"].read()
    assert len(s3.open_bodies()) == 1


def test_calls_are_recorded(s3):
    s3.get_object(Bucket="b", Key="k", Range="bytes=0-1")
    assert [call.operation for call in s3.calls] == ["create_bucket", "put_object", "get_object"]
    assert s3.calls[2].params == {"Bucket": "b", "Key": "k", "Range": "bytes=0-1"}
