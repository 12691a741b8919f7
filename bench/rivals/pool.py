"""Load a file with one boto3 client and a ThreadPoolExecutor, the usual next step."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import boto3
from botocore.config import Config

from bench.rivals.rows import Task


def main() -> None:
    """Write all batches."""
    task = Task.from_command_line()
    config = Config(parameter_validation=False, max_pool_connections=task.concurrency)
    client = boto3.client("dynamodb", config=config)

    def write(batch: list[dict[str, Any]]) -> None:
        left: Any = {task.table: batch}
        while left:
            left = client.batch_write_item(RequestItems=left)["UnprocessedItems"]

    pending: set[Future[None]] = set()
    with ThreadPoolExecutor(task.concurrency) as pool:
        for batch in task.batches():
            pending.add(pool.submit(write, batch))
            # Limit the pending batches, so that the file is not read into memory at once.
            if len(pending) >= 2 * task.concurrency:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
        for each in pending:
            each.result()


if __name__ == "__main__":
    main()
