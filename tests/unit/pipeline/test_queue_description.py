"""The look at a queue before rows are sent to it, and its errors."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.run_record import Table
from ddbload.contracts.target import MESSAGE_DEDUPLICATION, MESSAGE_GROUP, QueueTarget
from ddbload.errors import AccessDenied, QueueNotFound, QueueReplaced, RequestRefused
from ddbload.pipeline.queue_description import describe_queue, require_same_queue

POLICY = RetryPolicy(attempts=2, sleep=lambda _: None)
ORDERS = QueueTarget("orders")
URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"


def refused(code: str, status: int = 400, text: str = "words") -> ClientError:
    metadata = {"HTTPStatusCode": status}
    response: Any = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": metadata}
    return ClientError(response, "GetQueueUrl")


class FakeSqs:
    """A queue, or the error of the first call."""

    meta = SimpleNamespace(region_name="eu-west-1")

    def __init__(self, error: Exception | None = None, **attributes: str) -> None:
        self.error = error
        self.names = ["orders", "other"]
        self.attributes = {
            "QueueArn": "arn:aws:sqs:eu-west-1:123456789012:orders",
            "CreatedTimestamp": "1795300000",
            "MaximumMessageSize": "262144",
            **attributes,
        }

    def get_queue_url(self, **_: str) -> Any:
        if self.error is not None:
            raise self.error
        return {"QueueUrl": URL}

    def get_queue_attributes(self, **asked: Any) -> Any:
        if self.error is not None:
            raise self.error
        assert asked == {"QueueUrl": URL, "AttributeNames": ["All"]}
        return {"Attributes": self.attributes}

    def list_queues(self, **_: Any) -> Any:
        return {"QueueUrls": [f"{URL.rpartition('/')[0]}/{name}" for name in self.names]}


def described(sqs: FakeSqs, target: QueueTarget = ORDERS) -> Table:
    return describe_queue(target, cast("Any", SimpleNamespace(sqs=sqs)), retry_policy=POLICY)


def test_queue_stands_in_the_record_as_a_table():
    found = described(FakeSqs())
    assert (found.name, found.kind, found.url) == ("sqs:orders", "queue", URL)
    assert (found.keys, found.message_bytes, found.is_ordered) == ((), 262_144, False)
    assert Table.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_queue_may_not_allow_more_than_sqs():
    assert described(FakeSqs(MaximumMessageSize="9999999")).message_bytes == 1_048_576


def test_ids_are_keys_that_each_row_needs():
    found = described(FakeSqs(), QueueTarget("orders.fifo", "{customer}", "{id}"))
    assert [(key.name, key.max_bytes) for key in found.keys] == [
        (MESSAGE_GROUP, 128),
        (MESSAGE_DEDUPLICATION, 128),
    ]
    assert found.is_ordered


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"])
def test_missing_queue_is_named_with_its_region_and_a_like_name(code):
    with pytest.raises(QueueNotFound, match=r"no queue ordres in eu-west-1 .*--region.*'orders'"):
        described(FakeSqs(refused(code)), QueueTarget("ordres"))


def test_missing_permission_is_named():
    with pytest.raises(AccessDenied, match=r"orders.*sqs:GetQueueAttributes and sqs:SendMessage"):
        described(FakeSqs(refused("AccessDeniedException", 403)))


def test_answer_of_another_service_is_refused():
    sqs = FakeSqs()
    del sqs.attributes["QueueArn"]
    with pytest.raises(RequestRefused, match="endpoint"):
        described(sqs)


@pytest.mark.parametrize(
    ("sqs", "error"),
    [
        (FakeSqs(), None),
        (FakeSqs(CreatedTimestamp="1795300000.25"), None),
        (FakeSqs(CreatedTimestamp="1795300001"), QueueReplaced),
        (FakeSqs(QueueArn="arn:aws:sqs:eu-west-1:999999999999:orders"), QueueReplaced),
        (FakeSqs(refused("QueueDoesNotExist")), QueueNotFound),
    ],
    ids=["same", "same with a fraction", "made later", "of another account", "deleted"],
)
def test_queue_that_was_replaced_is_noticed(sqs, error):
    table = described(FakeSqs())
    clients: Any = SimpleNamespace(sqs=sqs)
    if error is None:
        require_same_queue(ORDERS, table, clients, retry_policy=POLICY)
        return
    with pytest.raises(error, match="queue orders"):
        require_same_queue(ORDERS, table, clients, retry_policy=POLICY)
