"""Fixtures: each fake client, and a client of the real server."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from tests.dynamodb_local.server import dynamodb_local
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_tables import keyed
from tests.fakes.s3 import FakeS3

NAMES = (f"contract-{os.getpid()}-{number}" for number in itertools.count())
ONCE = Config(retries={"total_max_attempts": 1})
ACCOUNT = {
    "region_name": "us-east-1",
    "aws_access_key_id": "made-up",
    "aws_secret_access_key": "made-up",
}
LOCAL_ACCOUNT = {**ACCOUNT, "aws_access_key_id": "madeup", "aws_secret_access_key": "madeup"}
"""DynamoDB Local takes letters and digits only."""
SERVERS = ["fake", "dynalite"]


@pytest.fixture(scope="session")
def moto_s3() -> Any:
    """Make a client of moto's S3 once, because it loads botocore's model."""
    return boto3.client("s3", config=ONCE, **ACCOUNT)


@pytest.fixture(params=["fake", "moto"])
def s3(request) -> Iterator[Any]:
    """S3 client without buckets."""
    if request.param == "fake":
        yield FakeS3()
    else:
        with mock_aws():
            yield request.getfixturevalue("moto_s3")


@pytest.fixture
def bucket(s3) -> str:
    """Empty bucket without versioning."""
    s3.create_bucket(Bucket="bucket")
    return "bucket"


@pytest.fixture
def versioned(s3) -> str:
    """Empty bucket with versioning."""
    s3.create_bucket(Bucket="versioned")
    s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    return "versioned"


@pytest.fixture(scope="session")
def dynalite_client(dynalite_endpoint) -> Any:
    """Client of dynalite."""
    return boto3.client("dynamodb", endpoint_url=dynalite_endpoint, config=ONCE, **ACCOUNT)


@pytest.fixture(scope="session")
def local_client() -> Iterator[Any]:
    """Client of DynamoDB Local, which `make test-dynamodb-local` alone has."""
    with dynamodb_local() as endpoint:
        yield boto3.client("dynamodb", endpoint_url=endpoint, config=ONCE, **LOCAL_ACCOUNT)


@pytest.fixture(params=["local"] if os.environ.get("DDBLOAD_DYNAMODB_LOCAL") else SERVERS)
def dynamodb(request) -> Any:
    """DynamoDB client; all tests share the real server."""
    if request.param == "fake":
        return FakeDynamoDB()
    return request.getfixturevalue(f"{request.param}_client")


@pytest.fixture
def make_table(dynamodb) -> Iterator[Callable[..., str]]:
    """Make a table: ``make_table("S")``, ``make_table("S", "N")``, more of CreateTable by name.

    Its keys are called ``pk`` and ``sk``. The table is there when the call returns.
    """
    made = []

    def make(pk: str = "S", sk: str | None = None, **more: Any) -> str:
        name = next(NAMES)
        table = keyed(name, pk=pk, **({"sk": sk} if sk else {}))
        table["AttributeDefinitions"] += more.pop("AttributeDefinitions", [])
        dynamodb.create_table(**table, **more)
        made.append(name)
        deadline = time.monotonic() + 10
        while dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] != "ACTIVE":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return name

    yield make
    for name in made:
        dynamodb.delete_table(TableName=name)
