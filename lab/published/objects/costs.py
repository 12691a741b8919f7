"""Measure the cost of a thread and of a client, as medians of elapsed and CPU seconds.

python -m lab.published.objects.costs CLIENTS
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Callable
from threading import Event, Thread

import boto3
from aiobotocore.session import get_session

from lab.published.objects.result import measured

THREADS = 200


def cost(make: Callable[[], object], count: int) -> dict[str, float]:
    """Call `make` several times; return the median cost of a call."""
    works = []
    for _ in range(count):
        with measured() as work:
            make()
        works.append(work)
    return {
        "seconds": statistics.median(work.seconds for work in works),
        "cpu": statistics.median(work.cpu for work in works),
    }


def cost_of_threads() -> dict[str, float]:
    """Measure starting threads that wait, as many as are needed at once."""
    end = Event()
    threads: list[Thread] = []

    def start() -> None:
        threads.append(Thread(target=end.wait))
        threads[-1].start()

    found = cost(start, THREADS)
    end.set()
    for thread in threads:
        thread.join()
    return found


def make_async_client() -> None:
    """Create and close a client of aiobotocore, with a session and a loop."""

    async def make() -> None:
        async with get_session().create_client("s3"):
            pass

    asyncio.run(make())


def main() -> None:
    """Measure, and print the costs by name."""
    clients = int(sys.argv[1])
    found = {
        "thread": cost_of_threads(),
        "first boto3 client": cost(lambda: boto3.client("s3"), 1),
        "boto3 client": cost(lambda: boto3.client("s3"), clients),
        "boto3 client, with a session": cost(
            lambda: boto3.Session().client("s3"), max(1, clients // 2)
        ),
        "aiobotocore client": cost(make_async_client, max(1, clients // 2)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
