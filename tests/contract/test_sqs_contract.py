"""The fake SQS and moto's answer alike, as far as ddbload and the measurements use SQS."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from bench.listing import bucket_server, control
from tests.contract.conftest import ACCOUNT, ONCE

NAMES = (f"queue-{number}" for number in itertools.count())
MIB = 1_048_576
"""SendMessageBatch: "The maximum allowed individual message size and the maximum total payload size
(the sum of the individual lengths of all of the batched messages) are both 1 MiB 1,048,576 bytes."
"""


class Sqs:
    """A client, and what arrived in its queues."""

    def __init__(self, client: Any, endpoint: str | None) -> None:
        self.client = client
        self._endpoint = endpoint

    def make(self, suffix: str = "", **attributes: str) -> str:
        """Make a queue, and return its URL."""
        found = self.client.create_queue(QueueName=next(NAMES) + suffix, Attributes=attributes)
        return str(found["QueueUrl"])

    def bodies(self, url: str) -> list[str]:
        """Return the bodies of the queue's messages in order."""
        if self._endpoint is not None:
            name = url.rpartition("/")[2]
            found = control(self._endpoint, "/messages")
            return [each["body"] for each in found if each["queue"] == name]
        bodies = []
        while answer := self.client.receive_message(QueueUrl=url, MaxNumberOfMessages=10):
            if "Messages" not in answer:
                break
            for each in answer["Messages"]:
                bodies.append(each["Body"])
                self.client.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        return bodies


@pytest.fixture(scope="module", params=["fake", "moto"])
def sqs(request) -> Iterator[Sqs]:
    if request.param == "fake":
        with bucket_server("bench.message_queue") as endpoint:
            client = boto3.client("sqs", endpoint_url=endpoint, config=ONCE, **ACCOUNT)
            yield Sqs(client, endpoint)
    else:
        with mock_aws():
            yield Sqs(boto3.client("sqs", config=ONCE, **ACCOUNT), None)


def entries(*bodies: str, **more: str) -> list[dict[str, str]]:
    return [{"Id": str(n), "MessageBody": body, **more} for n, body in enumerate(bodies)]


def md5_of(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def code_of(error: Any) -> str:
    """Return a code as both protocols' clients name it."""
    return str(error.value.response["Error"]["Code"]).rpartition(".")[2]


def test_queue_is_found_by_name_and_described(sqs):
    url = sqs.make()
    assert sqs.client.get_queue_url(QueueName=url.rpartition("/")[2])["QueueUrl"] == url
    assert url in sqs.client.list_queues(MaxResults=1000)["QueueUrls"]
    found = sqs.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["QueueArn"] == f"arn:aws:sqs:us-east-1:123456789012:{url.rpartition('/')[2]}"
    assert (found["MaximumMessageSize"], found["DelaySeconds"]) == (str(MIB), "0")
    assert float(found["CreatedTimestamp"]) > 1.7e9  # moto's has a fraction
    assert "FifoQueue" not in found
    asked = sqs.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    assert asked["Attributes"] == {"QueueArn": found["QueueArn"]}


def test_fifo_queue_says_so(sqs):
    url = sqs.make(".fifo", FifoQueue="true")
    found = sqs.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (found["FifoQueue"], found["ContentBasedDeduplication"]) == ("true", "false")


def test_missing_queue_is_an_error(sqs):
    url = sqs.make()
    with pytest.raises(ClientError) as error:
        sqs.client.get_queue_url(QueueName="nothing")
    assert code_of(error) == "NonExistentQueue"
    with pytest.raises(ClientError) as error:
        sqs.client.send_message_batch(QueueUrl=f"{url}-not", Entries=entries("a"))
    assert code_of(error) == "NonExistentQueue"


def test_message_is_answered_by_the_md5_of_its_body(sqs):
    url, body = sqs.make(), '{"name": "Zoë 🚀"}'
    answer = sqs.client.send_message(QueueUrl=url, MessageBody=body)
    assert answer["MD5OfMessageBody"] == md5_of(body)
    assert sqs.bodies(url) == [body]


def test_batch_is_answered_entry_by_entry(sqs):
    url, bodies = sqs.make(), [f"message {number}" for number in range(10)]
    answer = sqs.client.send_message_batch(QueueUrl=url, Entries=entries(*bodies))
    assert not answer.get("Failed")
    assert {each["Id"]: each["MD5OfMessageBody"] for each in answer["Successful"]} == {
        str(n): md5_of(body) for n, body in enumerate(bodies)
    }
    assert sorted(sqs.bodies(url)) == sorted(bodies)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ([], "EmptyBatchRequest"),
        (entries(*"abcdefghijk"), "TooManyEntriesInBatchRequest"),
        ([*entries("a"), *entries("b")], "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "a"}], "InvalidBatchEntryId"),
        ([{"Id": "x" * 81, "MessageBody": "a"}], "InvalidBatchEntryId"),
        (entries("a" * (MIB - 10), "b" * 11), "BatchRequestTooLong"),
    ],
    ids=["no entry", "11 entries", "an id twice", "a blank", "a long id", "over 1 MiB"],
)
def test_batch_over_a_limit_is_refused_whole(sqs, refused, code):
    url = sqs.make()
    with pytest.raises(ClientError) as error:
        sqs.client.send_message_batch(QueueUrl=url, Entries=refused)
    assert code_of(error) == code
    assert sqs.bodies(url) == []


def test_batch_of_1_mib_is_taken(sqs):
    url = sqs.make()
    sqs.client.send_message_batch(QueueUrl=url, Entries=entries("a" * (MIB - 10), "b" * 10))
    assert [len(body) for body in sqs.bodies(url)] == [MIB - 10, 10]


def test_message_over_the_queues_own_limit_is_refused(sqs):
    url = sqs.make(MaximumMessageSize="1024")
    sqs.client.send_message(QueueUrl=url, MessageBody="a" * 1024)
    with pytest.raises(ClientError, match="shorter than 1024 bytes") as error:
        sqs.client.send_message(QueueUrl=url, MessageBody="a" * 1025)
    assert code_of(error) == "InvalidParameterValue"


def test_standard_queue_takes_a_group(sqs):
    """ "In standard queues, using MessageGroupId enables fair queues." """
    url = sqs.make()
    sqs.client.send_message_batch(QueueUrl=url, Entries=entries("a", MessageGroupId="g"))
    assert sqs.bodies(url) == ["a"]


def test_fifo_queue_needs_group_and_deduplication_ids(sqs):
    url = sqs.make(".fifo", FifoQueue="true")
    with pytest.raises(ClientError, match="MessageGroupId") as error:
        sqs.client.send_message(QueueUrl=url, MessageBody="a", MessageDeduplicationId="d")
    assert code_of(error) == "MissingParameter"
    with pytest.raises(ClientError, match="MessageDeduplicationId") as error:
        sqs.client.send_message(QueueUrl=url, MessageBody="a", MessageGroupId="g")
    assert code_of(error) == "InvalidParameterValue"
    assert sqs.bodies(url) == []


@pytest.mark.parametrize("content_based", [False, True])
def test_fifo_queue_delivers_a_repeated_message_once(sqs, content_based):
    url = sqs.make(".fifo", FifoQueue="true", ContentBasedDeduplication=str(content_based).lower())
    one = entries("first", MessageGroupId="g")
    two = entries("second", MessageGroupId="g")
    if not content_based:
        one[0]["MessageDeduplicationId"] = "run-1"
        two[0]["MessageDeduplicationId"] = "run-2"
    for sent in (one, two, one):
        answer = sqs.client.send_message_batch(QueueUrl=url, Entries=sent)
        assert [each["Id"] for each in answer["Successful"]] == ["0"]
    assert sqs.bodies(url) == ["first", "second"]
