"""Fixtures of the tests against versitygw: `make test-versitygw` alone collects them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cli.conftest import console, dynamodb
from tests.contract.conftest import gateway
from tests.versitygw.server import ACCOUNT, Gateway

__all__ = ["console", "dynamodb", "gateway"]

collect_ignore_glob = [] if os.environ.get("DDBLOAD_VERSITYGW") else ["test_*.py"]


@pytest.fixture(scope="session")
def account(dynalite_endpoint: str, gateway: Gateway) -> dict[str, str]:
    """Return the environment variables that point ddbload at dynalite and versitygw."""
    return {
        **{name.upper(): value for name, value in ACCOUNT.items() if name != "region_name"},
        "AWS_REGION": ACCOUNT["region_name"],
        "AWS_ENDPOINT_URL_DYNAMODB": dynalite_endpoint,
        "AWS_ENDPOINT_URL_S3": gateway.endpoint,
    }


@pytest.fixture
def s3(gateway: Gateway) -> Any:
    """Client of versitygw, which has one empty bucket, `bucket`."""
    gateway.clear()
    gateway.client.create_bucket(Bucket="bucket")
    return gateway.client
