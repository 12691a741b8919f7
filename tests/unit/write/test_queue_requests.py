"""Requests that send messages, and the meaning of SQS's answers entry by entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_code
from ddbload.contracts.queue_messages import message_entry
from ddbload.errors import AccessDenied, QueueNotFound
from ddbload.write.drivers.blocking import QueueTransport
from ddbload.write.queue_requests import (
    REFUSED_BY_SQS,
    QueueRequests,
    message_of_entry,
    queue_body,
)
from ddbload.write.scheduler.messages import Accepted, Fatal, Refused, Throttled, Unsure

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
REQUESTS = QueueRequests("orders", URL)


def taken(*numbers: int) -> list[dict[str, Any]]:
    return [{"Id": str(n), "MessageId": f"m{n}", "MD5OfMessageBody": "0"} for n in numbers]


def fails(
    number: int, code: str = "InternalError", *, sender: bool = False, text: str = "words"
) -> dict[str, Any]:
    return {"Id": str(number), "Code": code, "SenderFault": sender, "Message": text}


def answer(rows: int, **lists: Any) -> Any:
    return REQUESTS.accepted(lists, rows, list)


def test_body_is_the_same_for_both_clients():
    bodies = ['{"text":"Zoë 🚀"}', '{"text":"\\u0001\\"\\\\"}', "{}"]
    entries = [
        message_entry(body.encode().decode("latin-1"), "g", f"d{n}")
        for n, body in enumerate(bodies)
    ]
    sent = json.loads(queue_body(URL)(entries))
    assert sent == REQUESTS.parameters([message_of_entry(entry) for entry in entries])
    assert sent == {
        "QueueUrl": URL,
        "Entries": [
            {
                "Id": str(n),
                "MessageBody": body,
                "MessageGroupId": "g",
                "MessageDeduplicationId": f"d{n}",
            }
            for n, body in enumerate(bodies)
        ],
    }


def test_answer_that_names_every_message_is_complete():
    for lists in ({}, {"Failed": []}, {"Failed": None}):
        found = answer(10, Successful=taken(*range(10)), **lists)
        assert found == Accepted()
        assert found.is_complete


def test_answer_with_failed_messages_sends_these_again():
    found = answer(3, Successful=taken(1), Failed=[fails(2), fails(0, "ServiceUnavailable")])
    assert found == Accepted(failed=(2, 0))
    assert not found.is_complete


def test_answer_with_a_senders_fault_rejects_the_message():
    found = answer(
        2,
        Successful=taken(0),
        Failed=[fails(1, "InvalidMessageContents", sender=True, text="bad characters")],
    )
    assert found == Accepted(
        refused={1: Refused("InvalidMessageContents: bad characters", REFUSED_BY_SQS)}
    )


@pytest.mark.parametrize("sender", [True, False])
def test_answer_with_a_throttled_message_slows_down(sender):
    found = answer(2, Successful=taken(0), Failed=[fails(1, "RequestThrottled", sender=sender)])
    assert found == Accepted((1,))


def test_answer_with_a_key_that_cannot_be_used_ends_the_run():
    found = answer(2, Successful=taken(0), Failed=[fails(1, "KmsDisabled", sender=True)])
    assert list(found.failed) == [1]
    assert "orders" in str(found.fatal)
    assert isinstance(found.fatal, AccessDenied)
    assert "KmsDisabled" in str(found.fatal)
    assert "kms:GenerateDataKey" in str(found.fatal)


def test_message_that_the_answer_leaves_out_may_have_been_sent():
    assert answer(3, Successful=taken(0)) == Accepted(failed=(1, 2), unsure=(1, 2))
    assert answer(3, Successful=taken(0), Failed=[fails(2)]) == Accepted(failed=(1, 2), unsure=(1,))
    assert answer(2) == Accepted(failed=(0, 1), unsure=(0, 1))


@pytest.mark.parametrize(
    "lists",
    [
        {"Successful": taken(0, 2)},
        {"Successful": taken(0, 0)},
        {"Successful": taken(0), "Failed": [fails(0)]},
        {"Successful": [{"Id": 0}]},
        {"Successful": [{"Id": "00"}]},
        {"Successful": [{"Id": "-1"}]},
        {"Successful": [{"Id": "\N{SUPERSCRIPT TWO}"}]},
        {"Successful": [{"Id": "9" * 5000}]},
        {"Successful": ["0"]},
        {"Successful": "0"},
        {"Successful": {"Id": "0"}},
        {"Failed": [{}]},
    ],
)
def test_answer_that_contradicts_the_request_is_unsure(lists):
    assert isinstance(answer(2, **lists), Unsure)


@pytest.mark.parametrize("response", [None, [], "text", 1])
def test_answer_that_is_no_object_is_unsure(response):
    assert isinstance(REQUESTS.accepted(response, 1, list), Unsure)


def failed(code: str, status: int = 400, text: str = "words") -> Any:
    return REQUESTS.failed(failure_of_code(code, text, status), 1, list)


@pytest.mark.parametrize("code", ["RequestThrottled", "ThrottlingException", "KmsThrottled"])
def test_throttled_request_slows_down(code):
    assert failed(code) == Throttled(code)


@pytest.mark.parametrize("code", ["InternalFailure", "ServiceUnavailable"])
def test_failed_request_may_have_been_carried_out(code):
    assert failed(code, 500) == Unsure(code)


@pytest.mark.parametrize(
    "code",
    [
        "InvalidMessageContents",
        "BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidParameterValue",
        "MissingParameter",
    ],
)
def test_refused_request_is_halved_until_the_message_is_found(code):
    found = failed(code)
    assert isinstance(found, Refused)
    assert found.cause == REFUSED_BY_SQS


@pytest.mark.parametrize("code", ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"])
def test_missing_queue_ends_the_run(code):
    found = failed(code)
    assert isinstance(found, Fatal)
    assert isinstance(found.error, QueueNotFound)


def test_missing_permission_ends_the_run():
    found = failed("AccessDeniedException", 403, "not authorized to perform: sqs:SendMessage")
    assert isinstance(found.error, AccessDenied)
    assert "sending to queue orders" in str(found.error)
    assert not found.unsure


def test_unknown_error_is_not_quoted():
    found = failed("SurprisingError", 400, "the row secret-row-data")
    assert "secret-row-data" not in str(found.error)
    assert found.unsure


class Client:
    """A client whose calls give or raise what a test says."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def send_message_batch(self, **_: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_client_transport_interprets_answers_and_failures():
    for outcome, due in [
        ({"Successful": taken(0)}, Accepted()),
        (ConnectionError("lost"), Unsure("ConnectionError")),
        (AttributeError("no object"), Unsure("an answer that is not SQS's")),
    ]:
        assert QueueTransport(Client(outcome), REQUESTS).send([{"MessageBody": "a"}]) == due
    with pytest.raises(RuntimeError):
        QueueTransport(Client(RuntimeError()), REQUESTS).send([{"MessageBody": "a"}])


def test_failure_of_a_signature_has_advice():
    failure = AwsFailure(FailureKind.FATAL, "InvalidSignatureException", "words", 403)
    assert "secret key" in str(REQUESTS.failed(failure, 1, list).error)
