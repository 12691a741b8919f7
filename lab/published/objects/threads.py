"""Read objects with a pool of threads that take keys from a queue, each with its own client.

    python -m lab.published.objects.threads BUCKET KEYS_FILE THREADS

A thread creates its session and client when it gets its first key.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue

import boto3
from botocore.exceptions import ClientError

from lab.published.objects.result import measured, print_result, read_keys


def read_from_queue(
    bucket: str, keys: Queue[str], bodies: dict[str, bytes], failures: list[str]
) -> None:
    """Read objects one after the other until the queue is empty."""
    client = None
    while True:
        try:
            key = keys.get_nowait()
        except Empty:
            return
        if client is None:
            client = boto3.Session().client("s3")
        try:
            bodies[key] = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            failures.append(str(error))


def read_objects(bucket: str, keys: list[str], threads: int) -> tuple[dict[str, bytes], list[str]]:
    """Read all objects with several threads; return the bodies by key, and the failures."""
    queue: Queue[str] = Queue()
    for key in keys:
        queue.put(key)
    bodies: dict[str, bytes] = {}
    failures: list[str] = []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        workers = [
            pool.submit(read_from_queue, bucket, queue, bodies, failures) for _ in range(threads)
        ]
    for worker in workers:
        worker.result()
    return bodies, failures


def main() -> None:
    """Read the objects, and print the result."""
    bucket, path, threads = sys.argv[1:]
    keys = read_keys(path)
    with measured() as work:
        bodies, failures = read_objects(bucket, keys, int(threads))
    print_result(work, bodies, failures)


if __name__ == "__main__":
    main()
