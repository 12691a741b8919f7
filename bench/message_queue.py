"""Fake SQS that counts messages, fails as told, and has a configurable latency.

    python -m bench.message_queue

`bench.http_server` says how it begins and ends. It serves CreateQueue, ListQueues, GetQueueUrl,
GetQueueAttributes, SendMessage and SendMessageBatch in the AWS JSON protocol; message attributes
and delays are not served. GET /messages returns every message that was delivered, in order, and
GET /counters what `SimulatedQueues.counters` describes.

POST /reset clears everything. All of its settings may be left out:

    {"queues": {"bench": {}, "orders.fifo": {"FifoQueue": "true"}},   names and attributes
     "latency": 0.008,                        seconds before each answer
     "deduplication_seconds": 300,            how long a FIFO queue remembers an id
     "region": "eu-west-1",                   requests signed for another find no queue
     "denied": ["SendMessage"],               operations without permission
     "faults": {"seed": 1,                    shares from 0 to 1:
                "failed": 0.1,                entries that fail, SenderFault false
                "refused": 0.1,               entries that fail, SenderFault true
                "throttled": 0.1,             requests answered 400 RequestThrottled
                "errors": 0.1,                requests answered 500
                "unavailable": 0.1,           requests answered 503
                "lost": 0.1}}                 requests taken whose answer never comes
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from hashlib import md5, sha256
from itertools import count
from typing import Any

from bench.http_server import Answer, Request, Service, run
from bench.message_checksum import MessageChecksum, digest_of

ACCOUNT = "123456789012"
QUEUE = "bench"
MOST_BYTES = 1_048_576
"""Bytes of a message, and of all messages of a request."""
MOST_ENTRIES = 10
_FAULTS = frozenset({"seed", "failed", "refused", "throttled", "errors", "unavailable", "lost"})
_OPERATION = re.compile(rb"\nx-amz-target: *AmazonSQS\.(\w+)", re.IGNORECASE)
_REGION = re.compile(rb"AWS4-HMAC-SHA256 Credential=[^/\s]*/[0-9]{8}/([^/]+)/sqs/aws4_request")
_HOST = re.compile(rb"\nhost: *(\S+)", re.IGNORECASE)
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_ID = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class SqsError(Exception):
    """Error of an operation or, in a batch, of one entry."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(message or code)
        self.code = code
        self.status = status


class Queue:
    """One queue: its attributes, and the deduplication ids that it remembers."""

    def __init__(self, name: str, attributes: dict[str, str], region: str, seconds: float) -> None:
        if name.endswith(".fifo") != (attributes.get("FifoQueue") == "true"):
            raise SqsError("InvalidParameterValue", "FifoQueue needs a name that ends with .fifo")
        self.name = name
        self.given = attributes
        self.fifo = name.endswith(".fifo")
        self.most_bytes = int(attributes.get("MaximumMessageSize", MOST_BYTES))
        self._content_based = attributes.get("ContentBasedDeduplication") == "true"
        self._by_group = attributes.get("DeduplicationScope") == "messageGroup"
        self._seconds = seconds
        self._seen: dict[tuple[str, str], tuple[float, str]] = {}
        created = str(int(time.time()))
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "false"} if self.fifo else {}
        self.attributes = {
            "QueueArn": f"arn:aws:sqs:{region}:{ACCOUNT}:{name}",
            "CreatedTimestamp": created,
            "LastModifiedTimestamp": created,
            "MaximumMessageSize": str(MOST_BYTES),
            "MessageRetentionPeriod": "345600",
            "VisibilityTimeout": "30",
            "DelaySeconds": "0",
            **fifo,
            **attributes,
        }

    def check(self, entry: dict[str, Any], size: int) -> None:
        """Raise for an entry that the queue refuses."""
        if not entry.get("MessageBody"):
            raise SqsError("MissingParameter", "The request must contain MessageBody.")
        if unserved := entry.keys() & {"MessageAttributes", "DelaySeconds"}:
            raise SqsError("UnsupportedOperation", f"{', '.join(sorted(unserved))}: not served")
        if _FORBIDDEN.search(entry["MessageBody"]):
            raise SqsError("InvalidMessageContents", "The message contains invalid characters.")
        if size > self.most_bytes:
            reason = f"Message must be shorter than {self.most_bytes} bytes."
            raise SqsError(
                "InvalidParameterValue", f"One or more parameters are invalid. Reason: {reason}"
            )
        for name in ("MessageGroupId", "MessageDeduplicationId"):
            if name in entry and not _FIFO_ID.fullmatch(entry[name]):
                raise SqsError("InvalidParameterValue", f"{name} is invalid.")
        if self.fifo and "MessageGroupId" not in entry:
            raise SqsError(
                "MissingParameter", "The request must contain the parameter MessageGroupId."
            )
        if self.fifo and not self._content_based and "MessageDeduplicationId" not in entry:
            raise SqsError(
                "InvalidParameterValue",
                "The queue should either have ContentBasedDeduplication enabled or "
                "MessageDeduplicationId provided explicitly",
            )
        if not self.fifo and "MessageDeduplicationId" in entry:
            raise SqsError(
                "InvalidParameterValue", "MessageDeduplicationId is not valid for this queue type."
            )

    def remembered(self, entry: dict[str, Any], message_id: str) -> str | None:
        """Remember a FIFO queue's message; return the id of the message that it repeats."""
        if not self.fifo:
            return None
        told = (
            entry.get("MessageDeduplicationId") or sha256(entry["MessageBody"].encode()).hexdigest()
        )
        key = (entry["MessageGroupId"] if self._by_group else "", told)
        now = time.monotonic()
        since, first = self._seen.get(key, (now, message_id))
        if key in self._seen and now - since < self._seconds:
            return first
        self._seen[key] = now, message_id
        return None


class SimulatedQueues(Service):
    """Queues by name, the messages that were delivered, and the faults that were asked for."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace the queues, and clear the counters."""
        self._region = settings.get("region")
        self._seconds = float(settings.get("deduplication_seconds", 300.0))
        self._denied = frozenset(settings.get("denied", ()))
        self._latency = float(settings.get("latency", 0.0))
        self._faults = dict(settings.get("faults", {}))
        if unknown := self._faults.keys() - _FAULTS:
            raise ValueError(f"unknown faults {sorted(unknown)}")
        self._random = random.Random(self._faults.get("seed", 0))
        self._queues: dict[str, Queue] = {}
        for name, attributes in settings.get("queues", {QUEUE: {}}).items():
            self._create(name, attributes, self._region or "us-east-1")
        self._messages: list[dict[str, Any]] = []
        self._known: set[bytes] = set()
        self._checksum = MessageChecksum()
        self._numbers = count(1)
        self._counts: Counter[str] = Counter()

    def counters(self) -> dict[str, Any]:
        """Return the counters.

        `messages` were delivered; `duplicates` are those whose body had been delivered before.
        `deduplicated` were accepted by a FIFO queue and not delivered. `entries` were asked for,
        those of failed requests included. `most_entries` and `most_bytes` are the largest request's
        of the requests that send. `checksum` and `order` are `bench.message_checksum`'s.
        """
        names = ("requests", "sends", "entries", "deduplicated", "failed", "refused")
        more = ("throttled", "errors", "unavailable", "lost", "invalid", "most_entries")
        return {
            "messages": len(self._messages),
            "duplicates": len(self._messages) - len(self._known),
            **self._checksum.counters(),
            **{name: self._counts[name] for name in (*names, *more, "most_bytes")},
        }

    def control(self, target: str) -> Any:
        """Answer GET /messages."""
        return self._messages if target == "/messages" else None

    def serve(self, request: Request) -> Answer:
        """Answer an operation after the latency."""
        self._counts["requests"] += 1
        operation = _OPERATION.search(request.head)
        region = _REGION.search(request.head)
        try:
            if region is None:
                raise SqsError("MissingAuthenticationToken", "sign the request", 403)
            name = operation[1].decode() if operation else "an operation without a name"
            return self._operate(name, request, region[1].decode())
        except SqsError as error:
            self._counts["invalid"] += 1
            return self._refuse(error)

    def _operate(self, name: str, request: Request, region: str) -> Answer:
        operations: dict[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
            "CreateQueue": self._create_queue,
            "ListQueues": self._list_queues,
            "GetQueueUrl": self._queue_url,
            "GetQueueAttributes": self._queue_attributes,
            "SendMessage": self._send_message,
            "SendMessageBatch": self._send_message_batch,
        }
        if name not in operations:
            raise SqsError("UnsupportedOperation", f"{name} is not served")
        if name in self._denied or (name == "SendMessageBatch" and "SendMessage" in self._denied):
            # SendMessageBatch needs the permission sqs:SendMessage.
            raise SqsError("AccessDeniedException", f"not authorized to perform: sqs:{name}", 403)
        try:
            told = json.loads(request.body)
        except ValueError:
            raise SqsError("SerializationException", "the body is not JSON") from None
        # A queue's URL is that of the address that the client reached.
        host = _HOST.search(request.head)
        told["_host"] = host[1].decode() if host else "127.0.0.1"
        lost = False
        if name.startswith("SendMessage"):
            self._counts["sends"] += 1
            fault = self._fault_of_request()
            if fault is not None:
                return self._refuse(fault)
            answer = operations[name](told, region)
            lost = self._happens("lost")
        else:
            answer = operations[name](told, region)
        return Answer(200, json.dumps(answer).encode(), _HEADERS, self._latency, lost)

    def _happens(self, fault: str) -> bool:
        share = self._faults.get(fault, 0)
        happens = bool(share) and self._random.random() < share
        self._counts[fault] += happens
        return happens

    def _fault_of_request(self) -> SqsError | None:
        if self._happens("throttled"):
            return SqsError("RequestThrottled", "Rate exceeded")
        if self._happens("errors"):
            return SqsError("InternalFailure", "made to fail", 500)
        if self._happens("unavailable"):
            return SqsError("ServiceUnavailable", "made to fail", 503)
        return None

    def _refuse(self, error: SqsError) -> Answer:
        old = _QUERY_CODES.get(error.code, error.code)
        fault = "Sender" if error.status < 500 else "Receiver"
        headers = f"{_HEADERS}x-amzn-query-error: {old};{fault}\r\n"
        body = {"__type": f"com.amazonaws.sqs#{error.code}", "message": str(error)}
        return Answer(error.status, json.dumps(body).encode(), headers, self._latency)

    def _create(self, name: str, attributes: dict[str, str], region: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,75}(\.fifo)?", name):
            raise SqsError("InvalidParameterValue", "Can only include alphanumeric characters")
        made = self._queues.get(name)
        if made is not None and made.given != attributes:
            raise SqsError("QueueNameExists", "the queue has other attributes")
        if made is None:
            self._queues[name] = Queue(name, attributes, region, self._seconds)

    def _create_queue(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        self._create(told["QueueName"], told.get("Attributes", {}), region)
        return self._queue_url(told, region)

    def _list_queues(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        names = [name for name in self._queues if self._region in (None, region)]
        return {"QueueUrls": [f"http://{told['_host']}/{ACCOUNT}/{name}" for name in names]}

    def _queue_url(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        queue = self._find(told["QueueName"], region)
        return {"QueueUrl": f"http://{told['_host']}/{ACCOUNT}/{queue.name}"}

    def _queue_attributes(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        attributes = self._find(told["QueueUrl"], region).attributes
        asked = told.get("AttributeNames", [])
        if unknown := set(asked) - attributes.keys() - {"All", *_ATTRIBUTES}:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {min(unknown)}.")
        return {
            "Attributes": {
                name: value for name, value in attributes.items() if "All" in asked or name in asked
            }
        }

    def _find(self, url_or_name: str, region: str) -> Queue:
        queue = self._queues.get(url_or_name.rpartition("/")[2])
        if queue is None or self._region not in (None, region):
            raise SqsError("QueueDoesNotExist", "The specified queue does not exist.")
        return queue

    def _send_message(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        queue = self._find(told["QueueUrl"], region)
        size = len(told.get("MessageBody", "").encode())
        self._count_send(1, size)
        queue.check({name: told[name] for name in told.keys() & _ENTRY}, size)
        if self._happens("failed"):
            raise SqsError("InternalFailure", "made to fail", 500)
        if self._happens("refused"):
            raise SqsError("InvalidParameterValue", "made to fail")
        return self._deliver(queue, told)

    def _send_message_batch(self, told: dict[str, Any], region: str) -> dict[str, Any]:
        queue = self._find(told["QueueUrl"], region)
        entries = told.get("Entries", [])
        sizes = [len(entry.get("MessageBody", "").encode()) for entry in entries]
        self._count_send(len(entries), sum(sizes))
        if not entries:
            raise SqsError("EmptyBatchRequest", "There should be at least one entry.")
        if len(entries) > MOST_ENTRIES:
            raise SqsError("TooManyEntriesInBatchRequest", f"You have sent {len(entries)}.")
        if not all(_ENTRY_ID.fullmatch(str(entry.get("Id", ""))) for entry in entries):
            raise SqsError("InvalidBatchEntryId", "alphanumeric characters, hyphens, underscores")
        if len({entry["Id"] for entry in entries}) < len(entries):
            raise SqsError("BatchEntryIdsNotDistinct", "An Id is repeated.")
        if sum(sizes) > MOST_BYTES:
            raise SqsError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {MOST_BYTES} bytes. "
                f"You have sent {sum(sizes)} bytes.",
            )
        successful, failed = [], []
        for entry, size in zip(entries, sizes, strict=True):
            try:
                queue.check(entry, size)
            except SqsError as error:
                failed.append(_failed(entry, sender=True, code=error.code, message=str(error)))
                continue
            if self._happens("failed"):
                failed.append(_failed(entry, sender=False, code="InternalError"))
            elif self._happens("refused"):
                failed.append(_failed(entry, sender=True, code="InvalidParameterValue"))
            else:
                successful.append({"Id": entry["Id"], **self._deliver(queue, entry)})
        # As AWS answers: an empty list is left out.
        both = {"Successful": successful, "Failed": failed}
        return {name: found for name, found in both.items() if found}

    def _count_send(self, entries: int, size: int) -> None:
        self._counts["entries"] += entries
        self._counts["most_entries"] = max(self._counts["most_entries"], entries)
        self._counts["most_bytes"] = max(self._counts["most_bytes"], size)

    def _deliver(self, queue: Queue, entry: dict[str, Any]) -> dict[str, Any]:
        body, number = entry["MessageBody"].encode(), next(self._numbers)
        message_id = str(uuid.UUID(int=number))
        repeated = queue.remembered(entry, message_id)
        if repeated is None:
            group = entry.get("MessageGroupId")
            self._known.add(digest_of(body))
            self._checksum.add(body, group)
            self._messages.append(
                {
                    "queue": queue.name,
                    "body": entry["MessageBody"],
                    "group": group,
                    "deduplication": entry.get("MessageDeduplicationId"),
                }
            )
        else:
            self._counts["deduplicated"] += 1
        answer = {
            "MessageId": repeated or message_id,
            "MD5OfMessageBody": md5(body, usedforsecurity=False).hexdigest(),
        }
        return {**answer, "SequenceNumber": f"{number:020d}"} if queue.fifo else answer


def _failed(
    entry: dict[str, Any], *, sender: bool, code: str, message: str = "made to fail"
) -> dict[str, Any]:
    return {"Id": entry["Id"], "SenderFault": sender, "Code": code, "Message": message}


_HEADERS = "Content-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: BENCH\r\n"
_QUERY_CODES = {
    name: f"AWS.SimpleQueueService.{code}"
    for name, code in {
        "QueueDoesNotExist": "NonExistentQueue",
        "UnsupportedOperation": "UnsupportedOperation",
        "EmptyBatchRequest": "EmptyBatchRequest",
        "TooManyEntriesInBatchRequest": "TooManyEntriesInBatchRequest",
        "InvalidBatchEntryId": "InvalidBatchEntryId",
        "BatchEntryIdsNotDistinct": "BatchEntryIdsNotDistinct",
        "BatchRequestTooLong": "BatchRequestTooLong",
    }.items()
}
"""Codes of the earlier query protocol, which botocore shows in place of the JSON protocol's."""
_ENTRY = frozenset(
    {
        "MessageBody",
        "MessageAttributes",
        "DelaySeconds",
        "MessageGroupId",
        "MessageDeduplicationId",
    }
)
_ATTRIBUTES = frozenset(
    {
        "FifoQueue",
        "ContentBasedDeduplication",
        "DeduplicationScope",
        "FifoThroughputLimit",
        "KmsMasterKeyId",
        "Policy",
        "RedrivePolicy",
        "ReceiveMessageWaitTimeSeconds",
        "SqsManagedSseEnabled",
    }
)
"""Attributes that a queue may lack, and that may be asked for."""


def main() -> None:
    """Run the server."""
    argparse.ArgumentParser(description="Serve a fake SQS that counts messages.").parse_args()
    run(SimulatedQueues())


if __name__ == "__main__":
    main()
