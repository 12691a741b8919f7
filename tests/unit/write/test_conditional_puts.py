"""Outcomes of conditional puts and of deletions for every answer of the strict fake."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.options import Options
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.modes import position
from ddbload.errors import AccessDenied, TableNotFound
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
from tests.fakes.client import ServiceError, read_timeout
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import Fault, empty_answer, error, fails
from tests.fakes.dynamodb_tables import keyed
from tests.unit.items.expected_bodies import write_body
from tests.unit.write.fake_transports import send_through

KEY = KeyAttribute("id", "S", 2048)
TABLE = Table("table", "1234", (KEY,))
INSERT = Options(mode="insert")
LAST_WINS = Options(mode="last-wins", position_attribute="at")
DELETE = Options(mode="delete")
EARLY, LATE = position(1e9, 7), position(1e9, 8)
Item = dict[str, dict[str, Any]]


@pytest.fixture
def dynamodb() -> FakeDynamoDB:
    fake = FakeDynamoDB()
    fake.create_table(**keyed("table", id="S"))
    return fake


def made(**more: str) -> Item:
    return {"id": {"S": "a"}, **{name: {"N": text} for name, text in more.items()}}


def at(where: str, **more: str) -> Item:
    return {**made(**more), "at": {"S": where}}


def store(dynamodb: FakeDynamoDB, item: Item) -> None:
    dynamodb.put_item(TableName="table", Item=item)


def send_rows(dynamodb: FakeDynamoDB, options: Options, items: list[Item], **more: Any) -> Answer:
    body = write_body(options.write_mode, "table", items, options.position_attribute or "id")
    return send_through(dynamodb, WriteRequests(options, TABLE, **more), items, body)


def send(dynamodb: FakeDynamoDB, options: Options, item: Item, *faults: Fault) -> Answer:
    dynamodb.faults.add("put_item", *faults)
    answer = send_rows(dynamodb, options, [item])
    assert dynamodb.faults.left() == {}
    return answer


# insert


@pytest.mark.parametrize("spelt", ["1", "1.0", "10E-1", "+1"])
def test_insert_detects_an_identical_item_in_any_number_notation(dynamodb, spelt):
    store(dynamodb, made(x="1"))
    assert send(dynamodb, INSERT, made(x=spelt)) == Accepted((), 1.0, RowOutcome.IDENTICAL)


def test_insert_uses_the_given_outcome_for_an_identical_item(dynamodb):
    store(dynamodb, made(x="1"))
    answer = send_rows(dynamodb, INSERT, [made(x="1")], identical=RowOutcome.WRITTEN)
    assert answer == Accepted((), 1.0, RowOutcome.WRITTEN)


@pytest.mark.parametrize("lost", [read_timeout(), error("InternalServerError")])
def test_insert_finds_its_own_item_after_a_lost_answer(dynamodb, lost):
    answer = send(dynamodb, INSERT, made(x="1"), Fault(raises=lost, landed=True))
    assert isinstance(answer, Unsure)
    assert not answer.refused
    assert send(dynamodb, INSERT, made(x="1")) == Accepted((), 1.0, RowOutcome.IDENTICAL)


def test_insert_reports_unseen_when_the_existing_item_is_not_returned(dynamodb):
    # Emulators do not return the item.
    refused = ServiceError("ConditionalCheckFailedException", 400)
    answer = send(dynamodb, INSERT, made(x="1"), Fault(raises=refused))
    assert answer == Accepted((), 1.0, RowOutcome.UNSEEN)


# last-wins


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        (made(x="1"), RowOutcome.WRITTEN),
        (at(EARLY, x="1"), RowOutcome.WRITTEN),
        (at(LATE, x="1"), RowOutcome.SUPERSEDED),
    ],
)
def test_last_wins_keeps_the_later_row(dynamodb, before, outcome):
    store(dynamodb, before)
    row = at(EARLY, x="2")
    assert send(dynamodb, LAST_WINS, row) == Accepted((), 1.0, outcome)
    assert dynamodb.items("table") == [row if outcome is RowOutcome.WRITTEN else before]


def test_last_wins_writes_a_row_again_after_a_lost_answer(dynamodb):
    lost = Fault(raises=read_timeout(), landed=True)
    assert isinstance(send(dynamodb, LAST_WINS, at(LATE), lost), Unsure)
    assert send(dynamodb, LAST_WINS, at(LATE)) == Accepted((), 1.0)


@pytest.mark.parametrize(
    "foreign", [{"N": "7"}, {"S": "zzz"}, {"S": LATE + "0"}, {"NULL": True}, {"L": []}]
)
def test_last_wins_refuses_a_row_when_the_position_is_foreign(dynamodb, foreign):
    before = {**made(), "at": foreign}
    store(dynamodb, before)
    answer = send(dynamodb, LAST_WINS, at(EARLY))
    assert isinstance(answer, Refused)
    assert answer.cause == "foreign_position"
    assert "'at'" in answer.message
    assert dynamodb.items("table") == [before]


# Both


@pytest.mark.parametrize("options", [INSERT, LAST_WINS])
class TestFailures:
    def test_answer_is_throttled_with_its_key_range(self, dynamodb, options):
        reason = ("TableWriteKeyRangeThroughputExceeded", "arn:aws:dynamodb:us-east-1:1:table/any")
        code = "ThrottlingException"
        assert send(dynamodb, options, at(EARLY), fails(code)) == Throttled(code)
        assert send(dynamodb, options, at(EARLY), fails(code, reason)) == Throttled(code, True)

    @pytest.mark.parametrize(
        "code",
        ["InternalServerError", "TransactionConflictException", "ReplicatedWriteConflictException"],
    )
    def test_answer_allows_a_retry_after_server_errors_and_conflicts(self, dynamodb, options, code):
        failed = Fault(raises=ServiceError(code, 400 if "Conflict" in code else 500))
        answer = send(dynamodb, options, at(EARLY), failed)
        assert isinstance(answer, Unsure | Throttled)

    def test_answer_is_refused_when_the_item_collection_is_full(self, dynamodb, options):
        full = ServiceError("ItemCollectionSizeLimitExceededException", 400, "full")
        answer = send(dynamodb, options, at(EARLY), Fault(raises=full))
        assert answer == Refused("full")

    def test_answer_is_refused_for_invalid_content(self, dynamodb, options):
        answer = send(dynamodb, options, {**at(EARLY), "x": {"N": "one"}})
        assert isinstance(answer, Refused)
        assert answer.cause == "refused_by_dynamodb"

    def test_answer_is_unsure_when_the_body_is_empty(self, dynamodb, options):
        assert isinstance(send(dynamodb, options, at(EARLY), empty_answer()), Unsure)

    @pytest.mark.parametrize("said", [[], None, {"TableName": "other", "CapacityUnits": 1.0}])
    def test_answer_is_unsure_when_consumed_capacity_is_wrong(self, dynamodb, options, said):
        lie = Fault(rewrite=lambda answer: {**answer, "ConsumedCapacity": said})
        assert isinstance(send(dynamodb, options, at(EARLY), lie), Unsure)

    def test_answer_is_fatal_when_the_table_is_gone(self, dynamodb, options):
        dynamodb.delete_table(TableName="table")
        answer = send(dynamodb, options, at(EARLY))
        assert isinstance(answer, Fatal)
        assert isinstance(answer.error, TableNotFound)

    def test_answer_is_fatal_when_permission_is_denied(self, dynamodb, options):
        answer = send(dynamodb, options, at(EARLY), fails("AccessDeniedException"))
        assert isinstance(answer, Fatal)
        assert isinstance(answer.error, AccessDenied)


# delete


def test_delete_is_unsure_when_a_put_is_returned(dynamodb):
    put = {"PutRequest": {"Item": {"id": {"S": "a"}}}}
    lie = Fault(rewrite=lambda answer: {**answer, "UnprocessedItems": {"table": [put]}})
    dynamodb.faults.add("batch_write_item", lie)
    answer = send_rows(dynamodb, DELETE, [{"id": {"S": "a"}}])
    assert isinstance(answer, Unsure)
