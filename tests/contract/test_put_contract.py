"""`bench.bucket` and moto's S3 take objects alike, as ddbload and the measurements write them."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from bench.bucket import BUCKET
from bench.listing import bucket_server
from tests.contract.conftest import ACCOUNT, ONCE

KEYS = (f"put/{number}" for number in itertools.count())
PATHS = Config(s3={"addressing_style": "path"})


@pytest.fixture(scope="module", params=["fake", "moto"])
def s3(request) -> Iterator[Any]:
    if request.param == "fake":
        with bucket_server() as endpoint:
            yield boto3.client("s3", endpoint_url=endpoint, config=ONCE.merge(PATHS), **ACCOUNT)
    else:
        with mock_aws():
            client = boto3.client("s3", config=ONCE, **ACCOUNT)
            client.create_bucket(Bucket=BUCKET)
            yield client


@pytest.fixture
def key() -> str:
    """Key without an object."""
    return next(KEYS)


def put(s3: Any, key: str, body: bytes = b"{}", **more: Any) -> Any:
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)


def md5_of(body: bytes) -> Any:
    return hashlib.md5(body, usedforsecurity=False)


def got(s3: Any, key: str) -> bytes:
    return bytes(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def refused(call: Any, **params: Any) -> tuple[int, str]:
    """Return how a request is refused: its status and code."""
    with pytest.raises(ClientError) as error:
        call(Bucket=BUCKET, **params)
    answer = error.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


@pytest.mark.parametrize("body", [b"", b'{"name": "Zo\xc3\xab"}', b"x" * 300_000])
def test_etag_is_the_md5_of_the_body(s3, key, body):
    etag = f'"{md5_of(body).hexdigest()}"'
    assert put(s3, key, body)["ETag"] == etag
    assert got(s3, key) == body
    head = s3.head_object(Bucket=BUCKET, Key=key)
    assert (head["ETag"], head["ContentLength"]) == (etag, len(body))


def test_metadata_and_content_type_are_returned(s3, key):
    put(s3, key, Metadata={"run": "r-1", "Row-Number": "17"}, ContentType="application/json")
    for answer in (
        s3.head_object(Bucket=BUCKET, Key=key),
        s3.get_object(Bucket=BUCKET, Key=key),
    ):
        assert answer["Metadata"] == {"run": "r-1", "row-number": "17"}
        assert answer["ContentType"] == "application/json"
        assert answer["LastModified"].year >= 2026


def test_object_is_replaced_with_its_metadata(s3, key):
    put(s3, key, b"first", Metadata={"run": "1"})
    put(s3, key, b"second")
    assert got(s3, key) == b"second"
    assert s3.head_object(Bucket=BUCKET, Key=key)["Metadata"] == {}


def test_if_none_match_lets_one_write_pass(s3, key):
    """ "Uploads the object only if the object key name does not already exist" """
    put(s3, key, b"first", IfNoneMatch="*")
    assert refused(s3.put_object, Key=key, Body=b"second", IfNoneMatch="*") == (
        412,
        "PreconditionFailed",
    )
    assert got(s3, key) == b"first"


@pytest.mark.parametrize("quotes", ['"', ""])
def test_if_match_replaces_the_object_that_it_names(s3, key, quotes):
    etag = put(s3, key, b"first")["ETag"].strip('"')
    put(s3, key, b"second", IfMatch=f"{quotes}{etag}{quotes}")
    assert refused(s3.put_object, Key=key, Body=b"third", IfMatch=f"{quotes}{etag}{quotes}") == (
        412,
        "PreconditionFailed",
    )
    assert got(s3, key) == b"second"


def test_if_match_needs_an_object(s3, key):
    assert refused(s3.put_object, Key=key, Body=b"", IfMatch='"0"') == (404, "NoSuchKey")
    assert refused(s3.head_object, Key=key) == (404, "404")
    assert refused(s3.get_object, Key=key) == (404, "NoSuchKey")


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksum_of_the_body_is_taken(s3, key, algorithm):
    put(s3, key, b"body", ChecksumAlgorithm=algorithm)
    assert got(s3, key) == b"body"


def test_content_md5_is_taken(s3, key):
    put(s3, key, b"body", ContentMD5=base64.b64encode(md5_of(b"body").digest()).decode())
    assert got(s3, key) == b"body"


@pytest.mark.parametrize(
    "body", [b"", b"body", b"0\r\n\r\n" * 50_000], ids=["empty", "short", "long"]
)
def test_body_in_aws_chunks_with_a_trailing_checksum_is_decoded(s3, key, body):
    """As boto3 sends bodies over TLS."""

    def trail(params: dict[str, Any], **_: Any) -> None:
        algorithm = params["context"]["checksum"]["request_algorithm"]
        params["context"]["checksum"]["request_algorithm"] = {**algorithm, "in": "trailer"}
        sent.append(params)

    sent: list[dict[str, Any]] = []
    s3.meta.events.register("before-call.s3.PutObject", trail)
    try:
        answer = put(s3, key, body)
    finally:
        s3.meta.events.unregister("before-call.s3.PutObject", trail)
    assert "aws-chunked" in sent[0]["headers"]["Content-Encoding"]
    assert answer["ETag"] == f'"{md5_of(body).hexdigest()}"'
    assert got(s3, key) == body


@pytest.mark.parametrize(
    "name", ["a b+c", "ä/ö", "100%", "a//b", "a?b=c&d#e", "\U0001f600", "~'()*!"]
)
def test_key_of_any_characters_is_kept(s3, key, name):
    key = f"{key}/{name}"
    put(s3, key, name.encode())
    assert got(s3, key) == name.encode()
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
    assert [(each["Key"], each["Size"]) for each in listed] == [(key, len(name.encode()))]


def test_listing_has_what_was_put_in_pages(s3, key):
    names = [f"{key}/{letter}" for letter in ("B", "a", "ab", "\uff5e", "\U0001f600")]
    for name in reversed(names):
        put(s3, name, name.encode())
    paginator = s3.get_paginator("list_objects_v2")
    pages = list(
        paginator.paginate(Bucket=BUCKET, Prefix=f"{key}/", PaginationConfig={"PageSize": 2})
    )
    assert [page["KeyCount"] for page in pages] == [2, 2, 1]
    found = [each for page in pages for each in page["Contents"]]
    assert [each["Key"] for each in found] == names
    assert [each["ETag"] for each in found] == [
        f'"{md5_of(name.encode()).hexdigest()}"' for name in names
    ]
    rest = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{key}/", StartAfter=names[3])
    assert [each["Key"] for each in rest["Contents"]] == names[4:]


def test_page_goes_on_after_its_last_key(s3, key):
    """What is put between two pages moves no other key into or out of them."""
    for letter in "bcd":
        put(s3, f"{key}/{letter}")
    first = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{key}/", MaxKeys=2)
    put(s3, f"{key}/a")
    rest = s3.list_objects_v2(
        Bucket=BUCKET, Prefix=f"{key}/", ContinuationToken=first["NextContinuationToken"]
    )
    assert [each["Key"] for each in rest["Contents"]] == [f"{key}/d"]


def test_bucket_is_found_with_its_region(s3):
    answer = s3.head_bucket(Bucket=BUCKET)
    assert answer["BucketRegion"] == "us-east-1"


def test_missing_bucket_is_an_error(s3):
    for call, params, code in (
        (s3.head_bucket, {}, "404"),
        (s3.put_object, {"Key": "a", "Body": b""}, "NoSuchBucket"),
        (s3.list_objects_v2, {}, "NoSuchBucket"),
    ):
        with pytest.raises(ClientError) as error:
            call(Bucket="not-there", **params)
        assert error.value.response["Error"]["Code"] == code
