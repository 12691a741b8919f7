"""Tests of lines of plain JSON, and of the modes."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.modes import DELETE, INSERT, LAST_WINS, position
from ddbload.items.document_builder import DocumentRules
from ddbload.items.item_requests import Item
from ddbload.items.row_encoder import DocumentEncoder
from ddbload.rows.blocks import Block, Defect
from tests.unit.items.bad_json import NOT_JSON
from tests.unit.items.document_readers import BY_ID, START, changes, items, lines, read, table

JSON = DocumentRules(BY_ID)


def _one(row: Any, rules: DocumentRules = JSON) -> Any:
    (found,) = items(lines(row), rules)
    return found


def _defect(row: Any, rules: DocumentRules = JSON) -> Defect:
    (found,) = read(lines(row), rules)
    assert isinstance(found, Defect), found
    return found


@pytest.mark.parametrize("text", [text for text in NOT_JSON if text.strip() and "\n" not in text])
def test_bad_json_spoils_no_other_row(text: str) -> None:
    data = lines('{"id":"a"}', text, '{"id":"b"}')
    assert items(data, JSON) == [{"id": {"S": "a"}}, ("bad_json", None), {"id": {"S": "b"}}]


@pytest.mark.parametrize(
    ("row", "cause", "column"),
    [
        (b'{"id":"\xe9"}', "bad_encoding", None),
        (b'{"id":"a","x":"\xed\xa0\x80"}', "bad_encoding", None),
        (b"\xff\xfe{\x00}\x00", "bad_encoding", None),
        ("{}", "empty_key", "id"),
        ('{"id":null}', "empty_key", "id"),
        ('{"id":""}', "empty_key", "id"),
        ('{"ID":"a"}', "empty_key", "id"),
        ('{"id":true}', "wrong_type", "id"),
        ('{"id":["a"]}', "wrong_type", "id"),
        ('{"id":{}}', "wrong_type", "id"),
        ('{"id":"\\ud800"}', "lone_surrogate", "id"),
        ('{"id":"a","x":"\\udfff"}', "lone_surrogate", "x"),
        ('{"id":"a","x":[{"y":"\\udfff"}]}', "lone_surrogate", "x"),
        ('{"id":"a","\\ud800":1}', "lone_surrogate", None),
        ('{"id":"a","id":"a"}', "duplicate_name", "id"),
        ('{"id":"a","x":1,"\\u0078":1}', "duplicate_name", "x"),
        ('{"id":"a","x":{"y":1,"y":1}}', "duplicate_name", "x"),
        ('{"id":"a","":1}', "bad_name", None),
        ('{"id":"a","x":{"":1}}', "bad_name", "x"),
        ('{"id":"a","x":1E400}', "number_out_of_range", "x"),
        ('{"id":"a","x":[' + "1" * 39 + "]}", "number_too_long", "x"),
        ('{"id":"a","x":' + "1" * 20_000 + "}", "number_too_long", "x"),
        ('{"id":"a","x":' + "[" * 33 + "]" * 33 + "}", "nested_too_deep", "x"),
        ('{"id":"a","x":' + "[" * 500 + "]" * 500 + "}", "nested_too_deep", "x"),
        ("[" * 100_000, "nested_too_deep", None),
        ('{"id":' * 100_000, "nested_too_deep", None),
        ('{"id":"' + "a" * 2049 + '"}', "key_too_long", "id"),
        ('{"id":"' + "é" * 1025 + '"}', "key_too_long", "id"),
    ],
)
def test_bad_row_is_named_and_spoils_no_other(
    row: str | bytes, cause: str, column: str | None
) -> None:
    good = '{"id":"b","x":1}'
    other = {"id": {"S": "b"}, "x": {"N": "1"}}
    assert items(lines(good, row, good), JSON) == [other, (cause, column), other]
    assert items(lines(row), JSON) == [(cause, column)]


def test_key_gets_the_tables_type() -> None:
    rules = DocumentRules(table(("p", "S"), ("s", "N")))
    assert _one({"s": "1.0", "p": 7, "x": "1"}, rules) == {
        "s": {"N": "1.0"},
        "p": {"S": "7"},
        "x": {"S": "1"},
    }
    found = read(lines('{"p":"a","s":1.0}', '{"s":1E0,"p":"a"}', '{"p":"é","s":-0}'), rules)
    assert [each.key for each in found if isinstance(each, Item)] == [
        ("a", "1"),
        ("a", "1"),
        ("\xc3\xa9", "0"),
    ]
    assert _one({"p": "a", "s": "x"}, rules) == ("not_a_number", "s")
    assert _one({"p": "a", "s": ""}, rules) == ("wrong_type", "s")
    assert _one('{"p":"a","s":1e126}', rules) == ("number_out_of_range", "s")


def test_binary_key_is_read_as_base64() -> None:
    rules = DocumentRules(table(("p", "B")))
    found = read(lines({"p": "QQ=="}, {"p": "QR=="}, {"p": "?"}, {"p": ""}), rules)
    assert [each.key if isinstance(each, Item) else each.cause for each in found] == [
        ("QQ==",),
        ("QQ==",),
        "not_base64",
        "wrong_type",
    ]


def test_index_key_fits_its_type_or_is_missing() -> None:
    keys = [("g", "S", 2048), ("h", "N", 1024), ("g", "S", 1024)]
    rules = DocumentRules(table(("id", "S"), index_keys=keys))
    assert _one({"id": "a", "g": "b", "h": 1}, rules) == {
        "id": {"S": "a"},
        "g": {"S": "b"},
        "h": {"N": "1"},
    }
    assert _one({"id": "a"}, rules) == _one({"id": "a", "g": None, "h": None}, rules)
    for policy in ("null", "empty"):
        assert "g" not in _one({"id": "a", "g": None}, replace(rules, nulls=policy))
    assert _one({"id": "a", "g": ""}, rules) == ("empty_key", "g")
    assert _one({"id": "a", "g": "b" * 1025}, rules) == ("key_too_long", "g")
    assert _one({"id": "a", "g": []}, rules) == ("wrong_type", "g")
    assert _one({"id": "a", "h": True}, rules) == ("wrong_type", "h")
    # What is deleted is in no index.
    assert _one({"id": "a", "g": ""}, replace(rules, mode=DELETE)) == {"id": {"S": "a"}}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("omit", {"id": {"S": "a"}}),
        ("null", {"id": {"S": "a"}, "x": {"NULL": True}, "n": {"NULL": True}}),
        ("empty", {"id": {"S": "a"}, "x": {"S": ""}}),
        ("reject", ("null_value", "x")),
    ],
)
def test_null_becomes_what_the_policy_says(policy: str, expected: object) -> None:
    rules = DocumentRules(BY_ID, types={"n": "N"}, nulls=policy, markers=frozenset({"\\N"}))
    assert _one({"id": "a", "x": None, "n": None}, rules) == expected
    assert _one({"id": "a", "x": "\\N", "n": "\\N"}, rules) == expected
    assert _one({"id": "\\N"}, rules) == ("empty_key", "id")
    # Within a list or a map it is a value.
    assert _one({"id": "a", "l": [None, "\\N"]}, rules) == {
        "id": {"S": "a"},
        "l": {"L": [{"NULL": True}, {"S": "\\N"}]},
    }


def test_declared_type_is_read_from_strings_and_numbers() -> None:
    types = {
        "n": "N",
        "s": "S",
        "b": "BOOL",
        "t": "epoch",
        "ss": "SS",
        "ns": "NS",
        "bs": "BS",
        "bin": "B",
        "m": "M",
        "l": "L",
    }
    rules = DocumentRules(BY_ID, types=types)
    row = (
        '{"id":"a","n":"+1","s":1.50,"b":"yes","t":"1970-01-01T00:01:00Z","ss":["b","a"],'
        '"ns":[1,"2.0"],"bs":["QQ=="],"bin":"QUI=","m":"{\\"x\\":1}","l":[1]}'
    )
    assert _one(row, rules) == {
        "id": {"S": "a"},
        "n": {"N": "1"},
        "s": {"S": "1.50"},
        "b": {"BOOL": True},
        "t": {"N": "60"},
        "ss": {"SS": ["b", "a"]},
        "ns": {"NS": ["1", "2.0"]},
        "bs": {"BS": ["QQ=="]},
        "bin": {"B": "QUI="},
        "m": {"M": {"x": {"N": "1"}}},
        "l": {"L": [{"N": "1"}]},
    }
    for bad, cause in (
        ('{"id":"a","n":"x"}', "not_a_number"),
        ('{"id":"a","n":true}', "wrong_type"),
        ('{"id":"a","s":false}', "wrong_type"),
        ('{"id":"a","ss":[1]}', "not_a_set"),
        ('{"id":"a","ss":[]}', "empty_set"),
        ('{"id":"a","ns":[1,1.0]}', "duplicate_in_set"),
        ('{"id":"a","m":[]}', "wrong_type"),
        ('{"id":"a","bin":"QQ"}', "not_base64"),
    ):
        assert _defect(bad, rules).cause == cause


def test_attributes_are_renamed_dropped_and_composed() -> None:
    mapping = changes(
        {"id": "sk", "x": "y"}, ["secret"], {"id": "USER#{id}", "kind": "user", "n": "{n}/{ok}/{s}"}
    )
    rules = DocumentRules(table(("id", "S"), ("sk", "S")), changes=mapping)
    row = {"id": "é7", "secret": 1, "x": 1, "n": 1.5, "ok": True, "s": '"\n'}
    assert _one(row, rules) == {
        "sk": {"S": "é7"},
        "y": {"N": "1"},
        "n": {"S": '1.5/true/"\n'},
        "ok": {"BOOL": True},
        "s": {"S": '"\n'},
        "id": {"S": "USER#é7"},
        "kind": {"S": "user"},
    }
    # What is composed of nothing is none.
    assert _one({"id": "a", "n": 1, "s": "x"}, rules) == {
        "sk": {"S": "a"},
        "s": {"S": "x"},
        "id": {"S": "USER#a"},
        "kind": {"S": "user"},
    }
    assert _one({"x": 1}, rules) == ("empty_key", "id")
    assert _one({"id": "a", "y": 1, "x": 2}, rules) == ("duplicate_name", "y")
    assert _one({"id": "a", "n": [], "ok": 1, "s": "x"}, rules) == ("wrong_type", "n")


def test_item_can_have_400_kb_and_no_more() -> None:
    most = "x" * (MAX_ITEM_BYTES - len("id") - len("k") - len("text"))
    (found,) = read(lines({"id": "k", "text": most}), JSON)
    assert isinstance(found, Item)
    assert found.size == MAX_ITEM_BYTES
    assert _defect({"id": "k", "text": most + "x"}) == Defect(
        "item_too_large", "409601 bytes; DynamoDB's limit is 409600"
    )
    deep = {"id": "k", "l": [True] * 250_000}
    assert _defect(deep).cause == "item_too_large"


def test_row_with_too_many_values_is_rejected_unparsed() -> None:
    row = '{"id":"k","l":[' + "1," * 1_000_001 + "1]}"
    found = DocumentEncoder(JSON).build(row.encode(), 0)
    assert found == Defect("item_too_large", "more than 1000000 values; no item has as many")
    data = lines('{"id":"a"}', row, '{"id":"b"}')
    tracemalloc.start()
    try:
        rows = DocumentEncoder(JSON)
        _, encoded = rows.read(Block(data, START))
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()
    assert encoded.odd == {1}


def test_mode_decides_what_is_sent() -> None:
    row = '{"id":"a","x":[1]}'
    data = lines(row, row)

    def body(rules: DocumentRules, *, count: int = 1) -> bytes:
        rows = DocumentEncoder(rules)
        _, encoded = rows.read(Block(data, START))
        return rows.joiner.body(encoded.puts[:count])

    put = b'{"PutRequest":{"Item":{"id":{"S":"a"},"x":{"L":[{"N":"1"}]}}}}'
    assert body(JSON, count=2) == (
        b'{"RequestItems":{"t":[' + put + b"," + put + b']},"ReturnConsumedCapacity":"TOTAL"}'
    )
    assert body(replace(JSON, mode=DELETE)) == (
        b'{"RequestItems":{"t":[{"DeleteRequest":{"Key":{"id":{"S":"a"}}}}]},'
        b'"ReturnConsumedCapacity":"TOTAL"}'
    )
    assert body(replace(JSON, mode=INSERT)) == (
        b'{"TableName":"t","Item":{"id":{"S":"a"},"x":{"L":[{"N":"1"}]}},'
        b'"ConditionExpression":"attribute_not_exists(#key)",'
        b'"ExpressionAttributeNames":{"#key":"id"},'
        b'"ReturnValuesOnConditionCheckFailure":"ALL_OLD","ReturnConsumedCapacity":"TOTAL"}'
    )
    last = replace(JSON, mode=LAST_WINS, position_attribute="at", started=1.5)
    at = position(1.5, START.byte).encode()
    assert body(last) == (
        b'{"TableName":"t","Item":{"id":{"S":"a"},"x":{"L":[{"N":"1"}]},"at":{"S":"' + at + b'"}},'
        b'"ConditionExpression":"attribute_not_exists(#position) OR #position <= :position",'
        b'"ExpressionAttributeNames":{"#position":"at"},'
        b'"ExpressionAttributeValues":{":position":{"S":"' + at + b'"}},'
        b'"ReturnValuesOnConditionCheckFailure":"ALL_OLD","ReturnConsumedCapacity":"TOTAL"}'
    )
    first, second = read(data, last)
    assert isinstance(first, Item)
    assert isinstance(second, Item)
    assert second.attributes["at"] == {"S": position(1.5, START.byte + len(row) + 1)}
    assert _one('{"id":"a","at":1}', last) == ("duplicate_name", "at")


def test_bad_utf_8_is_rejected_wherever_it_stands() -> None:
    rules = replace(JSON, mode=DELETE)
    good, bad = b'{"id":"a","x":"b"}', b'{"id":"a","x":"\xff"}'
    assert items(lines(good, bad, b'{"x":1}', bad), rules) == [
        {"id": {"S": "a"}},
        ("bad_encoding", None),
        ("empty_key", "id"),
        ("bad_encoding", None),
    ]


def test_defect_contains_no_row_data() -> None:
    secret = "s3cret" * 1000
    for row in (
        {"id": secret},
        {"id": [secret]},
        {"id": "a", "x": {secret: {"": 1}}},
        f'{{"id":"a","x":"{secret}',
        f'{{"id":"a","x":"{secret}\\ud800"}}',
    ):
        found = _defect(row)
        assert "s3cret" not in found.detail + str(found.column)
