"""Statements: DynamoDB Local, dynalite with the emulator's addition, and the fake behave alike."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from ddbload.dynamodb.modes import insert_statement
from tests.unit.dynamodb.attribute_names import QUOTABLE


def s(text: str) -> dict[str, str]:
    return {"S": text}


def insert(dynamodb: Any, table: str, *items: dict[str, Any]) -> list[Any]:
    statements = [
        {"Statement": insert_statement(table, item), "Parameters": list(item.values())}
        for item in items
    ]
    answer = dynamodb.batch_execute_statement(Statements=statements)
    return [each.get("Error", {}).get("Code") for each in answer["Responses"]]


def refusal(dynamodb: Any, table: str, *items: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as raised:
        insert(dynamodb, table, *items)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


def item_of(dynamodb: Any, table: str, pk: str) -> Any:
    return dynamodb.get_item(TableName=table, Key={"pk": s(pk)}).get("Item")


@pytest.mark.parametrize("name", QUOTABLE)
def test_item_has_the_name_that_was_quoted(dynamodb, make_table, name):
    table = make_table()
    item = {"pk": s("a"), name: s("value")}
    assert insert(dynamodb, table, item, {"pk": s("b")}) == [None, None]
    assert item_of(dynamodb, table, "a") == item


VALUES: list[dict[str, Any]] = [
    {"S": ""},
    {"S": "'; DROP"},
    {"N": "1E125"},
    {"N": "12345678901234567890123456789012345678"},
    {"N": "-0.10"},
    {"B": b"\0\xff"},
    {"BOOL": False},
    {"NULL": True},
    {"SS": ["a", "b"]},
    {"NS": ["1", "2.50"]},
    {"BS": [b"a"]},
    {"L": []},
    {"M": {}},
    {"L": [{"NULL": True}, {"M": {"x'\"\\": {"BOOL": False}}}]},
]


@pytest.mark.parametrize("value", VALUES)
def test_value_is_stored_as_put_item_stores_it(dynamodb, make_table, value):
    table = make_table()
    assert insert(dynamodb, table, {"pk": s("a"), "v": value}, {"pk": s("c")}) == [None, None]
    dynamodb.put_item(TableName=table, Item={"pk": s("b"), "v": value})
    assert item_of(dynamodb, table, "a")["v"] == item_of(dynamodb, table, "b")["v"]


def test_each_statement_fails_by_itself(dynamodb, make_table):
    table = make_table()
    theirs = {"pk": s("there"), "x": s("theirs")}
    dynamodb.put_item(TableName=table, Item=theirs)
    codes = insert(
        dynamodb,
        table,
        {"pk": s("a")},
        {"pk": s("there"), "x": s("ours")},
        {"pk": {"N": "1"}},
        {"x": s("no key")},
        {"pk": s("large"), "x": s("x" * 410_000)},
        {"pk": s("b")},
    )
    assert codes == [None, "DuplicateItem", *["ValidationError"] * 3, None]
    assert item_of(dynamodb, table, "there") == theirs
    assert item_of(dynamodb, table, "b") == {"pk": s("b")}
    assert item_of(dynamodb, table, "large") is None


def test_identical_item_is_a_duplicate(dynamodb, make_table):
    table = make_table()
    assert insert(dynamodb, table, {"pk": s("a")}, {"pk": s("b")}) == [None, None]
    assert insert(dynamodb, table, {"pk": s("a")}, {"pk": s("c")}) == ["DuplicateItem", None]


@pytest.mark.parametrize(("one", "other"), [("1", "1"), ("1", "1.0"), ("10", "1E1")])
def test_key_cannot_come_twice(dynamodb, make_table, one, other):
    table = make_table("N")
    found = refusal(dynamodb, table, {"pk": {"N": one}}, {"pk": {"N": other}})
    assert found == ("ValidationException", "Provided list of item keys contains duplicates")


def test_request_has_25_statements_at_most(dynamodb, make_table):
    table = make_table()
    items = [{"pk": s(f"k{number}")} for number in range(26)]
    assert insert(dynamodb, table, *items[:25]) == [None] * 25
    assert refusal(dynamodb, table, *items)[0] == "ValidationException"


def test_statement_has_8192_characters_at_most(dynamodb, make_table):
    table = make_table()
    room = 8192 - len(f"INSERT INTO \"{table}\" VALUE {{'pk':?,'':?}}")
    longest = {"pk": s("a"), "n" * room: s("v")}
    assert insert(dynamodb, table, longest, {"pk": s("b")}) == [None, None]
    too_long = f"INSERT INTO \"{table}\" VALUE {{'pk':?,'{'n' * (room + 1)}':?}}"
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.batch_execute_statement(
            Statements=[{"Statement": too_long, "Parameters": [s("c"), s("v")]}]
        )


@pytest.mark.parametrize(("levels", "code"), [(31, None)])
def test_value_is_nested_as_deep_as_in_an_item(dynamodb, make_table, levels, code):
    table = make_table()
    value: dict[str, Any] = s("x")
    for _ in range(levels):
        value = {"L": [value]}
    assert insert(dynamodb, table, {"pk": s("a"), "v": value}, {"pk": s("b")}) == [code, None]
