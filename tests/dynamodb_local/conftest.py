"""Fixtures of the tests against DynamoDB Local: `make test-dynamodb-local` alone collects them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.cli.conftest import console
from tests.cli.transcript import make_table
from tests.dynamodb_local.server import dynamodb_local

__all__ = ["console"]

collect_ignore_glob = [] if os.environ.get("DDBLOAD_DYNAMODB_LOCAL") else ["test_*.py"]

_names = (f"local-{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with dynamodb_local() as url:
        yield url


@pytest.fixture(scope="session")
def account(endpoint) -> dict[str, str]:
    """Return the environment variables that point ddbload at DynamoDB Local."""
    return {
        "AWS_ACCESS_KEY_ID": "madeup",
        "AWS_SECRET_ACCESS_KEY": "madeup",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
    }


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
def new_table(local) -> Callable[..., str]:
    """Make a table with keys such as `pk:S`; return its name."""

    def new(*keys: str) -> str:
        name = next(_names)
        make_table(local, name, *keys)
        return name

    return new
