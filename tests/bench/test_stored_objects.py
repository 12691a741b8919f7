"""The fake bucket keeps what is put, counts it, and fails as it is told."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError

from bench.bucket import BUCKET, Bucket
from bench.http_server import read_chunks
from bench.listing import bucket_server, control
from bench.put_request import (
    S3Error,
    bucket_checksum,
    decode_aws_chunks,
    object_digest,
    read_object,
)


@pytest.fixture(scope="module")
def endpoint():
    with bucket_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def client(endpoint):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": 1}, proxies={}, max_pool_connections=20),
    )


@pytest.fixture
def put(client) -> Callable[..., list[Any]]:
    """Function that puts objects by key and body, and returns the answers and errors."""

    def put(objects: dict[str, bytes], workers: int = 1, **more: Any) -> list[Any]:
        def one(key: str) -> Any:
            try:
                return client.put_object(Bucket=BUCKET, Key=key, Body=objects[key], **more)
            except (ClientError, BotoCoreError) as error:
                return error

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, objects))

    return put


def rows(count: int) -> dict[str, bytes]:
    return {f"rows/{number}.json": b'{"number":%d}' % number for number in range(count)}


def checksum_of(objects: dict[str, bytes]) -> str:
    return bucket_checksum(sum(object_digest(key, body) for key, body in objects.items()))


def test_bucket_counts_objects_in_any_order(endpoint, put):
    control(endpoint, "/reset", {})
    put(rows(20))
    found = control(endpoint, "/counters")
    assert (found["stored"], found["puts"], found["overwritten"]) == (20, 20, 0)
    assert (found["checksum"], found["most_in_flight"]) == (checksum_of(rows(20)), 1)
    control(endpoint, "/reset", {})
    put(dict(reversed(rows(20).items())))
    assert control(endpoint, "/counters")["checksum"] == checksum_of(rows(20))
    put({"rows/3.json": b"other"})
    found = control(endpoint, "/counters")
    assert (found["stored"], found["puts"], found["overwritten"]) == (20, 21, 1)
    assert found["checksum"] == checksum_of({**rows(20), "rows/3.json": b"other"})
    assert control(endpoint, "/stored")["rows/3.json"]["body"] == "other"


def test_checksum_tells_keys_from_bodies():
    assert checksum_of({"a": b"bc"}) != checksum_of({"ab": b"c"})
    assert checksum_of({"a": b"1", "b": b"2"}) != checksum_of({"a": b"2", "b": b"1"})


def test_bucket_counts_requests_in_flight(endpoint, put):
    control(endpoint, "/reset", {"latency": 0.2})
    put(rows(8), workers=8)
    # Fewer only if this process could not send eight requests within the latency.
    assert 1 < control(endpoint, "/counters")["most_in_flight"] <= 8


def test_put_replaces_a_generated_object(endpoint, client, put):
    control(endpoint, "/reset", {"objects": 2, "bytes": 5})
    put({"in/part-000001.csv": b"new"})
    found = client.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [(each["Key"], each["Size"]) for each in found] == [
        ("in/part-000000.csv", 5),
        ("in/part-000001.csv", 3),
    ]
    counted = control(endpoint, "/counters")
    assert (counted["stored"], counted["overwritten"]) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [("slow_down", 503, "SlowDown"), ("errors", 500, "InternalError")],
)
def test_bucket_refuses_requests_by_share(endpoint, put, fault, status, code):
    control(endpoint, "/reset", {"faults": {fault: 0.5}})
    refused = [each for each in put(rows(40)) if isinstance(each, ClientError)]
    found = control(endpoint, "/counters")
    assert (found[fault], found["stored"]) == (len(refused), 40 - len(refused))
    assert 5 < len(refused) < 35
    answer = refused[0].response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
    assert answer["Error"]["Code"] == code


def test_bucket_answers_conditional_writes_by_a_conflict(endpoint, put):
    control(endpoint, "/reset", {"faults": {"conflicts": 1}})
    (answer,) = put({"a": b""}, IfNoneMatch="*")
    assert answer.response["Error"]["Code"] == "ConditionalRequestConflict"
    put({"a": b""})
    found = control(endpoint, "/counters")
    assert (found["conflicts"], found["stored"]) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "kept"), [("lost", True), ("reset_after", True), ("reset_before", False)]
)
def test_bucket_breaks_connections_before_and_after_it_stores(endpoint, put, fault, kept):
    control(endpoint, "/reset", {"faults": {fault: 0.5}})
    answers = put(rows(40))
    broken = [each for each in answers if isinstance(each, BotoCoreError)]
    assert 5 < len(broken) < 35
    found = control(endpoint, "/counters")
    assert (found[fault], found["stored"]) == (len(broken), 40 if kept else 40 - len(broken))
    # urllib3 tells an end of the connection from a reset.
    ended = [isinstance(each, ConnectionClosedError) for each in broken]
    assert all(ended)
    reset = ["reset by peer" in str(each.__cause__ or each.kwargs) for each in broken]
    assert all(reset) if fault != "lost" else not any(reset)


def test_bucket_refuses_operations_without_permission(endpoint, client, put):
    control(endpoint, "/reset", {"denied": ["PutObject", "HeadBucket"]})
    (answer,) = put({"a": b""})
    assert answer.response["Error"]["Code"] == "AccessDenied"
    with pytest.raises(ClientError, match="403"):
        client.head_bucket(Bucket=BUCKET)


def test_bucket_refuses_a_wrong_checksum(endpoint, put):
    """moto takes it."""
    control(endpoint, "/reset", {})
    for wrong in ({"ContentMD5": "AAAA"}, {"ChecksumCRC32": "AAAAAA=="}):
        (answer,) = put({"a": b"body"}, **wrong)
        assert answer.response["Error"]["Code"] == "BadDigest"
    assert control(endpoint, "/counters")["stored"] == 0


def test_bucket_refuses_a_long_key(endpoint, put):
    """ "The object key name is a sequence of Unicode characters with UTF-8 encoding of up to 1,024
    bytes long." moto takes longer ones."""
    control(endpoint, "/reset", {})
    answers = put({"\u00e4" * 512: b"", "\u00e4" * 512 + "a": b""})
    assert answers[1].response["Error"]["Code"] == "KeyTooLongError"
    assert control(endpoint, "/counters")["stored"] == 1


def test_bucket_fails_the_same_requests_for_the_same_seed():
    def failures(seed: int) -> list[bool]:
        bucket = Bucket()
        bucket.reset({"faults": {"errors": 0.5, "seed": seed}})
        return [bucket._happens("errors") for _ in range(50)]

    assert failures(1) == failures(1) != failures(2)


def test_bucket_refuses_unknown_faults():
    with pytest.raises(ValueError, match="explode"):
        Bucket().reset({"faults": {"explode": 1}})


def test_signed_aws_chunks_are_decoded():
    signed = b"4;chunk-signature=ab\r\nbody\r\n0;chunk-signature=cd\r\nx-amz-a: 1\r\n\r\n"
    assert decode_aws_chunks(signed) == (b"body", {"x-amz-a": "1"})
    with pytest.raises(S3Error, match="not aws-chunked"):
        decode_aws_chunks(b"body")


def test_body_without_a_length_is_refused():
    with pytest.raises(S3Error, match="Content-Length is missing"):
        read_object({}, b"")
    streamed = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    with pytest.raises(S3Error, match="4 of 5 bytes"):
        read_object({**streamed, "x-amz-decoded-content-length": "5"}, b"4\r\nbody\r\n0\r\n\r\n")


@pytest.mark.parametrize("trailer", [b"", b"a: 1\r\n", b"a: 1\r\nb: 2\r\n"])
def test_http_chunks_are_read_once_they_are_whole(trailer):
    whole = b"head4\r\nbody\r\n1;x=y\r\n!\r\n0\r\n" + trailer + b"\r\n"
    assert read_chunks(whole + b"next", 4) == (b"body!", len(whole))
    assert all(read_chunks(whole[:end], 4) is None for end in range(4, len(whole)))
