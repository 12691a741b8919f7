"""Read objects with threads that take keys from a queue, and have a client each.

python -m lab.published.objects.threads BUCKET KEYS_FILE THREADS
"""

from __future__ import annotations

import sys
from queue import Empty, Queue
from threading import Thread

import boto3
from botocore.exceptions import ClientError

from lab.published.objects.result import measured, print_result, read_keys


class Reader(Thread):
    """Thread that reads objects until the queue is empty."""

    def __init__(self, bucket: str, keys: Queue[str]) -> None:
        super().__init__()
        self.client = boto3.client("s3")
        self.bucket, self.keys = bucket, keys
        self.bodies: dict[str, bytes] = {}
        self.failures: list[str] = []

    def run(self) -> None:
        """Read one object after the other."""
        while True:
            try:
                key = self.keys.get_nowait()
            except Empty:
                return
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=key)
                self.bodies[key] = answer["Body"].read()
            except ClientError as error:
                self.failures.append(str(error))


def read_objects(bucket: str, keys: list[str], threads: int) -> list[Reader]:
    """Read all objects with so many threads, and return the threads."""
    queue: Queue[str] = Queue()
    for key in keys:
        queue.put(key)
    readers = [Reader(bucket, queue) for _ in range(threads)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return readers


def main() -> None:
    """Read the objects, and print the result."""
    bucket, path, threads = sys.argv[1:]
    keys = read_keys(path)
    with measured() as work:
        readers = read_objects(bucket, keys, int(threads))
    bodies = {key: body for reader in readers for key, body in reader.bodies.items()}
    print_result(work, bodies, [text for reader in readers for text in reader.failures])


if __name__ == "__main__":
    main()
