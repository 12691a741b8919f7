"""Fixtures: local AWS servers, and a folder for each test to run commands in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.cli.console import Console
from tests.cli.transcript import Services

__all__ = ["account", "console", "dynamodb", "s3", "services"]

ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "made-up",
    "AWS_SECRET_ACCESS_KEY": "made-up",
    "AWS_REGION": "us-east-1",
}
CREDENTIALS = {
    "aws_access_key_id": "made-up",
    "aws_secret_access_key": "made-up",
    "region_name": "us-east-1",
}


@pytest.fixture(scope="session")
def dynamodb(dynalite_endpoint: str) -> Any:
    return boto3.client("dynamodb", endpoint_url=dynalite_endpoint, **CREDENTIALS)


@pytest.fixture(scope="session")
def s3(s3_endpoint: str) -> Any:
    return boto3.client("s3", endpoint_url=s3_endpoint, **CREDENTIALS)


@pytest.fixture(scope="session")
def account(dynalite_endpoint: str, s3_endpoint: str) -> dict[str, str]:
    """Return the environment variables that point AWS tools at the local servers."""
    return {
        **ACCOUNT,
        "AWS_ENDPOINT_URL_DYNAMODB": dynalite_endpoint,
        "AWS_ENDPOINT_URL_S3": s3_endpoint,
        # Where a run is not in the local ledger, the stack is looked for.
        "AWS_ENDPOINT_URL_CLOUDFORMATION": s3_endpoint,
    }


@pytest.fixture
def console(account: dict[str, str], forked: Path, tmp_path: Path) -> Iterator[Console]:
    """Return a console in an empty folder, and check that commands leave no temporary files."""
    folder = tmp_path / "folder"
    folder.mkdir()
    made = Console(folder, account, forked)
    yield made
    assert made.leftovers() == []


@pytest.fixture
def services(console: Console, dynamodb: Any, s3: Any) -> Services:
    return Services(console, dynamodb, s3)
