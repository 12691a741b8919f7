"""Answers that the event loop's transport derives from responses."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ddbload.aws.http_client.event_loop import RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.signers import DynamoDBSigner
from ddbload.write.requests import BatchRequests
from ddbload.write.scheduler.messages import Accepted, Answer, Unsure
from ddbload.write.transports import RawTransport


@pytest.fixture
def transport() -> RawTransport:
    # Answers without a failure never reach the signer.
    return RawTransport(cast("DynamoDBSigner", None), BatchRequests("t", ["id"]))


def item(key: str) -> dict[str, Any]:
    return {"id": {"S": key}}


def answer(transport: RawTransport, returned: list[str], sent: str, units: float = 2.0) -> Answer:
    unprocessed = (
        {"t": [{"PutRequest": {"Item": item(key)}} for key in returned]} if returned else {}
    )
    consumed = [{"TableName": "t", "CapacityUnits": units}]
    body = json.dumps({"UnprocessedItems": unprocessed, "ConsumedCapacity": consumed}).encode()
    response = Response(200, {}, body, True)
    return transport.answer(response, 0, len(sent), lambda: [item(key) for key in sent])


def test_answer_matches_unprocessed_items_to_the_rows_sent(transport):
    assert answer(transport, ["b"], "ab") == Accepted([1], 2.0)
    assert answer(transport, ["b"], "ba") == Accepted([0], 2.0)
    assert isinstance(answer(transport, ["b"], "ac"), Unsure)


def test_answer_is_the_same_when_cached(transport):
    for _ in range(3):
        assert answer(transport, [], "ab") == Accepted([], 2.0)
        assert answer(transport, [], "abc", 3.0) == Accepted([], 3.0)


def test_answer_cache_is_bounded(transport):
    for units in range(1000):
        assert answer(transport, [], "ab", float(units)) == Accepted([], float(units))
    assert len(transport._cached_answers) <= 100


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"1", b"\xff", b"[" * 100_000])
def test_answer_is_unsure_when_the_body_is_malformed(transport, body):
    found = transport.answer(Response(200, {}, body, True), 0, 1, list)
    assert isinstance(found, Unsure)


def test_answer_is_unsure_when_the_request_is_lost(transport):
    assert transport.answer(RequestLost("ReadTimeout"), 0, 1, list) == Unsure("ReadTimeout")
