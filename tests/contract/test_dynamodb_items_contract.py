"""Single items, conditions, consumed capacity, scans and tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.request_helpers import delete, everything, n, of_size, put, s, write

# Single items


def put_if(dynamodb, table: str, item: dict[str, Any], condition: str, **more: Any) -> bool:
    """Put an item with a condition; false if it does not hold."""
    try:
        dynamodb.put_item(TableName=table, Item=item, ConditionExpression=condition, **more)
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True


def test_conditional_put_writes_only_a_new_item(dynamodb, make_table):
    table, condition = make_table(), "attribute_not_exists(#pk)"
    names = {"ExpressionAttributeNames": {"#pk": "pk"}}
    assert put_if(dynamodb, table, {"pk": s("a"), "x": n("1")}, condition, **names)
    assert not put_if(dynamodb, table, {"pk": s("a"), "x": n("2")}, condition, **names)
    assert put_if(dynamodb, table, {"pk": s("b")}, condition, **names)
    assert everything(dynamodb, table) == [{"pk": s("a"), "x": n("1")}, {"pk": s("b")}]


@pytest.mark.parametrize("kind", ["N", "S", "B"])
def test_conditional_put_writes_only_a_later_position(dynamodb, make_table, kind):
    table = make_table()
    one, two, ten = (b"1", b"2", b"3") if kind == "B" else ("1", "2", "3" if kind == "S" else "10")

    def put_at(position: Any) -> bool:
        return put_if(
            dynamodb,
            table,
            {"pk": s("a"), "position": {kind: position}},
            "attribute_not_exists(#p) OR #p <= :p",
            ExpressionAttributeNames={"#p": "position"},
            ExpressionAttributeValues={":p": {kind: position}},
        )

    assert [put_at(p) for p in (two, two, one, ten, two)] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("x = :one", True),
        ("x < :one", False),
        ("x >= :one", True),
        ("x > :one", False),
        ("NOT x > :one", True),
        ("attribute_exists(x) AND x = :one", True),
        ("attribute_exists(y) OR x = :one", True),
        ("attribute_exists(y) AND (x = :one OR x = :one)", False),
        ("absent <= :one", False),
        (":one = x", True),
        ("pk <= :one", False),
    ],
)
def test_conditions_are_evaluated(dynamodb, make_table, condition, holds):
    table = make_table()
    item = {"pk": s("a"), "x": n("1")}
    write(dynamodb, table, {"PutRequest": {"Item": item}})
    values = {"ExpressionAttributeValues": {":one": n("1.0")}}
    assert put_if(dynamodb, table, item, condition, **values) is holds


# Capacity


@pytest.mark.parametrize(("size", "units"), [(10, 1), (1024, 1), (1025, 2), (2049, 3)])
def test_consumed_capacity_is_returned(dynamodb, make_table, size, units):
    table = make_table()
    requests = [{"PutRequest": {"Item": of_size(size, pk)}} for pk in "ab"]
    answer = write(dynamodb, table, *requests, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == [{"TableName": table, "CapacityUnits": 2.0 * units}]
    item = of_size(size, "c")
    answer = dynamodb.put_item(TableName=table, Item=item, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == {"TableName": table, "CapacityUnits": float(units)}


def test_overwrite_costs_the_larger_item(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, {"PutRequest": {"Item": of_size(3000)}})
    for request, units in ((put(pk=s("a")), 3.0), (delete(pk=s("a")), 1.0)):
        answer = write(dynamodb, table, request, ReturnConsumedCapacity="INDEXES")
        (consumed,) = answer["ConsumedCapacity"]
        assert consumed["CapacityUnits"] == consumed["Table"]["CapacityUnits"] == units


# Scans and tables


@pytest.mark.parametrize("keys", [("N",), ("S", "N")])
def test_scan_returns_pages(dynamodb, make_table, keys):
    table = make_table(*keys)
    if len(keys) == 1:
        requests = [put(pk=n(str(i))) for i in range(10)]
    else:
        requests = [put(pk=s("ab"[i % 2]), sk=n(str(i))) for i in range(10)]
    write(dynamodb, table, *requests)
    found, start = [], {}
    while True:
        page = dynamodb.scan(TableName=table, Limit=3, **start)
        assert page["Count"] == len(page["Items"]) <= 3
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert sorted(found, key=repr) == everything(dynamodb, table)
    assert len(found) == 10
    if len(keys) == 2:  # a partition's items come in the order of their sort key
        for pk in "ab":
            order = [int(item["sk"]["N"]) for item in found if item["pk"] == s(pk)]
            assert order == sorted(order)
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, Limit=4)
    assert sorted((i for page in pages for i in page["Items"]), key=repr) == sorted(found, key=repr)


def test_describe_table_returns_the_schema(dynamodb, make_table):
    table = make_table("S", "N")
    described = dynamodb.describe_table(TableName=table)["Table"]
    assert described["TableName"] == table
    assert described["TableStatus"] == "ACTIVE"
    assert described["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert sorted(described["AttributeDefinitions"], key=repr) == [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "N"},
    ]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["TableArn"].endswith(f":table/{table}")
    assert described["TableId"] == dynamodb.describe_table(TableName=table)["Table"]["TableId"]
