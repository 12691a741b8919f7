"""Fixtures: a table for the examples of the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import account, dynamodb

__all__ = ["account", "dynamodb"]


@pytest.fixture
def python_table(
    account: dict[str, str], dynamodb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], int]]:
    """Make the table `books`, for this process; return a function that counts its items."""
    settings = {name: value for name, value in account.items() if "S3" not in name}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DDBLOAD_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.chdir(tmp_path)
    dynamodb.create_table(
        TableName="books-of-python",
        AttributeDefinitions=[{"AttributeName": "isbn", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "isbn", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    waited: Any = {"Delay": 0.05, "MaxAttempts": 200}
    dynamodb.get_waiter("table_exists").wait(TableName="books-of-python", WaiterConfig=waited)
    yield lambda: dynamodb.scan(TableName="books-of-python")["Count"]
    dynamodb.delete_table(TableName="books-of-python")
    dynamodb.get_waiter("table_not_exists").wait(TableName="books-of-python", WaiterConfig=waited)
