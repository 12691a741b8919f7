"""A batch's answer says which messages come again, as Lambda reads it."""

import json

import pytest

from localaws.functions.function import Outcome
from localaws.functions.queue_batches import QueueMessage, batch_event, failed_messages

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:uploads"


def outcome(answer, *, failed=False):
    return Outcome(json.dumps(answer).encode(), failed)


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, set()),
        ({}, set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": None}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "b"}]}, {"b"}),
        # "Lambda treats a batch as a complete failure" for each of these.
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, {"a", "b"}),
        ({"batchItemFailures": [{"id": "b"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": "c"}]}, {"a", "b"}),
        ("text", {"a", "b"}),
    ],
)
def test_answer_names_the_messages_that_come_again(answer, failed):
    assert failed_messages(outcome(answer), ["a", "b"], partial=True) == failed


def test_whole_batch_comes_again_after_an_error():
    assert failed_messages(outcome({}, failed=True), ["a", "b"], partial=True) == {"a", "b"}


def test_answer_is_ignored_without_report_batch_item_failures():
    answer = outcome({"batchItemFailures": [{"itemIdentifier": "b"}]})
    assert failed_messages(answer, ["a", "b"], partial=False) == set()


def test_batch_has_sqs_records():
    message = QueueMessage("id", "receipt", "body", "md5", {"ApproximateReceiveCount": "3"})
    assert json.loads(batch_event([message], QUEUE)) == {
        "Records": [
            {
                "messageId": "id",
                "receiptHandle": "receipt",
                "body": "body",
                "attributes": {"ApproximateReceiveCount": "3"},
                "messageAttributes": {},
                "md5OfBody": "md5",
                "eventSource": "aws:sqs",
                "eventSourceARN": QUEUE,
                "awsRegion": "eu-west-1",
            }
        ]
    }
