"""`bench.bucket` and moto's S3 list alike, as far as ddbload and the measurements list objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from bench.bucket import BUCKET, bucket_keys
from bench.http_server import control, serving
from tests.contract.conftest import ACCOUNT, ONCE

# Spaces in the keys, which are URL-encoded in answers.
SHAPE, COUNT = "plain", 8
KEYS = bucket_keys(SHAPE, COUNT)


@pytest.fixture(params=["bench", "moto"], scope="module")
def s3(request) -> Iterator[Any]:
    if request.param == "bench":
        with serving("bench.bucket") as endpoint:
            control(endpoint, "/reset", {"shape": SHAPE, "objects": COUNT})
            yield boto3.client("s3", endpoint_url=endpoint, config=ONCE, **ACCOUNT)
        return
    with mock_aws():
        client = boto3.client("s3", config=ONCE, **ACCOUNT)
        client.create_bucket(Bucket=BUCKET)
        for key in KEYS:
            client.put_object(Bucket=BUCKET, Key=key, Body=b"x" * 1024)
        yield client


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
def test_pages_have_all_keys_in_order(s3, operation):
    pages = list(
        s3.get_paginator(operation).paginate(
            Bucket=BUCKET, Prefix="in/", PaginationConfig={"PageSize": 3}
        )
    )
    assert [len(page["Contents"]) for page in pages] == [3, 3, 2]
    entries = [each for page in pages for each in page["Contents"]]
    assert [each["Key"] for each in entries] == KEYS
    assert {each["Size"] for each in entries} == {1024}
    assert all(each["LastModified"].utcoffset().total_seconds() == 0 for each in entries)
    assert [page["IsTruncated"] for page in pages] == [True, True, False]


def test_second_version_begins_after_a_key(s3):
    page = s3.list_objects_v2(Bucket=BUCKET, StartAfter=KEYS[5], MaxKeys=1)
    assert [each["Key"] for each in page["Contents"]] == KEYS[6:7]
    assert (page["KeyCount"], page["MaxKeys"], page["IsTruncated"]) == (1, 1, True)
    assert "Owner" not in page["Contents"][0]
