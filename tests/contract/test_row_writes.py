"""Updates and conditions: DynamoDB Local, dynalite and the fake behave alike."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.request_helpers import everything, n, s


def update(dynamodb: Any, table: str, key: str = "a", **parameters: Any) -> Any:
    return dynamodb.update_item(TableName=table, Key={"pk": s(key)}, **parameters)


def refusal(call: Any, *given: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as raised:
        call(*given, **parameters)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


def start(dynamodb: Any, table: str, **item: Any) -> None:
    dynamodb.put_item(TableName=table, Item={"pk": s("a"), **item})


def test_update_sets_removes_and_adds_and_keeps_the_rest(dynamodb, make_table):
    table = make_table()
    start(dynamodb, table, x=n("1"), y=n("2"), tags={"SS": ["b"]}, kept=s("k"))
    for _ in range(2):
        answer = update(
            *(dynamodb, table),
            UpdateExpression="SET #0=:0 REMOVE #1,#3 ADD #2 :2",
            ExpressionAttributeNames={"#0": "x", "#1": "y", "#2": "tags", "#3": "none"},
            ExpressionAttributeValues={":0": n("9"), ":2": {"SS": ["a", "b"]}},
            ReturnConsumedCapacity="TOTAL",
        )
        assert answer["ConsumedCapacity"] == {"TableName": table, "CapacityUnits": 1.0}
        ((item),) = everything(dynamodb, table)
        assert sorted(item.pop("tags")["SS"]) == ["a", "b"]
        assert item == {"pk": s("a"), "x": n("9"), "kept": s("k")}


def test_update_adds_to_no_other_type(dynamodb, make_table):
    table = make_table()
    start(dynamodb, table, tags=s("text"))
    code, message = refusal(
        *(update, dynamodb, table),
        UpdateExpression="ADD #0 :0",
        ExpressionAttributeNames={"#0": "tags"},
        ExpressionAttributeValues={":0": {"SS": ["a"]}},
    )
    assert code == "ValidationException"
    assert "ConditionExpression" not in message


def test_update_changes_no_key(dynamodb, make_table):
    table = make_table()
    code, _ = refusal(
        *(update, dynamodb, table),
        UpdateExpression="SET #0=:0",
        ExpressionAttributeNames={"#0": "pk"},
        ExpressionAttributeValues={":0": s("b")},
    )
    assert code == "ValidationException"


def test_expression_has_4_kb_at_most(dynamodb, make_table, request):
    if "dynalite" in request.node.callspec.id:
        pytest.skip("dynalite has no such limit")
    table = make_table()
    names = {f"#{place}": f"a{place}" for place in range(600)}
    values = {f":{place}": n("1") for place in range(600)}
    text = "SET " + ",".join(f"#{place}=:{place}" for place in range(600))
    code, _ = refusal(
        *(update, dynamodb, table),
        UpdateExpression=text,
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
    )
    assert code == "ValidationException"
    update(
        *(dynamodb, table),
        UpdateExpression=text[: text.index(",#430=")],
        ExpressionAttributeNames={name: names[name] for name in list(names)[:430]},
        ExpressionAttributeValues={name: values[name] for name in list(values)[:430]},
    )
    assert len(everything(dynamodb, table)[0]) == 431


@pytest.mark.parametrize("operation", ["put_item", "update_item", "delete_item"])
def test_false_condition_changes_nothing(dynamodb, make_table, operation):
    table = make_table()
    start(dynamodb, table, x=n("5"))
    member = {"Item" if operation == "put_item" else "Key": {"pk": s("a")}}
    code, _ = refusal(
        getattr(dynamodb, operation),
        TableName=table,
        **member,
        ConditionExpression="attribute_exists(#k) AND (x < :c0)",
        ExpressionAttributeNames={"#k": "pk"},
        ExpressionAttributeValues={":c0": n("5")},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    assert code == "ConditionalCheckFailedException"
    assert everything(dynamodb, table) == [{"pk": s("a"), "x": n("5")}]


@pytest.mark.parametrize("operation", ["put_item", "update_item", "delete_item"])
def test_condition_on_a_missing_item_is_evaluated(dynamodb, make_table, operation):
    table = make_table()
    call = getattr(dynamodb, operation)
    given = {
        "TableName": table,
        "Item" if operation == "put_item" else "Key": {"pk": s("a")},
        "ReturnConsumedCapacity": "TOTAL",
    }
    code, _ = refusal(call, **given, ConditionExpression="attribute_exists(pk)")
    assert code == "ConditionalCheckFailedException"
    answer = call(**given, ConditionExpression="attribute_not_exists(pk)")
    assert answer["ConsumedCapacity"]["TableName"] == table


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("x <", "Syntax error"),
        ("(x = :c0", "Syntax error"),
        ("unknown(x, :c0)", "Invalid function name; function: unknown"),
        ("status = :c0", "Attribute name is a reserved keyword; reserved keyword: status"),
        ("x = :c9 AND x = :c0", "attribute value: :c9"),
    ],
)
def test_bad_condition_is_refused_in_dynamodbs_words(dynamodb, make_table, condition, words):
    table = make_table()
    code, message = refusal(
        *(update, dynamodb, table),
        ConditionExpression=condition,
        ExpressionAttributeValues={":c0": s("secret")},
    )
    assert code == "ValidationException"
    assert message.startswith("Invalid ConditionExpression: ")
    assert words in message
    assert "secret" not in message
    assert everything(dynamodb, table) == []


def test_message_about_bounds_quotes_the_row(dynamodb, make_table):
    """So such a message is for the rejects, and never for an error of the run."""
    code, message = refusal(
        *(update, dynamodb, make_table()),
        ConditionExpression="x BETWEEN :c0 AND :c1",
        ExpressionAttributeValues={":c0": s("secret"), ":c1": s("a")},
    )
    assert code == "ValidationException"
    assert message.startswith("Invalid ConditionExpression: The BETWEEN operator")
