"""Put one item at a time at a constant rate, as an application does, with boto3's defaults.

    python -m bench.rivals.serving TABLE CALLS_PER_SECOND

Prints a line when the first call has succeeded, and goes on until standard input closes. Then it
prints {"calls": ..., "retried": ..., "failed": ..., "late": ...}: `retried` calls were throttled at
least once, `failed` ones still after boto3's retries, and `late` ones began more than a second
after they were due.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.rivals.adaptive import THROTTLED
from localaws.processes import on_stdin_eof

THREADS = 24
"""Concurrent calls. With much throttling, most of them wait for a retry."""
LATE_SECONDS = 1.0


def main() -> None:
    """Make calls until standard input closes."""
    table, per_second = sys.argv[1], float(sys.argv[2])
    # Only the number of connections differs from the defaults, so that no call opens a new one.
    client = boto3.client("dynamodb", config=Config(max_pool_connections=THREADS))
    ended = threading.Event()
    lock = threading.Lock()
    counts: Counter[str] = Counter()

    def put(number: int) -> None:
        item = {"key": {"S": f"serving-{number}"}, "number": {"N": "0"}}
        try:
            answer: Any = client.put_item(TableName=table, Item=item)
        except ClientError as error:
            answer = error.response
            if answer["Error"]["Code"] not in THROTTLED:
                raise
            with lock:
                counts["failed"] += 1
        with lock:
            counts["retried"] += bool(answer["ResponseMetadata"].get("RetryAttempts"))

    put(-1)
    print("ready", flush=True)
    on_stdin_eof(ended.set)
    began = time.monotonic()

    def work() -> None:
        while not ended.is_set():
            with lock:
                number = counts["calls"]
                counts["calls"] += 1
            due = began + number / per_second
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            elif wait < -LATE_SECONDS:
                with lock:
                    counts["late"] += 1
            put(number)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = ("calls", "retried", "failed", "late")
    print(json.dumps({name: counts[name] for name in names}), flush=True)


if __name__ == "__main__":
    main()
