"""Requests of mode `insert`: 25 statements, and PutItem for a row that a statement does not settle.

What AWS says of the errors of statements (API_BatchStatementError): "Code: The error code
associated with the failed PartiQL batch statement. Valid Values: ConditionalCheckFailed |
ItemCollectionSizeLimitExceeded | RequestLimitExceeded | ValidationError |
ProvisionedThroughputExceeded | TransactionConflict | ThrottlingError | InternalServerError |
ResourceNotFound | AccessDenied | DuplicateItem". Of the item: "The item which caused the condition
check to fail. This will be set if ReturnValuesOnConditionCheckFailure is specified as ALL_OLD."
DynamoDB Local sets it for no DuplicateItem. Of the request (API_BatchExecuteStatement): "Array
Members: Minimum number of 1 item. Maximum number of 25 items", and "A HTTP 200 response does not
mean that all statements in the BatchExecuteStatement succeeded".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddbload.aws.failures import failure_of_code
from ddbload.contracts.options import Options
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.modes import INSERT
from ddbload.errors import AccessDenied
from ddbload.write.requests import EndpointFeatures, WriteRequests
from ddbload.write.scheduler.answers import Accepted, Answer, Unsure
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_tables import keyed
from tests.unit.items.expected_bodies import write_body
from tests.unit.write.fake_transports import send_through

TABLE = Table("table", "id", (KeyAttribute("id", "S", "HASH"),))
CODES = (
    *("AccessDenied", "ConditionalCheckFailed", "DuplicateItem", "InternalServerError"),
    *("ItemCollectionSizeLimitExceeded", "ProvisionedThroughputExceeded", "RequestLimitExceeded"),
    *("ResourceNotFound", "ThrottlingError", "TransactionConflict", "ValidationError"),
)


def make(endpoint: EndpointFeatures | None = None) -> WriteRequests:
    return WriteRequests(Options(mode="insert"), TABLE, endpoint=endpoint)


def answer_with(code: str | None, rows: int = 3, at: int = 1) -> Answer:
    results: list[Any] = [{"TableName": "table"} for _ in range(rows)]
    if code is not None:
        results[at] = {"Error": {"Code": code, "Message": f"said {code}"}}
    capacity = [{"TableName": "table", "CapacityUnits": 1.0}] * rows
    response = {"Responses": results, "ConsumedCapacity": capacity}
    return make().accepted(response, rows, list)


def item(key: str, **more: str) -> dict[str, Any]:
    return {"id": {"S": key}} | {name: {"S": text} for name, text in more.items()}


def test_every_code_of_a_statement_has_an_answer():
    answers = {code: answer_with(code) for code in CODES}
    throttled = {"ProvisionedThroughputExceeded", "RequestLimitExceeded", "ThrottlingError"}
    for code in throttled:
        assert answers.pop(code) == Accepted([1], 3.0, alone=[], unsure=[])
    assert answers.pop("InternalServerError") == Accepted([], 3.0, alone=[1], unsure=[1])
    denied = answers.pop("AccessDenied")
    assert isinstance(denied.fatal, AccessDenied)
    assert replace(denied, fatal=None) == Accepted([], 3.0, alone=[1], unsure=[])
    assert set(answers) == {
        "ConditionalCheckFailed",
        "DuplicateItem",
        "ItemCollectionSizeLimitExceeded",
        "ResourceNotFound",
        "TransactionConflict",
        "ValidationError",
    }
    for answer in answers.values():
        assert answer == Accepted([], 3.0, alone=[1], unsure=[])


@pytest.mark.parametrize("first", [True, False])
def test_rows_beside_a_denied_one_have_their_own_outcomes(first):
    """A policy with `dynamodb:LeadingKeys` denies some keys only."""
    others = [None, "InternalServerError", "ThrottlingError", "DuplicateItem", "AccessDenied"]
    codes = ["AccessDenied", *others] if first else [*others, "AccessDenied"]
    results = [{} if code is None else {"Error": {"Code": code}} for code in codes]
    answer = make().accepted({"Responses": results}, len(codes), list)
    assert isinstance(answer.fatal, AccessDenied)
    at = {code: index for index, code in enumerate(codes)}
    assert answer.unprocessed == [at["ThrottlingError"]]
    assert answer.unsure == [at["InternalServerError"]]
    assert set(answer.alone) == set(range(6)) - {at[None], at["ThrottlingError"]}


@pytest.mark.parametrize("code", ["SomethingNew", 7, None, [], {}])
def test_unknown_error_leaves_open_whether_the_row_was_written(code):
    results = [{"TableName": "table"}, {"Error": {"Code": code}}]
    answer = make().accepted({"Responses": results}, 2, list)
    assert answer == Accepted([], 0.0, alone=[1], unsure=[1])


@pytest.mark.parametrize(
    "response",
    [
        {},
        [],
        None,
        {"Responses": []},
        {"Responses": [{}]},
        {"Responses": [{}, {}, {}]},
        {"Responses": [{}, 1]},
        {"Responses": {"0": {}}},
        {"ConsumedCapacity": {"TableName": "table"}},
    ],
)
def test_response_without_a_result_for_each_statement_is_unsure(response):
    assert isinstance(make().accepted(response, 2, list), Unsure)


def test_one_row_goes_by_put_item_and_more_by_statements():
    requests = make()
    assert requests.operation(1) == "PutItem"
    assert {requests.operation(rows) for rows in range(2, 26)} == {"BatchExecuteStatement"}


@pytest.mark.parametrize("code", ["UnknownOperationException", "UnknownOperation"])
def test_endpoint_without_the_operation_gets_put_item_from_then_on(code):
    endpoint = EndpointFeatures()
    requests = make(endpoint)
    failure = failure_of_code(code, "", 400)
    assert requests.failed(failure, 3, list) == Accepted(alone=range(3), single_rows=True)
    assert requests.most_rows == 1
    assert make(endpoint).most_rows == 1
    assert make().most_rows == 25


def test_refused_batch_is_sent_row_by_row():
    failure = failure_of_code("ValidationException", "no", 400)
    assert make().failed(failure, 2, list) == Accepted(alone=range(2))


def test_existing_items_stay_and_are_told_apart_by_put_item():
    dynamodb = FakeDynamoDB()
    dynamodb.create_table(**keyed("table", id="S"))
    dynamodb.put_item(TableName="table", Item=item("b", x="theirs"))
    items = [item("a"), item("b"), item("c", x="it's")]
    answer = send_through(dynamodb, make(), items, write_body(INSERT, "table", items))
    assert answer == Accepted([], 3.0, alone=[1], unsure=[])
    stored = sorted(dynamodb.items("table"), key=lambda each: each["id"]["S"])
    assert stored == [item("a"), item("b", x="theirs"), item("c", x="it's")]
