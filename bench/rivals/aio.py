"""Load a file with aiobotocore: one coroutine per concurrent request writes batch after batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from bench.rivals.rows import Task


async def load(task: Task) -> None:
    """Write all batches."""
    config = AioConfig(parameter_validation=False, max_pool_connections=task.concurrency)
    async with get_session().create_client("dynamodb", config=config) as client:

        async def work(batches: Iterator[list[dict[str, Any]]]) -> None:
            for batch in batches:
                left: Any = {task.table: batch}
                while left:
                    answer = await client.batch_write_item(RequestItems=left)
                    left = answer["UnprocessedItems"]

        batches = task.batches()
        async with asyncio.TaskGroup() as workers:
            for _ in range(task.concurrency):
                workers.create_task(work(batches))


if __name__ == "__main__":
    asyncio.run(load(Task.from_command_line()))
