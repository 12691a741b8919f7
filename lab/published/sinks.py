"""Store messages in S3 or send them to SQS, one after the other or in threads.

    python -m lab.published.sinks messages.jsonl s3 bucket
    python -m lab.published.sinks messages.jsonl sqs queue --threads 16

After "Sometimes you just want parallelism": a consumer takes messages from a topic, and stores each
by one API call. Here the messages stand in a file, one a line. Printed are the seconds from the
first message to the last answer.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

Send = Callable[[str], None]


def store_in_s3(bucket: str) -> Send:
    """Return a function that stores a message as an object."""
    s3 = boto3.client("s3")

    def store(message: str) -> None:
        key = f"messages/{json.loads(message)['id']}.json"
        s3.put_object(Bucket=bucket, Key=key, Body=message.encode())

    return store


def send_to_sqs(queue: str) -> Send:
    """Return a function that sends a message to a queue."""
    sqs = boto3.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]

    def send(message: str) -> None:
        sqs.send_message(QueueUrl=url, MessageBody=message)

    return send


def one_after_the_other(messages: list[str], send: Send) -> None:
    """Wait for each answer before the next message is sent."""
    for message in messages:
        send(message)


def in_threads(messages: list[str], send: Send, threads: int) -> None:
    """Let threads of a pool wait for the answers."""
    with ThreadPoolExecutor(max_workers=threads) as executor:
        for future in [executor.submit(send, message) for message in messages]:
            future.result()


def main() -> None:
    """Send all messages of the file."""
    parser = argparse.ArgumentParser(description="Send the messages of a file to S3 or SQS.")
    parser.add_argument("file", type=Path)
    parser.add_argument("service", choices=("s3", "sqs"))
    parser.add_argument("name", help="bucket or queue")
    parser.add_argument("--threads", type=int, help="default: one message after the other")
    options = parser.parse_args()
    messages = options.file.read_text(encoding="utf-8").splitlines()
    send = {"s3": store_in_s3, "sqs": send_to_sqs}[options.service](options.name)
    began = time.perf_counter()
    if options.threads:
        in_threads(messages, send, options.threads)
    else:
        one_after_the_other(messages, send)
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
