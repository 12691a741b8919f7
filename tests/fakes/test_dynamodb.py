"""FakeDynamoDB beyond the contract: AWS's rules, faults, overlapping writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import Fault, fails
from tests.fakes.dynamodb_tables import keyed

TABLE = "table"


def make(key_type: str = "S") -> FakeDynamoDB:
    dynamodb = FakeDynamoDB()
    dynamodb.create_table(**keyed(TABLE, id=key_type))
    return dynamodb


def make_indexed() -> FakeDynamoDB:
    """Make a table with an index by `x`."""
    dynamodb, index = FakeDynamoDB(), keyed("by-x", x="S")
    table = keyed(TABLE, id="S")
    table["AttributeDefinitions"] += index["AttributeDefinitions"]
    schema, held = index["KeySchema"], {"ProjectionType": "KEYS_ONLY"}
    indexes = [{"IndexName": "by-x", "KeySchema": schema, "Projection": held}]
    dynamodb.create_table(**table, GlobalSecondaryIndexes=indexes)
    return dynamodb


def put(key: str, kind: str = "S", **more: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"id": {kind: key}, **more}}}


def write(dynamodb: FakeDynamoDB, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return dynamodb.batch_write_item(RequestItems={TABLE: list(requests)}, **more)


# Rules that a real server at hand keeps otherwise, or not at all


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


def test_empty_index_keys_are_refused():
    dynamodb = make_indexed()
    for text in ("", "x" * 2049):
        with pytest.raises(ClientError) as raised:
            write(dynamodb, put("a", x={"S": text}))
        assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_index_capacity_is_counted():
    dynamodb = make_indexed()

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
