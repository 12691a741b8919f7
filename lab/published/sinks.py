"""Store messages in S3 or send them to SQS, sequentially or in threads.

    python -m lab.published.sinks COUNT s3 bucket
    python -m lab.published.sinks COUNT sqs queue --parallel [--threads 16]

After "Sometimes you just want parallelism". Prints the seconds from the first message to the last
answer.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import time
from collections.abc import Callable

import boto3

Send = Callable[[int], None]


def message(i: int) -> str:
    """Return the text of message number `i`."""
    return json.dumps({"message_id": i, "message_content": f"This is message {i}"})


def store_in_s3(bucket: str) -> Send:
    """Return a function that stores a message as an object."""
    s3 = boto3.client("s3")

    def store(i: int) -> None:
        s3.put_object(Bucket=bucket, Key=f"message_{i}.json", Body=message(i))

    return store


def send_to_sqs(name: str) -> Send:
    """Return a function that sends a message to a queue."""
    queue = boto3.resource("sqs").get_queue_by_name(QueueName=name)

    def send(i: int) -> None:
        queue.send_message(MessageBody=message(i))

    return send


def main() -> None:
    """Send all messages."""
    parser = argparse.ArgumentParser(description="Send messages to S3 or SQS.")
    parser.add_argument("count", type=int)
    parser.add_argument("service", choices=("s3", "sqs"))
    parser.add_argument("name", help="bucket or queue")
    parser.add_argument("--parallel", action="store_true")
    parser.add_argument("--threads", type=int, help="default: Python's, min(32, cores + 4)")
    options = parser.parse_args()
    send = {"s3": store_in_s3, "sqs": send_to_sqs}[options.service](options.name)
    began = time.perf_counter()
    if options.parallel:
        with concurrent.futures.ThreadPoolExecutor(options.threads) as executor:
            futures = [executor.submit(send, i) for i in range(options.count)]
        for future in futures:
            future.result()
    else:
        for i in range(options.count):
            send(i)
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
