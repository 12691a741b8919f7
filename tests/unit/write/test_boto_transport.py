"""Answers of BotoTransport to every response and failure of the strict fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ddbload.dynamodb.modes import INSERT, Deletion
from ddbload.errors import AccessDenied, RequestRefused, TableNotFound
from ddbload.write.requests import BatchRequests, ConditionalPutRequests
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.transports import BotoTransport
from tests.fakes.client import connect_timeout, connection_closed, read_timeout, unreachable
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import (
    THROTTLES,
    Fault,
    as_stored,
    empty_answer,
    error,
    fails,
    never_sent,
    nothing_processed,
    other_table,
    processed_first,
    scientific,
)

WRITTEN, SKIPPED = RowOutcome.WRITTEN, RowOutcome.SKIPPED
TABLE = "table"
KEYS = ("id", "sort")


def made(count: int = 3, **more: Any) -> list[dict[str, Any]]:
    """Make items whose sort keys are numbers with a needless zero."""
    return [{"id": {"S": "a"}, "sort": {"N": f"{n}.0"}, **more} for n in range(1, count + 1)]


@pytest.fixture
def dynamodb() -> FakeDynamoDB:
    fake = FakeDynamoDB()
    fake.create_table(
        TableName=TABLE,
        KeySchema=[
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "sort", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "sort", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return fake


def send(
    dynamodb: FakeDynamoDB, items: Sequence[dict[str, Any]], *faults: Fault, table: str = TABLE
) -> Answer:
    dynamodb.faults.add("batch_write_item", *faults)
    answer = BotoTransport(dynamodb, BatchRequests(table, KEYS)).send(items)
    assert dynamodb.faults.left() == {}
    return answer


def rewritten(**members: Any) -> Fault:
    """Make a fault that writes everything and replaces these members of the response."""
    return Fault(rewrite=lambda answer: answer | members)


def returned(*requests: Any, table: str = TABLE) -> Fault:
    return rewritten(UnprocessedItems={table: list(requests)})


def put(**item: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": item}}


# Written rows


def test_batch_request_puts_items(dynamodb):
    answer = send(dynamodb, made(3, text={"S": "x"}))
    assert answer == Accepted([], 3.0)
    stored = [{"id": {"S": "a"}, "sort": {"N": n}, "text": {"S": "x"}} for n in "123"]
    assert dynamodb.items(TABLE) == stored


def test_batch_request_names_one_table_and_asks_for_consumed_capacity(dynamodb):
    items = made(25)
    send(dynamodb, items)
    assert dynamodb.calls[-1].params == {
        "RequestItems": {TABLE: [{"PutRequest": {"Item": item}} for item in items]},
        "ReturnConsumedCapacity": "TOTAL",
    }


def test_answer_carries_the_consumed_units(dynamodb):
    assert send(dynamodb, made(2, text={"S": "x" * 5000})) == Accepted([], 10.0)


def test_batch_request_mixes_puts_and_deletions(dynamodb):
    first, second, third = made(3)
    dynamodb.put_item(TableName=TABLE, Item=first)
    items = [Deletion(first), second, third]
    for processed in (0, 1):
        answer = send(dynamodb, items, processed_first(processed))
        assert isinstance(answer, Accepted)
        assert sorted(answer.unprocessed) == list(range(processed, 3))
    assert dynamodb.items(TABLE) == []


def test_answer_is_unsure_when_a_put_returns_for_a_deletion(dynamodb):
    answer = send(dynamodb, [Deletion(made(1)[0])], returned(put(**made(1)[0])))
    assert isinstance(answer, Unsure)


# Unprocessed items


@pytest.mark.parametrize("spell", [None, as_stored, scientific])
def test_unprocessed_items_match_all_rows_in_any_number_notation(dynamodb, spell):
    answer = send(dynamodb, made(10), nothing_processed(spell))
    assert isinstance(answer, Accepted)
    assert sorted(answer.unprocessed) == list(range(10))
    assert answer.consumed == 0
    assert dynamodb.items(TABLE) == []


@pytest.mark.parametrize("spell", [None, as_stored, scientific])
def test_unprocessed_items_match_their_rows_in_any_number_notation(dynamodb, spell):
    answer = send(dynamodb, made(10), processed_first(7, spell))
    assert isinstance(answer, Accepted)
    assert sorted(answer.unprocessed) == [7, 8, 9]
    assert answer.consumed == 7
    assert len(dynamodb.items(TABLE)) == 7


def test_unprocessed_items_match_38_digit_number_keys(dynamodb):
    digits = "1234567890123456789012345678901234567"
    items = [{"id": {"S": "a"}, "sort": {"N": digits + last}} for last in "123"]
    answer = send(dynamodb, items, processed_first(2))
    assert isinstance(answer, Accepted)
    assert list(answer.unprocessed) == [2]


def test_unprocessed_items_match_text_keys_by_their_characters(dynamodb):
    dynamodb.create_table(
        TableName="texts",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.faults.add("batch_write_item", processed_first(1))
    items = [{"id": {"S": "1.0"}}, {"id": {"S": "1"}}]
    answer = BotoTransport(dynamodb, BatchRequests("texts", ["id"])).send(items)
    assert isinstance(answer, Accepted)
    assert list(answer.unprocessed) == [1]


def test_unprocessed_items_match_binary_keys(dynamodb):
    dynamodb.create_table(
        TableName="binaries",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "B"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.faults.add("batch_write_item", processed_first(1))
    items = [{"id": {"B": "AA=="}}, {"id": {"B": "/w=="}}]
    answer = BotoTransport(dynamodb, BatchRequests("binaries", ["id"])).send(items)
    assert isinstance(answer, Accepted)
    assert list(answer.unprocessed) == [1]
    assert dynamodb.items("binaries") == [{"id": {"B": b"\x00"}}]


def test_batch_request_deletes_by_a_binary_key(dynamodb):
    dynamodb.create_table(
        TableName="binaries",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "B"}],
        BillingMode="PAY_PER_REQUEST",
    )
    writer = BotoTransport(dynamodb, BatchRequests("binaries", ["id"]))
    assert isinstance(writer.send([{"id": {"B": "AA=="}}, {"id": {"B": "/w=="}}]), Accepted)
    assert isinstance(writer.send([Deletion({"id": {"B": "AA=="}})]), Accepted)
    assert dynamodb.items("binaries") == [{"id": {"B": b"\xff"}}]


def test_binary_values_are_sent_as_bytes_at_any_depth(dynamodb):
    nested = {"M": {"a": {"L": [{"B": "/w=="}, {"BS": ["AA==", "AQ=="]}, {"S": "AA=="}]}}}
    assert isinstance(send(dynamodb, made(1, nested=nested)), Accepted)
    (item,) = dynamodb.items(TABLE)
    assert item["nested"] == {
        "M": {"a": {"L": [{"B": b"\xff"}, {"BS": [b"\x00", b"\x01"]}, {"S": "AA=="}]}}
    }


@pytest.mark.parametrize(("there", "outcome"), [("/w==", RowOutcome.IDENTICAL), ("/g==", SKIPPED)])
def test_existing_item_is_compared_by_its_binary_values(dynamodb, there, outcome):
    items = made(1, data={"B": there})
    condition = INSERT.condition_parameters("id", None)
    writer = BotoTransport(dynamodb, ConditionalPutRequests(TABLE, condition))
    assert isinstance(writer.send(items), Accepted)
    answer = writer.send(made(1, data={"B": "/w=="}))
    assert isinstance(answer, Accepted)
    assert answer.outcome is outcome


def test_unprocessed_items_returned_twice_match_one_row(dynamodb):
    item = made(1)[0]
    answer = send(dynamodb, made(3), returned(put(**item), put(**item)))
    assert isinstance(answer, Accepted)
    assert set(answer.unprocessed) == {0}


def test_unprocessed_items_match_by_key_alone(dynamodb):
    answer = send(dynamodb, made(3), returned(put(id={"S": "a"}, sort={"N": "2"}, other={"S": ""})))
    assert isinstance(answer, Accepted)
    assert list(answer.unprocessed) == [1]


@pytest.mark.parametrize("empty", [{}, {TABLE: []}])
def test_answer_is_accepted_when_unprocessed_items_are_empty(dynamodb, empty):
    assert send(dynamodb, made(3), rewritten(UnprocessedItems=empty)) == Accepted([], 3.0)


# Responses that contradict the request: the rows may or may not be written


@pytest.mark.parametrize("landed", [True, False])
def test_answer_is_unsure_when_the_body_is_empty(dynamodb, landed):
    assert isinstance(send(dynamodb, made(), empty_answer(landed)), Unsure)


def test_answer_is_unsure_when_items_return_for_another_table(dynamodb):
    assert isinstance(send(dynamodb, made(), other_table("other")), Unsure)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(never_sent(TABLE, put(id={"S": "b"}, sort={"N": "1"})), id="another item"),
        pytest.param(
            returned(put(id={"S": "a"}, sort={"N": "1"}), put(id={"S": "a"}, sort={"N": "99"})),
            id="one that was sent and one that was not",
        ),
        pytest.param(returned(put(id={"N": "1"}, sort={"N": "1"})), id="another type"),
        pytest.param(returned(put(id={"B": "a"}, sort={"N": "1"})), id="only its type differs"),
        pytest.param(returned(put(id={"S": "a"})), id="half a key"),
        pytest.param(returned(put()), id="an empty item"),
        pytest.param(returned(put(id={"S": "a"}, sort={"N": "one"})), id="no number"),
        pytest.param(returned(put(id={"S": "a"}, sort={"N": "NaN"})), id="not a number"),
        pytest.param(returned(put(id={"S": "a"}, sort={"N": "sNaN"})), id="signalling"),
        pytest.param(returned(put(id={"S": "a"}, sort={"N": None})), id="null for a number"),
        pytest.param(returned(put(id={"S": "a"}, sort={"N": ["1"]})), id="a list for a number"),
        pytest.param(returned(put(id={"S": ["a"]}, sort={"N": "1"})), id="a list for text"),
        pytest.param(returned(put(id={}, sort={"N": "1"})), id="no value"),
        pytest.param(returned(put(id={"S": "a", "N": "1"}, sort={"N": "1"})), id="two values"),
        pytest.param(returned(put(id=None, sort={"N": "1"})), id="null for a value"),
        pytest.param(returned(put(id="a", sort={"N": "1"})), id="text for a value"),
        pytest.param(returned({"PutRequest": {"Item": None}}), id="null for an item"),
        pytest.param(returned({"PutRequest": {}}), id="no item"),
        pytest.param(returned({"PutRequest": None}), id="null for a put"),
        pytest.param(returned({"DeleteRequest": {"Key": made(1)[0]}}), id="a deletion"),
        pytest.param(returned({}), id="no request"),
        pytest.param(returned(None), id="null for a request"),
        pytest.param(returned("put"), id="text for a request"),
        pytest.param(rewritten(UnprocessedItems={TABLE: None}), id="null for requests"),
        pytest.param(rewritten(UnprocessedItems={TABLE: 5}), id="a number for requests"),
        pytest.param(
            rewritten(UnprocessedItems={TABLE: [put(**made(1)[0])], "other": []}), id="two tables"
        ),
        pytest.param(rewritten(UnprocessedItems={"other": []}), id="nothing for another table"),
        pytest.param(rewritten(UnprocessedItems=None), id="null"),
        pytest.param(rewritten(UnprocessedItems=[]), id="a list"),
        pytest.param(rewritten(UnprocessedItems="no"), id="text"),
    ],
)
def test_answer_is_unsure_when_it_contradicts_the_request(dynamodb, fault):
    assert isinstance(send(dynamodb, made(), fault), Unsure)
    assert len(dynamodb.items(TABLE)) == 3


@pytest.mark.parametrize("body", [None, [], "text", 7])
def test_answer_is_unsure_when_the_body_is_not_an_object(body):
    class Client:
        def batch_write_item(self, **_: Any) -> Any:
            return body

    assert isinstance(BotoTransport(Client(), BatchRequests(TABLE, KEYS)).send(made()), Unsure)


@pytest.mark.parametrize(
    ("reported", "units"),
    [
        (None, 0),
        ([], 0),
        ({}, 0),
        (5, 0),
        ([None], 0),
        (["text"], 0),
        ([{}], 0),
        ([{"TableName": TABLE}], 0),
        ([{"CapacityUnits": None}], 0),
        ([{"CapacityUnits": "3"}], 0),
        ([{"CapacityUnits": -3.0}], 0),
        ([{"CapacityUnits": float("nan")}], 0),
        ([{"CapacityUnits": float("inf")}], 0),
        ([{"CapacityUnits": 3}], 3),
        ([{"CapacityUnits": 3.5}, {"CapacityUnits": 1.0}], 4.5),
    ],
)
def test_consumed_units_ignore_malformed_entries(dynamodb, reported, units):
    answer = send(dynamodb, made(), rewritten(ConsumedCapacity=reported))
    assert answer == Accepted([], units)


def test_consumed_units_are_zero_when_not_reported(dynamodb):
    fault = Fault(rewrite=lambda _: {"UnprocessedItems": {}})
    assert send(dynamodb, made(), fault) == Accepted([], 0.0)


# Errors


@pytest.mark.parametrize("code", THROTTLES)
def test_answer_is_throttled_for_each_throttle_code(dynamodb, code):
    assert send(dynamodb, made(), fails(code)) == Throttled(code)
    assert dynamodb.items(TABLE) == []


@pytest.mark.parametrize("code", THROTTLES)
@pytest.mark.parametrize(
    ("names", "key_range"),
    [
        (["TableWriteKeyRangeThroughputExceeded"], True),
        (["IndexWriteKeyRangeThroughputExceeded", "TableWriteKeyRangeThroughputExceeded"], True),
        (["TableWriteKeyRangeThroughputExceeded", "TableWriteAccountLimitExceeded"], False),
        (["TableWriteProvisionedThroughputExceeded"], False),
        (["TableWriteMaxOnDemandThroughputExceeded"], False),
        (["KeyRange"], False),
    ],
)
def test_answer_names_a_key_range_when_all_reasons_do(dynamodb, code, names, key_range):
    reasons = [(name, "arn:aws:dynamodb:us-east-1:1:table/any") for name in names]
    assert send(dynamodb, made(), fails(code, *reasons)) == Throttled(code, key_range)


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize(
    "raised",
    [
        error("InternalServerError"),
        error("ServiceUnavailable"),
        unreachable(),
        connect_timeout(),
        read_timeout(),
        connection_closed(),
        ConnectionResetError("reset"),
        TimeoutError("late"),
    ],
    ids=lambda raised: getattr(raised, "code", type(raised).__name__),
)
def test_answer_is_unsure_when_the_response_is_lost(dynamodb, raised, landed):
    answer = send(dynamodb, made(), Fault(raises=raised, landed=landed))
    assert isinstance(answer, Unsure)
    assert len(dynamodb.items(TABLE)) == 3 * landed


@pytest.mark.parametrize(
    ("items", "says"),
    [
        pytest.param([{"id": {"S": "a"}}], "does not match the schema", id="no sort key"),
        pytest.param(made(1) * 2, "duplicates", id="a key twice"),
        pytest.param(made(26), "Too many items", id="26 items"),
        pytest.param(made(1, text={"S": "x" * 409_600}), "maximum allowed size", id="too large"),
        pytest.param(made(1, number={"N": "1" * 39}), "38 significant digits", id="39 digits"),
        pytest.param(made(1, text={"S": "\ud800"}), "Unicode", id="half a surrogate pair"),
    ],
)
def test_answer_is_refused_for_invalid_content(dynamodb, items, says):
    answer = send(dynamodb, items)
    assert isinstance(answer, Refused)
    assert says in answer.message


def test_answer_is_refused_when_the_request_is_too_large(dynamodb):
    # The rows may pass in smaller requests.
    items = [item | {"text": {"S": "x" * 400_000}} for item in made(25)]
    items = [item | {"more": {"S": "\x00" * 50_000}} for item in items]
    assert isinstance(send(dynamodb, items), Refused)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        "ExpiredTokenException",
        "UnrecognizedClientException",
        "InvalidSignatureException",
    ],
)
def test_answer_is_fatal_when_permission_is_denied(dynamodb, code):
    answer = send(dynamodb, made(), fails(code))
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, AccessDenied)
    assert code in answer.error.message
    assert TABLE in answer.error.message


def test_answer_is_fatal_when_the_table_is_gone(dynamodb):
    answer = send(dynamodb, made(), table="gone")
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, TableNotFound)
    assert "gone" in answer.error.message


def test_answer_is_fatal_without_the_text_of_an_unknown_error(dynamodb):
    unknown = ClientError(
        {
            "Error": {"Code": "NewException", "Message": 'new: {"id": {"S": "a"}}'},
            "ResponseMetadata": {"HTTPStatusCode": 400},  # type: ignore[typeddict-item]
        },
        "BatchWriteItem",
    )
    answer = send(dynamodb, made(), Fault(raises=unknown))
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, RequestRefused)
    # The text of an unknown error may quote rows, so it is left out.
    assert answer.error.message.startswith("writing to table table: NewException: HTTP status 400")


@pytest.mark.parametrize("raised", [RuntimeError("ours"), MemoryError(), KeyboardInterrupt()])
def test_transport_raises_errors_that_are_not_failed_calls(dynamodb, raised):
    with pytest.raises(type(raised)):
        send(dynamodb, made(), Fault(raises=raised))


# Through botocore's own parser


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b'"text"',
        b"5",
        b"true",
        b"\x00\xff garbage",
        b"<html><body>Bad Gateway</body></html>",
        b'{"UnprocessedItems": null}',
        b'{"UnprocessedItems": []}',
        b'{"UnprocessedItems": "none"}',
        b'{"UnprocessedItems": {"table": null}}',
        b'{"UnprocessedItems": {"table": [null]}}',
        b'{"UnprocessedItems": {"table": [{}]}}',
        b'{"UnprocessedItems": {"table": [{"PutRequest": null}]}}',
        b'{"UnprocessedItems": {"table": [{"PutRequest": {"Item": {}}}]}}',
        b'{"UnprocessedItems": {"table": [{"PutRequest": {"Item": {"id": null}}}]}}',
        b'{"UnprocessedItems": {"table": [{"PutRequest": {"Item": {"id": {}}}}]}}',
        b'{"UnprocessedItems": {"table": [{"PutRequest": {"Item": {"id": {"X": "a"}}}}]}}',
        b'{"unprocessedItems": {}}',
    ],
)
def test_answer_is_unsure_when_the_body_is_malformed(canned, body):
    client, answers = canned
    answers.say(body)
    assert isinstance(BotoTransport(client, BatchRequests(TABLE, KEYS)).send(made()), Unsure)
    assert len(answers.requests) == 1


def test_answer_is_unsure_when_the_checksum_does_not_match(canned):
    client, answers = canned
    answers.say(b'{"UnprocessedItems": {}}', crc32=1)
    answer = BotoTransport(client, BatchRequests(TABLE, KEYS)).send(made())
    assert answer == Unsure("ChecksumMismatch")


def test_answer_is_accepted_when_the_body_is_sound(canned):
    client, answers = canned
    answers.say(b'{"UnprocessedItems": {}, "ConsumedCapacity": [{"CapacityUnits": 3.0}]}')
    assert BotoTransport(client, BatchRequests(TABLE, KEYS)).send(made()) == Accepted([], 3.0)


@pytest.mark.parametrize(
    "reported", ["[null]", "[{}]", "null", '[{"CapacityUnits": null}]', '[{"CapacityUnits": NaN}]']
)
def test_answer_is_accepted_when_its_units_are_malformed(canned, reported):
    client, answers = canned
    answers.say(f'{{"UnprocessedItems": {{}}, "ConsumedCapacity": {reported}}}'.encode())
    assert BotoTransport(client, BatchRequests(TABLE, KEYS)).send(made()) == Accepted([], 0.0)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("body", [b"", b"<html></html>", b"{}", b"null", b"[]"])
def test_answer_is_unsure_when_a_gateway_fails(canned, status, body):
    client, answers = canned
    answers.say(body, status)
    assert isinstance(BotoTransport(client, BatchRequests(TABLE, KEYS)).send(made()), Unsure)
