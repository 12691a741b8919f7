"""Load a file with `batch_writer()` in threads that share a client with adaptive retries.

boto3 raises when it gives up a throttled call. By then its batch writer has dropped the items, so
the call is repeated here, and no item is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import boto3
from boto3.dynamodb.table import BatchWriter
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.rivals.rows import Task

THROTTLED = ("ProvisionedThroughputExceededException", "ThrottlingException")


class PatientClient:
    """Client that repeats throttled calls after botocore has given up."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def batch_write_item(self, **request: Any) -> Any:
        """Send the request until it succeeds or fails for another reason."""
        while True:
            try:
                return self._client.batch_write_item(**request)
            except ClientError as error:
                if error.response["Error"]["Code"] not in THROTTLED:
                    raise


class SharedItems:
    """Thread-safe iterator over items."""

    def __init__(self, items: Iterator[dict[str, Any]]) -> None:
        self._items = items
        self._lock = threading.Lock()

    def __iter__(self) -> SharedItems:
        return self

    def __next__(self) -> dict[str, Any]:
        with self._lock:
            return next(self._items)


def main() -> None:
    """Write all items."""
    task = Task.from_command_line()
    config = Config(retries={"mode": "adaptive"}, max_pool_connections=task.concurrency)
    # The resource's client takes Python's values, as `Table.batch_writer()` does.
    client = PatientClient(boto3.resource("dynamodb", config=config).meta.client)
    items = SharedItems(task.items({"S": str, "N": Decimal, "BOOL": lambda text: text == "true"}))

    def work() -> None:
        with BatchWriter(task.table, client) as writer:
            for item in items:
                writer.put_item(Item=item)

    with ThreadPoolExecutor(task.concurrency) as pool:
        for each in [pool.submit(work) for _ in range(task.concurrency)]:
            each.result()


if __name__ == "__main__":
    main()
