"""Batches of queue messages in the form that Lambda passes to a function, and their results.

Source: the Lambda Developer Guide, "Using Lambda with Amazon SQS" and "Handling errors for an SQS
event source in Lambda".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from localaws.functions.function import Outcome


@dataclass(frozen=True)
class QueueMessage:
    """Received message. `attributes`: set by SQS, such as ApproximateReceiveCount."""

    id: str
    receipt: str
    body: str
    md5: str
    attributes: dict[str, str]


def batch_event(messages: Sequence[QueueMessage], queue_arn: str) -> bytes:
    """Return the payload with which Lambda invokes a function for a batch."""
    region = queue_arn.split(":")[3]
    records = [
        {
            "messageId": message.id,
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": message.attributes,
            "messageAttributes": {},
            "md5OfBody": message.md5,
            "eventSource": "aws:sqs",
            "eventSourceARN": queue_arn,
            "awsRegion": region,
        }
        for message in messages
    ]
    return json.dumps({"Records": records}).encode()


def failed_messages(outcome: Outcome, sent: Collection[str], *, partial: bool) -> set[str]:
    """Return the ids of the messages that go back to the queue; the others are deleted.

    `sent`: the ids of the batch. `partial`: the mapping has ReportBatchItemFailures. Without it,
    and for an answer that is not as documented, a batch succeeds or fails as a whole.
    """
    everything = set(sent)
    if outcome.failed:
        return everything
    answer: Any = json.loads(outcome.payload or b"null")
    if not partial or not answer:
        return set()
    try:
        named = {failure["itemIdentifier"] for failure in answer.get("batchItemFailures") or ()}
    except (AttributeError, KeyError, TypeError):
        return everything
    return everything if named - everything else named
