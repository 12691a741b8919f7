"""Fixtures of the tests against DynamoDB Local: `make test-dynamodb-local` alone collects them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.dynamodb_local.server import dynamodb_local
from tests.fakes.dynamodb_tables import keyed

collect_ignore_glob = [] if os.environ.get("DDBLOAD_DYNAMODB_LOCAL") else ["test_*.py"]

_names = (f"local-{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with dynamodb_local() as url:
        yield url


@pytest.fixture(autouse=True)
def credentials(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "madeup")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "madeup")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture(scope="session")
def local(endpoint) -> Any:
    """Client of DynamoDB Local."""
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="madeup",
        aws_secret_access_key="madeup",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def make_table() -> Callable[..., str]:
    """Make a table with a partition key `pk` of a type, and maybe a sort key `sk`."""

    def make(client: Any, pk: str = "S", sk: str | None = None) -> str:
        name = next(_names)
        client.create_table(**keyed(name, pk=pk, **({"sk": sk} if sk else {})))
        return name

    return make
