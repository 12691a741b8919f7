"""What comes back over a connection."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ddbload.aws.http_client.event_loop import RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.dynamodb_signer import DynamoDBSigner
from ddbload.write.drivers.event_loop import RawTransport
from ddbload.write.requests import BatchRequests
from ddbload.write.scheduler.messages import Accepted, Answer, Unsure


@pytest.fixture
def wire() -> RawTransport:
    # An answer that is none of a failure is nobody's but the requests'.
    return RawTransport(cast("DynamoDBSigner", None), BatchRequests("t", ["id"]))


def item(key: str) -> dict[str, Any]:
    return {"id": {"S": key}}


def answer(wire: RawTransport, returned: list[str], sent: str, units: float = 2.0) -> Answer:
    back = {"t": [{"PutRequest": {"Item": item(key)}} for key in returned]} if returned else {}
    consumed = [{"TableName": "t", "CapacityUnits": units}]
    body = json.dumps({"UnprocessedItems": back, "ConsumedCapacity": consumed}).encode()
    return wire.answer(Response(200, {}, body, True), 0, lambda: [item(key) for key in sent])


def test_answer_matches_unprocessed_items_to_the_rows_sent(wire):
    assert answer(wire, ["b"], "ab") == Accepted([1], 2.0)
    assert answer(wire, ["b"], "ba") == Accepted([0], 2.0)
    assert isinstance(answer(wire, ["b"], "ac"), Unsure)


def test_answer_is_the_same_when_cached(wire):
    for _ in range(3):
        assert answer(wire, [], "ab") == Accepted([], 2.0)
        assert answer(wire, [], "abc", 3.0) == Accepted([], 3.0)


def test_answer_cache_is_bounded(wire):
    for units in range(1000):
        assert answer(wire, [], "ab", float(units)) == Accepted([], float(units))
    assert len(wire._cached_answers) <= 100


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"1", b"\xff", b"[" * 100_000])
def test_answer_is_unsure_when_the_body_is_malformed(wire, body):
    found = wire.answer(Response(200, {}, body, True), 0, list)
    assert isinstance(found, Unsure)


def test_answer_is_unsure_when_the_request_is_lost(wire):
    assert wire.answer(RequestLost("ReadTimeout"), 0, list) == Unsure("ReadTimeout")
