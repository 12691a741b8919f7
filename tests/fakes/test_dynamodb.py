"""FakeDynamoDB beyond the contract: AWS's rules, faults, overlapping writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tests.fakes.client import connection_closed, read_timeout
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import (
    ERRORS,
    Fault,
    as_stored,
    empty_answer,
    fails,
    never_sent,
    nothing_processed,
    other_table,
    processed_first,
    scientific,
)

TABLE = "table"


def make(key_type: str = "S", latency: float = 0.0, **more: Any) -> FakeDynamoDB:
    dynamodb = FakeDynamoDB(latency=latency)
    defined = [{"AttributeName": "id", "AttributeType": key_type}, *more.pop("defined", [])]
    dynamodb.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=defined,
        BillingMode="PAY_PER_REQUEST",
        **more,
    )
    return dynamodb


def put(key: str, kind: str = "S", **more: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"id": {kind: key}, **more}}}


def write(dynamodb: FakeDynamoDB, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return dynamodb.batch_write_item(RequestItems={TABLE: list(requests)}, **more)


def keys(dynamodb: FakeDynamoDB) -> set[str]:
    return {next(iter(item["id"].values())) for item in dynamodb.items(TABLE)}


# Rules that a real server at hand keeps otherwise, or not at all


@pytest.mark.parametrize(("expression", "made"), [("REMOVE a", False), (None, True)])
def test_update_that_only_removes_makes_no_item(expression, made):
    dynamodb = make()
    more = {} if expression is None else {"UpdateExpression": expression}
    dynamodb.update_item(TableName=TABLE, Key={"id": {"S": "k"}}, **more)
    assert keys(dynamodb) == ({"k"} if made else set())


@pytest.mark.parametrize(("count", "accepted"), [(2048, True), (2050, False)])
def test_keys_are_measured_in_utf8(count, accepted):
    dynamodb, request = make(), put("é" * (count // 2))
    if accepted:
        write(dynamodb, request)
    else:
        with pytest.raises(ClientError, match="Size of hashkey"):
            write(dynamodb, request)


@pytest.mark.parametrize(("extra", "accepted"), [("", True), ("x", False)])
def test_items_are_measured_in_utf8(extra, accepted):
    # 3 for id and its value, 2 for the name é, 2 for each é, 1 for x.
    dynamodb = make()
    request = put("a", é={"S": "é" * ((400 * 1024 - 6) // 2) + "x" + extra})
    if accepted:
        write(dynamodb, request)
    else:
        with pytest.raises(ClientError, match="Item size"):
            write(dynamodb, request)


def test_lists_and_maps_count_three_bytes_and_one_for_each_member():
    size = {"L": [{"S": "ab"}, {"M": {"k": {"BOOL": True}, "n": {"N": "-12.5"}}}]}
    # id=a: 3; x: 1; the list: 3 + (1+2) + (1 + 3 + (1+1+1) + (1+1+4))
    expected = 3 + 1 + 3 + 3 + 1 + 3 + 3 + 6
    dynamodb = make()
    fill = {"S": "x" * (1024 - expected - 1)}
    answer = write(dynamodb, put("a", x=size, f=fill), ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"][0]["CapacityUnits"] == 1
    fill["S"] += "x"
    answer = write(dynamodb, put("b", x=size, f=fill), ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"][0]["CapacityUnits"] == 2


def test_batch_refuses_26_requests_over_two_tables():
    dynamodb = make()
    dynamodb.create_table(
        TableName="other",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    requests = [put(str(i)) for i in range(13)]
    with pytest.raises(ClientError, match="Too many items"):
        dynamodb.batch_write_item(RequestItems={TABLE: requests, "other": requests})


@pytest.mark.parametrize(
    "item",
    [
        {"": {"S": "x"}},
        {"x" * 65536: {"S": "x"}},
        {"x": {"S": "x", "N": "1"}},
        {"x": {"NS": ["1", "1.0"]}},
        {"x": {"S": "\ud800"}},
        {"x": {"N": "1e" + "9" * 30}},
        {"x": {"N": "1e-" + "9" * 30}},
        {"x": {"N": " 1"}},
        {"x": {"N": "1 "}},
        {"x": {"N": "1\n"}},
    ],
)
def test_invalid_items_are_refused(item):
    dynamodb = make()
    with pytest.raises(ClientError):
        write(dynamodb, put("a", **item))
    assert dynamodb.writes == []


def test_nesting_is_limited():
    dynamodb = make()
    value: dict[str, Any] = {"S": "x"}
    for _ in range(31):
        value = {"L": [value]}
    write(dynamodb, put("a", x=value))
    with pytest.raises(ClientError, match="Nesting"):
        write(dynamodb, put("a", x={"L": [value]}))


def test_number_may_have_a_plus_sign():
    dynamodb = make("N")
    write(dynamodb, put("+5", "N"))
    assert keys(dynamodb) == {"5"}


def test_empty_index_keys_are_refused():
    index = {
        "IndexName": "by-x",
        "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    defined = [{"AttributeName": "x", "AttributeType": "S"}]
    dynamodb = make(defined=defined, GlobalSecondaryIndexes=[index])
    for text in ("", "x" * 2049):
        with pytest.raises(ClientError) as raised:
            write(dynamodb, put("a", x={"S": text}))
        assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_index_capacity_is_counted():
    index = {
        "IndexName": "by-x",
        "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    defined = [{"AttributeName": "x", "AttributeType": "S"}]
    dynamodb = make(defined=defined, GlobalSecondaryIndexes=[index])

    def cost(**more: Any) -> tuple[float, float, dict[str, Any]]:
        answer = write(dynamodb, put("a", **more), ReturnConsumedCapacity="INDEXES")
        (consumed,) = answer["ConsumedCapacity"]
        return (
            consumed["CapacityUnits"],
            consumed["Table"]["CapacityUnits"],
            consumed.get("GlobalSecondaryIndexes", {}),
        )

    one = {"by-x": {"CapacityUnits": 1.0}}
    assert cost(y={"S": "no entry"}) == (1.0, 1.0, {})
    assert cost(x={"S": "1"}, y={"S": "x" * 1100}) == (3.0, 2.0, one)
    assert cost(x={"S": "1"}, y={"S": "not projected"}) == (2.0, 2.0, {})
    assert cost(x={"S": "2"}) == (3.0, 1.0, {"by-x": {"CapacityUnits": 2.0}})
    assert cost() == (2.0, 1.0, one)


# Faults


def test_unprocessed_items_are_returned():
    dynamodb = make()
    requests = [put(str(i)) for i in range(4)]
    dynamodb.faults.add("batch_write_item", processed_first(1), nothing_processed())
    answer = write(dynamodb, *requests, ReturnConsumedCapacity="TOTAL")
    assert answer["UnprocessedItems"] == {TABLE: [requests[3], requests[2], requests[1]]}
    assert answer["ConsumedCapacity"] == [{"TableName": TABLE, "CapacityUnits": 1.0}]
    assert keys(dynamodb) == {"0"}
    assert len(write(dynamodb, *requests)["UnprocessedItems"][TABLE]) == 4
    assert write(dynamodb, *requests)["UnprocessedItems"] == {}
    assert keys(dynamodb) == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("spell", "text"), [(None, "1.50"), (as_stored, "1.5"), (scientific, "15E-1")]
)
def test_unprocessed_numbers_may_be_respelled(spell, text):
    dynamodb = make("N")
    dynamodb.faults.add("batch_write_item", nothing_processed(spell))
    request = put("1.50", "N", x={"L": [{"N": "1.50"}]}, y={"S": "1.50"}, z={"NS": ["1.50"]})
    ((back,),) = write(dynamodb, request)["UnprocessedItems"].values()
    assert back == put(text, "N", x={"L": [{"N": text}]}, y={"S": "1.50"}, z={"NS": [text]})


@pytest.mark.parametrize("code", ERRORS)
def test_errors_have_their_codes_and_statuses(code):
    dynamodb = make()
    dynamodb.faults.add("batch_write_item", fails(code))
    with pytest.raises(ClientError) as raised:
        write(dynamodb, put("a"))
    response = raised.value.response
    assert response["Error"]["Code"] == code
    assert response["ResponseMetadata"]["HTTPStatusCode"] == ERRORS[code][0]
    assert keys(dynamodb) == set()


def test_throttles_have_reasons():
    dynamodb = make()
    reason = ("TableWriteProvisionedThroughputExceeded", "arn:aws:dynamodb:::table/table")
    code = "ProvisionedThroughputExceededException"
    dynamodb.faults.add("batch_write_item", fails(code, reason))
    with pytest.raises(dynamodb.exceptions.ProvisionedThroughputExceededException) as raised:
        write(dynamodb, put("a"))
    assert raised.value.response["ThrottlingReasons"] == [
        {"reason": reason[0], "resource": reason[1]}
    ]


@pytest.mark.parametrize("operation", ["batch_write_item", "put_item"])
@pytest.mark.parametrize("landed", [False, True])
def test_network_failure_raises(operation, landed):
    dynamodb = make()
    params = {
        "batch_write_item": {"RequestItems": {TABLE: [put("a")]}},
        "put_item": {"TableName": TABLE, "Item": {"id": {"S": "a"}}},
    }[operation]
    for error in (read_timeout(), connection_closed()):
        dynamodb.faults.add(operation, Fault(raises=error, landed=landed))
        with pytest.raises((ReadTimeoutError, ConnectionClosedError)):
            getattr(dynamodb, operation)(**params)
    assert keys(dynamodb) == ({"a"} if landed else set())
    assert len(dynamodb.writes) == (2 if landed else 0)


@pytest.mark.parametrize("landed", [False, True])
def test_empty_response_is_returned(landed):
    dynamodb = make()
    dynamodb.faults.add("batch_write_item", empty_answer(landed))
    assert "UnprocessedItems" not in write(dynamodb, put("a"))
    assert keys(dynamodb) == ({"a"} if landed else set())


def test_false_responses_are_returned():
    dynamodb = make()
    dynamodb.faults.add("batch_write_item", never_sent(TABLE, put("ghost")), other_table("other"))
    assert write(dynamodb, put("a"))["UnprocessedItems"] == {TABLE: [put("ghost")]}
    assert keys(dynamodb) == {"a"}
    assert write(dynamodb, put("b"))["UnprocessedItems"] == {"other": [put("b")]}
    assert keys(dynamodb) == {"a"}


def test_bad_request_is_refused_despite_a_fault():
    dynamodb = make()
    dynamodb.faults.add("batch_write_item", fails("ThrottlingException"))
    with pytest.raises(ClientError, match="duplicates"):
        write(dynamodb, put("a"), put("a"))


def test_failed_condition_returns_the_item():
    dynamodb = make()
    dynamodb.put_item(TableName=TABLE, Item={"id": {"S": "a"}, "x": {"N": "1.0"}})
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as raised:
        dynamodb.put_item(
            TableName=TABLE,
            Item={"id": {"S": "a"}},
            ConditionExpression="attribute_not_exists(id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert raised.value.response["Item"] == {"id": {"S": "a"}, "x": {"N": "1"}}


# What it records


def test_calls_and_writes_are_recorded():
    dynamodb = make("N")
    requests = [put("1.0", "N"), {"DeleteRequest": {"Key": {"id": {"N": "2"}}}}]
    write(dynamodb, *requests)
    requests.clear()
    call = dynamodb.calls[-1]
    assert (call.operation, len(call.params["RequestItems"][TABLE])) == ("batch_write_item", 2)
    assert [(w.call, w.key, w.item) for w in dynamodb.writes] == [
        (call.number, (("N", "1"),), {"id": {"N": "1"}}),
        (call.number, (("N", "2"),), None),
    ]


@pytest.mark.parametrize(("second", "overlaps"), [("1.0", 1), ("2", 0)])
def test_overlapping_writes_are_detected(second, overlaps):
    dynamodb = make("N")
    both = threading.Barrier(2, timeout=10)
    dynamodb.faults.add("batch_write_item", Fault(delay=1.0), times=2)
    dynamodb._sleep = lambda _seconds: both.wait()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: write(dynamodb, put(key, "N")), ["1", second]))
    assert len(dynamodb.overlaps) == overlaps
    assert dynamodb.most_in_flight == 2
    if overlaps:
        (overlap,) = dynamodb.overlaps
        assert overlap.key == (TABLE, (("N", "1"),))
        assert {overlap.first, overlap.second} == {1, 2}


def test_successive_writes_do_not_overlap():
    dynamodb = make(latency=0.001)
    dynamodb.faults.add("batch_write_item", Fault(raises=read_timeout()))
    with pytest.raises(ReadTimeoutError):
        write(dynamodb, put("a"))
    write(dynamodb, put("a"))
    dynamodb.put_item(TableName=TABLE, Item={"id": {"S": "a"}})
    assert dynamodb.overlaps == []
    assert dynamodb.most_in_flight == 1
