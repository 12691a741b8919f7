"""Fixtures: each fake client, and a client of the real server."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from tests.dynamodb_local.server import dynamodb_local
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_tables import keyed
from tests.fakes.s3 import FakeS3
from tests.versitygw.server import Gateway, versitygw

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
S3_SERVERS = ["versitygw"] if os.environ.get("DDBLOAD_VERSITYGW") else ["fake", "moto"]


@pytest.fixture(scope="session")
def moto_s3() -> Any:
    """Make a client of moto's S3 once, because it loads botocore's model."""
    return boto3.client("s3", config=ONCE, **ACCOUNT)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run versitygw, which `make test-versitygw` alone has."""
    with versitygw(tmp_path_factory.mktemp("versitygw")) as running:
        yield running


@contextmanager
def s3_server(name: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Make an S3 client without buckets, of one of `S3_SERVERS`."""
    if name == "fake":
        yield FakeS3()
    elif name == "moto":
        with mock_aws():
            yield request.getfixturevalue("moto_s3")
    else:
        running = request.getfixturevalue("gateway")
        running.clear()
        yield running.client


@pytest.fixture(params=S3_SERVERS)
def s3(request) -> Iterator[Any]:
    """S3 client without buckets."""
    with s3_server(request.param, request) as client:
        yield client


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
