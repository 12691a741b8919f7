"""Answers of BotoTransport to every response and failure of the strict fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ddbload.contracts.options import Options
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.modes import INSERT, PUT, Deletion, WriteMode
from ddbload.errors import AccessDenied
from ddbload.write.requests import WriteRequests
from ddbload.write.scheduler.answers import (
    Accepted,
    Answer,
    Fatal,
    Refused,
    RowOutcome,
    Throttled,
    Unsure,
)
from tests.fakes.client import connect_timeout, connection_closed, read_timeout, unreachable
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import (
    THROTTLES,
    Fault,
    as_stored,
    error,
    fails,
    never_sent,
    processed_first,
    scientific,
)
from tests.fakes.dynamodb_tables import keyed
from tests.unit.items.expected_bodies import write_body
from tests.unit.write.fake_transports import send_through

WRITTEN, SKIPPED = RowOutcome.WRITTEN, RowOutcome.SKIPPED
TABLE = "table"
KEYS = ("id", "sort")


def made(count: int = 3, **more: Any) -> list[dict[str, Any]]:
    """Make items whose sort keys are numbers with a needless zero."""
    return [{"id": {"S": "a"}, "sort": {"N": f"{n}.0"}, **more} for n in range(1, count + 1)]


@pytest.fixture
def dynamodb() -> FakeDynamoDB:
    fake = FakeDynamoDB()
    fake.create_table(**keyed(TABLE, id="S", sort="N"))
    return fake


def send_rows(
    client: Any,
    items: Sequence[dict[str, Any]],
    table: str = TABLE,
    keys: Sequence[str] = KEYS,
    mode: WriteMode = PUT,
) -> Answer:
    described = Table(table, "", tuple(KeyAttribute(key, "S", 1024) for key in keys))
    requests = WriteRequests(Options(mode=mode.name), described)
    return send_through(client, requests, items, write_body(mode, table, items))


def send(
    dynamodb: FakeDynamoDB, items: Sequence[dict[str, Any]], *faults: Fault, table: str = TABLE
) -> Answer:
    dynamodb.faults.add("batch_write_item", *faults)
    answer = send_rows(dynamodb, items, table)
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
def test_unprocessed_items_match_their_rows_in_any_number_notation(dynamodb, spell):
    answer = send(dynamodb, made(10), processed_first(7, spell))
    assert isinstance(answer, Accepted)
    assert sorted(answer.unprocessed) == [7, 8, 9]
    assert answer.consumed == 7
    assert len(dynamodb.items(TABLE)) == 7


@pytest.mark.parametrize(
    ("kind", "texts", "written"),
    [("S", ("1.0", "1"), "1.0"), ("B", ("AA==", "/w=="), b"\x00")],
)
def test_unprocessed_items_match_keys_of_text_and_bytes(dynamodb, kind, texts, written):
    dynamodb.create_table(**keyed("others", id=kind))
    dynamodb.faults.add("batch_write_item", processed_first(1))
    answer = send_rows(dynamodb, [{"id": {kind: text}} for text in texts], "others", ("id",))
    assert isinstance(answer, Accepted)
    assert list(answer.unprocessed) == [1]
    assert dynamodb.items("others") == [{"id": {kind: written}}]


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
    assert isinstance(send_rows(dynamodb, items, mode=INSERT), Accepted)
    answer = send_rows(dynamodb, made(1, data={"B": "/w=="}), mode=INSERT)
    assert isinstance(answer, Accepted)
    assert answer.outcome is outcome


def test_unprocessed_items_returned_twice_match_one_row(dynamodb):
    item = made(1)[0]
    answer = send(dynamodb, made(3), returned(put(**item), put(**item)))
    assert isinstance(answer, Accepted)
    assert set(answer.unprocessed) == {0}


# Responses that contradict the request: the rows may or may not be written


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
    ],
)
def test_answer_is_refused_for_invalid_content(dynamodb, items, says):
    answer = send(dynamodb, items)
    assert isinstance(answer, Refused)
    assert says in answer.message


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


@pytest.mark.parametrize(
    ("code", "text"),
    [("NewException", "no item a"), ("AccessDeniedException", 'refused: {"id": {"S": "a"}}')],
)
def test_answer_is_fatal_without_a_text_that_may_quote_rows(dynamodb, code, text):
    unknown = ClientError(
        {
            "Error": {"Code": code, "Message": text},
            "ResponseMetadata": {"HTTPStatusCode": 400},  # type: ignore[typeddict-item]
        },
        "BatchWriteItem",
    )
    answer = send(dynamodb, made(), Fault(raises=unknown))
    assert isinstance(answer, Fatal)
    assert answer.error.message.startswith(f"writing to table table: {code}: HTTP status 400")


# Through botocore's own parser


def test_answer_is_unsure_when_the_checksum_does_not_match(canned):
    client, answers = canned
    answers.say(b'{"UnprocessedItems": {}}', crc32=1)
    answer = send_rows(client, made())
    assert answer == Unsure("ChecksumMismatch")
