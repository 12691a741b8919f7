from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

KB = 1024
MESSAGE_DUPLICATES = "Provided list of item keys contains duplicates"
MESSAGE_SCHEMA = "The provided key element does not match the schema"
MESSAGE_TOO_LARGE = "Item size has exceeded the maximum allowed size"


def put(**item: dict[str, Any]) -> dict[str, Any]:
    return {"PutRequest": {"Item": item}}


def delete(**key: dict[str, Any]) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": key}}


def s(text: str) -> dict[str, str]:
    return {"S": text}


def n(text: str) -> dict[str, str]:
    return {"N": text}


def write(dynamodb, table: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return dynamodb.batch_write_item(RequestItems={table: list(requests)}, **more)


def refused(dynamodb, table: str, *requests: dict[str, Any]) -> str:
    """The message with which a batch is refused as invalid; nothing of it is written."""
    before = everything(dynamodb, table)
    with pytest.raises(ClientError) as raised:
        write(dynamodb, table, *requests)
    response = raised.value.response
    assert response["Error"]["Code"] == "ValidationException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert everything(dynamodb, table) == before
    return response["Error"]["Message"]


def everything(dynamodb, table: str) -> list[dict[str, Any]]:
    items, start = [], {}
    while True:
        page = dynamodb.scan(TableName=table, ConsistentRead=True, **start)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            return sorted(items, key=repr)
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def of_size(size: int, pk: str = "a") -> dict[str, Any]:
    """An item that counts ``size`` bytes, in ASCII."""
    return {"pk": s(pk), "x": s("x" * (size - len("pk" + pk + "x")))}


# Batches


def test_a_batch_writes_and_deletes(dynamodb, make_table):
    table = make_table()
    answer = write(dynamodb, table, put(pk=s("a"), x=n("1")), put(pk=s("b")))
    assert answer["UnprocessedItems"] == {}
    assert "ConsumedCapacity" not in answer
    write(dynamodb, table, delete(pk=s("b")), delete(pk=s("none")), put(pk=s("a"), y=n("2")))
    assert everything(dynamodb, table) == [{"pk": s("a"), "y": n("2")}]


def test_a_batch_of_two_tables(dynamodb, make_table):
    one, two = make_table(), make_table()
    dynamodb.batch_write_item(RequestItems={one: [put(pk=s("a"))], two: [put(pk=s("a"))]})
    assert everything(dynamodb, one) == everything(dynamodb, two) == [{"pk": s("a")}]


def test_25_in_a_batch(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, *(put(pk=s(str(i))) for i in range(25)))
    assert len(everything(dynamodb, table)) == 25


def test_26_in_a_batch(dynamodb, make_table):
    refused(dynamodb, make_table(), *(put(pk=s(str(i))) for i in range(26)))


def test_none_in_a_batch(dynamodb, make_table):
    with pytest.raises(ParamValidationError):  # botocore itself, before it sends anything
        write(dynamodb, make_table())
    with pytest.raises(ClientError) as raised:
        dynamodb.batch_write_item(RequestItems={})
    assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_an_invalid_item_spoils_its_batch(dynamodb, make_table):
    assert refused(dynamodb, make_table(), put(pk=s("a")), put(x=s("no key"))) == MESSAGE_SCHEMA


@pytest.mark.parametrize(
    "pair",
    [
        (put(pk=s("a"), x=n("1")), put(pk=s("a"), x=n("2"))),
        (put(pk=s("a")), delete(pk=s("a"))),
        (delete(pk=s("a")), delete(pk=s("a"))),
    ],
)
def test_a_key_twice_in_a_batch(dynamodb, make_table, pair):
    table = make_table()
    assert refused(dynamodb, table, put(pk=s("b")), *pair) == MESSAGE_DUPLICATES


@pytest.mark.parametrize("text", ["1.0", "1e0", "10E-1", "0.1e1", "01", "1.", "100000e-5"])
def test_numbers_of_one_value_are_one_key(dynamodb, make_table, text):
    table = make_table("N")
    assert refused(dynamodb, table, put(pk=n("1")), put(pk=n(text))) == MESSAGE_DUPLICATES


def test_strings_are_keys_by_their_characters(dynamodb, make_table):
    table = make_table()
    texts = ["1", "1.0", "caf\u00e9", "cafe\u0301", "A", "a", " a", "a "]
    write(dynamodb, table, *(put(pk=s(text)) for text in texts))
    assert len(everything(dynamodb, table)) == len(texts)


def test_one_partition_many_sort_keys(dynamodb, make_table):
    table = make_table("S", "N")
    write(dynamodb, table, put(pk=s("a"), sk=n("1")), put(pk=s("a"), sk=n("2")))
    assert len(everything(dynamodb, table)) == 2
    message = refused(dynamodb, table, put(pk=s("a"), sk=n("1")), put(pk=s("a"), sk=n("1.0")))
    assert message == MESSAGE_DUPLICATES


def test_16_mb_in_a_request(dynamodb, make_table):
    # A control character is six bytes in JSON and one in an item: 25 legal items are 17 MB.
    requests = [put(pk=s(str(i)), x=s("\x01" * 120_000)) for i in range(25)]
    with pytest.raises(ClientError) as raised:
        write(dynamodb, make_table(), *requests)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_an_unknown_table(dynamodb):
    for call in (
        lambda: write(dynamodb, "no-such-table", put(pk=s("a"))),
        lambda: dynamodb.put_item(TableName="no-such-table", Item={"pk": s("a")}),
        lambda: dynamodb.describe_table(TableName="no-such-table"),
        lambda: dynamodb.delete_table(TableName="no-such-table"),
        lambda: dynamodb.scan(TableName="no-such-table"),
    ):
        with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
            call()


# Sizes


def test_an_item_of_400_kb(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, {"PutRequest": {"Item": of_size(400 * KB)}})
    dynamodb.put_item(TableName=table, Item=of_size(400 * KB, "b"))
    assert len(everything(dynamodb, table)) == 2


def test_an_item_of_400_kb_and_one_byte(dynamodb, make_table):
    table, item = make_table(), of_size(400 * KB + 1)
    assert refused(dynamodb, table, {"PutRequest": {"Item": item}}) == MESSAGE_TOO_LARGE
    with pytest.raises(ClientError, match=MESSAGE_TOO_LARGE):
        dynamodb.put_item(TableName=table, Item=item)


def test_binary_counts_its_bytes(dynamodb, make_table):
    table = make_table()
    body = b"\xff" * (400 * KB - 4)
    write(dynamodb, table, put(pk=s("a"), x={"B": body}))
    assert everything(dynamodb, table) == [{"pk": s("a"), "x": {"B": body}}]
    message = refused(dynamodb, table, put(pk=s("a"), x={"B": body + b"\xff"}))
    assert message == MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("size", "accepted"), [(2048, True), (2049, False)])
def test_partition_keys_of_2048_bytes(dynamodb, make_table, size, accepted):
    table, request = make_table(), put(pk=s("x" * size))
    if accepted:
        write(dynamodb, table, request)
    else:
        assert "Size of hashkey" in refused(dynamodb, table, request)


@pytest.mark.parametrize(("size", "accepted"), [(1024, True), (1025, False)])
def test_sort_keys_of_1024_bytes(dynamodb, make_table, size, accepted):
    table, request = make_table("S", "B"), put(pk=s("a"), sk={"B": b"x" * size})
    if accepted:
        write(dynamodb, table, request)
    else:
        assert "range key" in refused(dynamodb, table, request)


# Numbers

NINES = "9" * 38


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.000", "0"),
        ("007", "7"),
        ("1.50", "1.5"),
        ("-1.0", "-1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("12.34e+1", "123.4"),
        (NINES, NINES),
        ("0." + NINES, "0." + NINES),
        ("1" + "0" * 45, "1" + "0" * 45),
        ("000" + NINES + "000", NINES + "000"),
        ("1E-130", "0." + "0" * 129 + "1"),
        ("-1E-130", "-0." + "0" * 129 + "1"),
        ("1E+125", "1" + "0" * 125),
        (f"{NINES[0]}.{NINES[1:]}E+125", NINES + "0" * 88),
        (f"-{NINES[0]}.{NINES[1:]}E+125", "-" + NINES + "0" * 88),
    ],
)
def test_numbers_are_kept_in_one_spelling(dynamodb, make_table, text, kept):
    table = make_table("N")
    write(dynamodb, table, put(pk=n(text), x=n(text), y={"NS": [text]}))
    assert everything(dynamodb, table) == [{"pk": n(kept), "x": n(kept), "y": {"NS": [kept]}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        ("abc", "cannot be converted to a numeric value: abc"),
        ("0x1F", "cannot be converted to a numeric value"),
        ("1e", "cannot be converted to a numeric value"),
        ("1.2.3", "cannot be converted to a numeric value"),
        ("1,5", "cannot be converted to a numeric value"),
        ("1_000", "cannot be converted to a numeric value"),
        ("--1", "cannot be converted to a numeric value"),
        ("NaN", "cannot be converted to a numeric value"),
        ("Infinity", "cannot be converted to a numeric value"),
        ("1 000", "cannot be converted to a numeric value"),
        ("\u0663", "cannot be converted to a numeric value"),
        ("1E+126", "Number overflow"),
        ("-1E+126", "Number overflow"),
        ("1E-131", "Number underflow"),
        (NINES + "1", "more than 38 significant digits"),
        ("0." + NINES + "1", "more than 38 significant digits"),
    ],
)
@pytest.mark.parametrize("place", ["key", "attribute", "set", "nested"])
def test_numbers_that_are_none(dynamodb, make_table, text, message, place):
    table = make_table("N")
    request = {
        "key": put(pk=n(text)),
        "attribute": put(pk=n("1"), x=n(text)),
        "set": put(pk=n("1"), x={"NS": ["1", text]}),
        "nested": put(pk=n("1"), x={"L": [{"M": {"x": n(text)}}]}),
    }[place]
    assert message in refused(dynamodb, table, request)


# Other values


def test_values_come_back_as_they_were(dynamodb, make_table):
    table = make_table()
    item = {
        "pk": s("a"),
        "empty": s(""),
        "text": s("né\n\x00😀\u2028"),
        "bytes": {"B": b"\x00\xff"},
        "no_bytes": {"B": b""},
        "yes": {"BOOL": True},
        "no": {"BOOL": False},
        "null": {"NULL": True},
        "list": {"L": [s("x"), n("1"), {"L": []}]},
        "map": {"M": {"é": s("x"), "b": {"M": {}}}},
        "é" * 100: s("a name of two-byte characters"),
    }
    write(dynamodb, table, {"PutRequest": {"Item": item}})
    assert dynamodb.get_item(TableName=table, Key={"pk": s("a")})["Item"] == item
    assert everything(dynamodb, table) == [item]


@pytest.mark.parametrize("kind", ["SS", "NS", "BS"])
def test_sets(dynamodb, make_table, kind):
    table = make_table()
    members = [b"1", b"2"] if kind == "BS" else ["1", "2"]
    write(dynamodb, table, put(pk=s("a"), x={kind: members}))
    (item,) = everything(dynamodb, table)
    assert sorted(item["x"][kind]) == members
    refused(dynamodb, table, put(pk=s("a"), x={kind: []}))
    assert "duplicates" in refused(
        dynamodb, table, put(pk=s("a"), x={kind: [*members, members[0]]})
    )


def test_values_that_are_none(dynamodb, make_table):
    table = make_table()
    refused(dynamodb, table, put(pk=s("a"), x={}))
    refused(dynamodb, table, put(pk=s("a"), x={"NULL": False}))
    refused(dynamodb, table, put(pk=s("a"), x={"L": [{}]}))


# Keys and indexes


@pytest.mark.parametrize("value", [{"S": ""}, {"B": b""}])
def test_keys_are_not_empty(dynamodb, make_table, value):
    (kind,) = value
    table = make_table(kind)
    assert "empty" in refused(dynamodb, table, put(pk=value))
    table = make_table("S", kind)
    assert "empty" in refused(dynamodb, table, put(pk=s("a"), sk=value))


@pytest.mark.parametrize(
    "request_",
    [
        put(x=s("a")),
        put(pk=s("a")),
        put(pk=n("1"), sk=n("1")),
        put(pk=s("a"), sk=s("1")),
        put(pk=s("a"), sk={"NULL": True}),
        put(pk=s("a"), sk={"NS": ["1"]}),
        delete(pk=s("a")),
        delete(pk=s("a"), sk=s("1")),
        delete(pk=s("a"), sk=n("1"), x=s("more")),
    ],
)
def test_keys_match_the_schema(dynamodb, make_table, request_):
    assert refused(dynamodb, make_table("S", "N"), request_) == MESSAGE_SCHEMA


@pytest.mark.parametrize("kind", ["global", "local"])
def test_index_keys_match_their_type(dynamodb, make_table, kind):
    range_key = [{"AttributeName": "year", "KeyType": "RANGE"}]
    hash_key = "isbn" if kind == "global" else "pk"
    index = {
        "IndexName": "by-year",
        "KeySchema": [{"AttributeName": hash_key, "KeyType": "HASH"}, *range_key],
        "Projection": {"ProjectionType": "ALL"},
    }
    defined = [{"AttributeName": "year", "AttributeType": "N"}]
    if kind == "global":
        defined.append({"AttributeName": "isbn", "AttributeType": "S"})
    table = make_table(
        "S",
        "S",
        AttributeDefinitions=defined,
        **{f"{kind.capitalize()}SecondaryIndexes": [index]},
    )
    message = refused(dynamodb, table, put(pk=s("a"), sk=s("b"), year=s("1999"), isbn=s("i")))
    assert "Type mismatch for Index Key year Expected: N Actual: S IndexName: by-year" in message
    # A sparse index: an item without the index's keys is legal.
    write(dynamodb, table, put(pk=s("a"), sk=s("b")))
    write(dynamodb, table, put(pk=s("a"), sk=s("b"), year=n("1999"), isbn=s("i")))


def test_what_put_item_says_of_keys(dynamodb, make_table):
    table = make_table()
    for item, message in (
        ({"x": s("a")}, "Missing the key pk in the item"),
        ({"pk": n("1")}, "Type mismatch for key pk expected: S actual: N"),
    ):
        with pytest.raises(ClientError, match=message):
            dynamodb.put_item(TableName=table, Item=item)


# Single items


def test_get_item(dynamodb, make_table):
    table = make_table("N")
    write(dynamodb, table, put(pk=n("1"), x=s("y")))
    found = dynamodb.get_item(TableName=table, Key={"pk": n("1.0")}, ConsistentRead=True)
    assert found["Item"] == {"pk": n("1"), "x": s("y")}
    assert "Item" not in dynamodb.get_item(TableName=table, Key={"pk": n("2")})
    with pytest.raises(ClientError, match=MESSAGE_SCHEMA):
        dynamodb.get_item(TableName=table, Key={"pk": s("1")})


def put_if(dynamodb, table: str, item: dict[str, Any], condition: str, **more: Any) -> bool:
    """Whether the condition held."""
    try:
        dynamodb.put_item(TableName=table, Item=item, ConditionExpression=condition, **more)
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True


def test_a_put_that_must_be_the_first(dynamodb, make_table):
    table, condition = make_table(), "attribute_not_exists(#pk)"
    names = {"ExpressionAttributeNames": {"#pk": "pk"}}
    assert put_if(dynamodb, table, {"pk": s("a"), "x": n("1")}, condition, **names)
    assert not put_if(dynamodb, table, {"pk": s("a"), "x": n("2")}, condition, **names)
    assert put_if(dynamodb, table, {"pk": s("b")}, condition, **names)
    assert everything(dynamodb, table) == [{"pk": s("a"), "x": n("1")}, {"pk": s("b")}]


@pytest.mark.parametrize("kind", ["N", "S", "B"])
def test_a_put_that_must_be_the_last(dynamodb, make_table, kind):
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
def test_conditions(dynamodb, make_table, condition, holds):
    table = make_table()
    item = {"pk": s("a"), "x": n("1")}
    write(dynamodb, table, {"PutRequest": {"Item": item}})
    values = {"ExpressionAttributeValues": {":one": n("1.0")}}
    assert put_if(dynamodb, table, item, condition, **values) is holds


@pytest.mark.parametrize(
    ("condition", "more"),
    [
        ("attribute_not_exists(#pk", {"ExpressionAttributeNames": {"#pk": "pk"}}),
        ("attribute_not_exists(#pk) OR", {"ExpressionAttributeNames": {"#pk": "pk"}}),
        ("attribute_not_exists(#other)", {"ExpressionAttributeNames": {"#pk": "pk"}}),
        (
            "attribute_not_exists(#pk)",
            {"ExpressionAttributeNames": {"#pk": "pk", "#unused": "x"}},
        ),
        ("x = :x", {"ExpressionAttributeValues": {":y": {"N": "1"}}}),
    ],
)
def test_conditions_that_are_none(dynamodb, make_table, condition, more):
    with pytest.raises(ClientError) as raised:
        put_if(dynamodb, make_table(), {"pk": s("a")}, condition, **more)
    assert raised.value.response["Error"]["Code"] == "ValidationException"


# Capacity


@pytest.mark.parametrize(("size", "units"), [(10, 1), (1024, 1), (1025, 2), (2049, 3)])
def test_consumed_capacity(dynamodb, make_table, size, units):
    table = make_table()
    requests = [{"PutRequest": {"Item": of_size(size, pk)}} for pk in "ab"]
    answer = write(dynamodb, table, *requests, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == [{"TableName": table, "CapacityUnits": 2.0 * units}]
    item = of_size(size, "c")
    answer = dynamodb.put_item(TableName=table, Item=item, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == {"TableName": table, "CapacityUnits": float(units)}


def test_an_overwrite_costs_the_larger(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, {"PutRequest": {"Item": of_size(3000)}})
    for request, units in ((put(pk=s("a")), 3.0), (delete(pk=s("a")), 1.0)):
        answer = write(dynamodb, table, request, ReturnConsumedCapacity="INDEXES")
        (consumed,) = answer["ConsumedCapacity"]
        assert consumed["CapacityUnits"] == consumed["Table"]["CapacityUnits"] == units


# Scans and tables


@pytest.mark.parametrize("keys", [("N",), ("S", "N")])
def test_scans_come_in_pages(dynamodb, make_table, keys):
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


def test_scans_can_count(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, *(put(pk=s(str(i))) for i in range(5)))
    page = dynamodb.scan(TableName=table, Select="COUNT")
    assert page["Count"] == 5
    assert "Items" not in page


def test_describe_table(dynamodb, make_table):
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


def test_a_table_is_made_once(dynamodb, make_table):
    definition = {
        "TableName": make_table(),
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    with pytest.raises(dynamodb.exceptions.ResourceInUseException):
        dynamodb.create_table(**definition)
    for wrong in (
        {"TableName": "x"},
        {"AttributeDefinitions": []},
        {"KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}]},
        {"BillingMode": "PROVISIONED"},
    ):
        with pytest.raises(ClientError) as raised:
            dynamodb.create_table(**definition | {"TableName": "another-table"} | wrong)
        assert raised.value.response["Error"]["Code"] == "ValidationException"
