"""Fake SQS queue that stores messages, with a configurable latency.

    python -m bench.message_queue

For its start and end see `bench.http_server`. It serves GetQueueUrl, SendMessage and
SendMessageBatch in the AWS JSON protocol. POST /reset takes {"latency": seconds before each answer}
and clears everything.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from bench.http_server import Answer, Request, Service, run

QUEUE = "bench"
_OPERATION = re.compile(rb"\nx-amz-target: *AmazonSQS\.(\w+)", re.IGNORECASE)
_HOST = re.compile(rb"\nhost: *(\S+)", re.IGNORECASE)
_HEADERS = "Content-Type: application/x-amz-json-1.0\r\n"


class MessageQueue(Service):
    """Messages of one standard queue, and the number of requests that sent them."""

    def reset(self, settings: dict[str, Any]) -> None:
        """Delete all messages."""
        self._latency = float(settings.get("latency", 0.0))
        self._messages: list[str] = []
        self._sends = 0

    def counters(self) -> dict[str, Any]:
        """Return the messages in order of arrival, and the number of sending requests."""
        return {"messages": self._messages, "sends": self._sends}

    def serve(self, request: Request) -> Answer:
        """Answer an operation after the latency."""
        operation, host = _OPERATION.search(request.head), _HOST.search(request.head)
        told = json.loads(request.body)
        answer: dict[str, Any]
        match operation[1] if operation else b"":
            case b"GetQueueUrl" if told["QueueName"] == QUEUE:
                name = host[1].decode() if host else ""
                answer = {"QueueUrl": f"http://{name}/123456789012/{QUEUE}"}
            case b"SendMessage":
                self._sends += 1
                answer = self._take(told)
            case b"SendMessageBatch":
                self._sends += 1
                sent = [{"Id": each["Id"], **self._take(each)} for each in told["Entries"]]
                answer = {"Successful": sent, "Failed": []}
            case _:
                body = json.dumps({"__type": "com.amazonaws.sqs#UnsupportedOperation"}).encode()
                return Answer(400, body, _HEADERS, self._latency)
        return Answer(200, json.dumps(answer).encode(), _HEADERS, self._latency)

    def _take(self, entry: dict[str, Any]) -> dict[str, str]:
        body = entry["MessageBody"]
        self._messages.append(body)
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        return {"MessageId": str(len(self._messages)), "MD5OfMessageBody": digest}


if __name__ == "__main__":
    run(MessageQueue())
