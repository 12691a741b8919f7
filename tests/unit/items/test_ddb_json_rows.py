"""Tests of lines of DynamoDB JSON, of exports and of Parquet."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ddbload.contracts.run_record import Cursor
from ddbload.dynamodb.modes import DELETE, INSERT, LAST_WINS
from ddbload.items.document_builder import DocumentRules, export_line, item_line
from ddbload.items.item_requests import Item
from ddbload.items.row_encoder import DocumentEncoder
from ddbload.rows.blocks import Block
from tests.unit.items.document_readers import BY_ID, changes, items, lines, read, table

TYPED = DocumentRules(BY_ID, typed=True, native=True, envelope=item_line)
EXPORT = replace(TYPED, envelope=export_line)
PARQUET = replace(TYPED, native=False)

EVERYTHING: dict[str, Any] = {
    "id": {"S": 'aé"\n\\'},
    "n": {"N": "-1.50"},
    "b": {"B": "QUI="},
    "t": {"BOOL": True},
    "f": {"BOOL": False},
    "0": {"NULL": True},
    "ss": {"SS": ["b", "", "é"]},
    "ns": {"NS": ["1", "2.0"]},
    "bs": {"BS": ["QQ==", "QUJD"]},
    "l": {"L": [{"S": "x"}, {"L": []}, {"NULL": True}, {"SS": ["1"]}]},
    "m": {"M": {"x": {"M": {}}, "S": {"S": "S"}, 'é"': {"N": "1"}}},
    "S": {"S": ""},
    "Item": {"M": {"Item": {"S": "Item"}}},
}


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\t", " : ")])
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \r\n"])
def test_item_equals_its_line(
    ascii_only: bool, separators: tuple[str, str], wrapped: bool, end: str
) -> None:
    rows = [
        EVERYTHING,
        {"id": {"S": "b"}},
        EVERYTHING | {"id": {"S": "plain"}, "t": {"BOOL": False}},
    ]
    data = "".join(
        json.dumps(
            {"Item": row} if wrapped else row, ensure_ascii=ascii_only, separators=separators
        )
        + end
        for row in rows
    )
    assert items(data.encode(), TYPED) == rows
    if wrapped:
        assert items(data.encode(), EXPORT) == rows


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("1", "bad_attribute"),
        ("null", "bad_attribute"),
        ("{}", "bad_attribute"),
        ('{"S":"a","N":"1"}', "bad_attribute"),
        ('{"S":"a","S":"a"}', "duplicate_name"),
        ('{"s":"a"}', "bad_attribute"),
        ('{"S":1}', "bad_attribute"),
        ('{"N":1}', "bad_attribute"),
        ('{"N":"1x"}', "not_a_number"),
        ('{"N":"NaN"}', "not_a_number"),
        ('{"N":"1E400"}', "number_out_of_range"),
        ('{"B":"QQ"}', "not_base64"),
        ('{"BOOL":"true"}', "bad_attribute"),
        ('{"NULL":false}', "bad_attribute"),
        ('{"SS":[]}', "empty_set"),
        ('{"SS":["a","\\u0061"]}', "duplicate_in_set"),
        ('{"NS":["1","1.0"]}', "duplicate_in_set"),
        ('{"BS":["QQ==","QR=="]}', "duplicate_in_set"),
        ('{"L":["a"]}', "bad_attribute"),
        ('{"M":{"a":"b"}}', "bad_attribute"),
        ('{"M":{"a":{"S":"b"},"a":{"S":"b"}}}', "duplicate_name"),
        ('{"M":{"":{"S":"b"}}}', "bad_name"),
        ('{"S":"\\udc00"}', "lone_surrogate"),
        ('{"L":[' * 32 + '{"S":""}' + "]}" * 32, "nested_too_deep"),
        ('{"M":{"a":' * 300 + '{"S":""}' + "}}" * 300, "nested_too_deep"),
    ],
)
def test_bad_value_is_named_and_spoils_no_other(value: str, cause: str) -> None:
    good = {"id": {"S": "b"}, "x": {"S": "c"}}
    bad = f'{{"id":{{"S":"a"}},"x":{value}}}'
    for before, after in (("", ""), ('{"Item":', "}")):
        data = lines(
            before + json.dumps(good) + after,
            before + bad + after,
            before + json.dumps(good) + after,
        )
        assert items(data, TYPED) == [good, (cause, "x"), good]


@pytest.mark.parametrize(
    "text", ["a\tb", "a\x01b", "a\\x", "\\u12", '"', 'a" "b', '\\ud800"', "\\"]
)
def test_bad_json_spoils_no_other_row(text: str) -> None:
    good = '{"Item":{"id":{"S":"b"},"x":{"S":"c\\\\"}}}'
    row = f'{{"Item":{{"id":{{"S":"a"}},"x":{{"S":"{text}"}}}}}}'
    item = {"id": {"S": "b"}, "x": {"S": "c\\"}}
    assert items(lines(good, good, row, row, good), TYPED) == [
        item,
        item,
        ("bad_json", None),
        ("bad_json", None),
        item,
    ]


def test_rows_of_many_shapes_are_kept_apart() -> None:
    rows = [
        {"id": {"S": f"é{number}"}}
        | {f"n{number % 7}": {"N": str(number)}}
        | ({"x%s": {"L": [{"S": '"'}, {"M": {"%": {"BOOL": True}}}]}} if number % 3 else {})
        | ({"z": {"NULL": True}} if number % 5 else {"z": {"SS": ["a", str(number)]}})
        for number in range(400)
    ]
    assert items(lines(*rows), TYPED) == rows
    parquet = items(lines(*rows), PARQUET)
    for row, item in zip(rows, parquet, strict=True):
        assert item == {name: value for name, value in row.items() if "NULL" not in value}


def test_row_is_rejected_when_a_key_has_another_type() -> None:
    assert items(lines({"id": {"N": "1"}}), TYPED) == [("wrong_type", "id")]
    assert items(lines({"id": {"NULL": True}}), TYPED) == [("wrong_type", "id")]
    assert items(lines({"id": {"S": ""}}), TYPED) == [("empty_key", "id")]
    assert items(lines({"x": {"S": "a"}}), TYPED) == [("empty_key", "id")]
    rules = replace(TYPED, table=table(("id", "S"), index_keys=[("g", "N", 1024), ("b", "B", 4)]))
    for attribute, cause in (
        ({"g": {"S": "1"}}, "wrong_type"),
        ({"g": {"NULL": True}}, "wrong_type"),
        ({"b": {"B": ""}}, "empty_key"),
        ({"b": {"B": "QUJDREU="}}, "key_too_long"),
    ):
        (name,) = attribute
        assert items(lines({"id": {"S": "a"}} | attribute), rules) == [(cause, name)]
    assert items(lines({"id": {"S": "a"}, "b": {"B": "QUJDRA=="}}), rules) == [
        {"id": {"S": "a"}, "b": {"B": "QUJDRA=="}}
    ]


def test_null_is_a_value_unless_the_policy_says_otherwise() -> None:
    row = {"id": {"S": "a"}, "x": {"NULL": True}, "l": {"L": [{"NULL": True}]}}
    without = {name: value for name, value in row.items() if name != "x"}
    for rules, expected in (
        (TYPED, row),
        (replace(TYPED, nulls="null"), row),
        (replace(TYPED, nulls="empty"), row | {"x": {"S": ""}}),
        (replace(TYPED, nulls="reject"), ("null_value", "x")),
        (PARQUET, without),
        (replace(PARQUET, nulls="null"), row),
        (replace(PARQUET, nulls="reject"), ("null_value", "x")),
    ):
        assert items(lines({"Item": row}, {"Item": row}), rules) == [expected] * 2


def test_position_comes_last_and_must_not_be_in_the_row() -> None:
    rules = replace(TYPED, mode=LAST_WINS, position_attribute="at", started=1.5)
    row, own = {"id": {"S": "a"}}, {"id": {"S": "a"}, "at": {"S": "b"}}
    found = items(lines(row, own, own, row), rules)
    assert [list(item) if isinstance(item, dict) else item for item in found] == [
        ["id", "at"],
        ("duplicate_name", "at"),
        ("duplicate_name", "at"),
        ["id", "at"],
    ]
    assert found[0]["at"] != found[3]["at"]


def test_attributes_are_typed_renamed_dropped_and_composed() -> None:
    mapping = changes({"a": "b"}, ["0"], {"id": "{kind}#{n}"})
    rules = replace(TYPED, types={"when": "epoch", "n": "S"}, changes=mapping)
    row = {
        "kind": {"S": "é"},
        "n": {"N": "1.0"},
        "a": {"L": [{"S": "x"}]},
        "0": {"NULL": True},
        "when": {"S": "1970-01-01T00:01:00Z"},
    }
    assert items(lines({"Item": row}), rules) == [
        {
            "kind": {"S": "é"},
            "n": {"S": "1.0"},
            "b": {"L": [{"S": "x"}]},
            "when": {"N": "60"},
            "id": {"S": "é#1.0"},
        }
    ]


def test_incremental_export_puts_and_deletes() -> None:
    metadata = {"WriteTimestampMicros": {"N": "1680109764000000"}}
    keys = {"id": {"S": "a"}}
    old, new = {**keys, "x": {"N": "1"}}, {**keys, "x": {"N": "2"}}
    data = lines(
        {"Metadata": metadata, "Keys": keys, "NewImage": new},
        {"Metadata": metadata, "Keys": keys, "OldImage": old, "NewImage": new},
        {"Metadata": metadata, "Keys": keys, "OldImage": old},
        {"Metadata": metadata, "Keys": keys},
        {"Item": new},
    )
    found = read(data, EXPORT)
    assert [(each.attributes, each.deleted) for each in found if isinstance(each, Item)] == [
        (new, False),
        (new, False),
        (keys, True),
        (keys, True),
        (new, False),
    ]
    assert {each.key for each in found if isinstance(each, Item)} == {("a",)}
    deleting = read(data, replace(EXPORT, mode=DELETE))
    assert [(each.attributes, each.deleted) for each in deleting if isinstance(each, Item)] == [
        (keys, False)
    ] * 5
    inserting = items(data, replace(EXPORT, mode=INSERT))
    assert inserting == [new, new, ("deletion", None), ("deletion", None), new]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({}, ("bad_export", None)),
        ({"id": {"S": "a"}}, ("bad_export", None)),
        ({"Item": [1]}, ("bad_export", None)),
        ({"Keys": 1}, ("bad_export", None)),
        ({"Keys": {"id": {"S": "a"}}, "other": 1}, ("bad_export", None)),
        ({"Keys": {"id": {"S": "a"}, "x": {"S": "a"}}}, ("bad_export", None)),
        ({"Keys": {}}, ("empty_key", "id")),
        ({"Keys": {"id": {"S": "a"}}, "NewImage": "x"}, ("bad_export", None)),
        # Nothing is deleted for what is not said.
        ({"Keys": {"id": {"S": "a"}}, "NewImage": None}, ("bad_export", None)),
        ('{"Keys":{"id":{"S":"a"}},"Keys":{"id":{"S":"a"}}}', ("duplicate_name", None)),
        ({"Item": {"id": {"S": "a"}, "x": 1}}, ("bad_attribute", "x")),
    ],
)
def test_line_that_is_not_of_an_export_is_rejected(row: Any, found: tuple[str, str | None]) -> None:
    assert items(lines(row), EXPORT) == [found]


LINES = [
    '{"Item":{"id":{"S":"a"},"l":{"L":["S"]}}}',
    '{"Item":{"id":{"S":"a"},"l":{"L":[["S","x"]]}}}',
    '{"Item":{"id":{"S":"a"},"l":["S"]}}',
    '{"Item":{"id":{"S":"a"},"m":{"M":{"x":"S1"}}}}',
    '{"Item":{"id":{"S":"a"},"m":{"M":{"x":{"S":"1"},"x":{"S":"1"}}}}}',
    '{"Item":{"id":{"S":"a"},"m":{"M":{"\\u0000":{"NULL":true}}}}}',
    '{"Item":{"id":{"S":"a"},"t":{"BOOL":1}}}',
    '{"Item":{"id":{"S":"a"},"n":{"N":1}}}',
    '{"Item":{"id":{"S":"a"},"n":{"N":"\\u0031"}}}',
    '{"Item":{"id":{"S":"a"},"n":{"N":"-0"}}}',
    '{"Item":{"id":{"S":"a"},"n":{"N":"١"}}}',
    '{"Item":{"id":{"S":"a"},"n":{"N":"1\\n"}}}',
    '{"Item":{"id":{"S":"a"},"s":{"SS":["b","\\u0062"]}}}',
    '{"Item":{"id":{"S":"a"},"b":{"B":"QQ=\\u003d"},"c":{"BS":["QR=="]}}}',
    '{"Item":{"id":{"S":"\\ud83d\\ude00"}}}',
    '{"Item":{"id":{"S":"a"},"x":{"S":"\\ud83d"}}}',
    '{"Item":{"id":{"S":"a"},"\\ud83d":{"S":"x"}}}',
    '{"Item":{"id":{"S":"a"},"id":{"S":"a"}}}',
    '{"Item":{"id":{"S":"a"}},"Item":{"id":{"S":"a"}}}',
    '{"Item":{"id":{"S":"a"}}}x',
    '{"Item":{"id":{"S":"a"}}',
    '{"Item":{"id":{"S":"a"},\r"x":{"S":"b"}}}',
    '\t{"Item" :\t{"id":{"S":"a"} } }\r',
    '{ "Item" : {"M":{"M":{"S":"x"}}}}',
    '{"Item":{"M":{"M":{"S":"x"}}}}',
    '{"Item":{"S":"x"}}',
    '{"Item":{"id":"x"}}',
    '{"Item":{ }}',
    '{"Item":[]}',
    '{"M":{"M":{"S":"x"}}}',
    '{"Item":{"id":{"S":"a"},"x":' + '{"L":[' * 31 + '{"S":"b"}' + "]}" * 31 + "}}",
    '{"Item":{"id":{"S":"a"},"x":' + '{"L":[' * 32 + "]}" * 32 + "}}",
    '{"Item":{"id":{"S":"a"},"x":' + '{"M":{"m":' * 32 + '{"S":"b"}' + "}}" * 32 + "}}",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("keys", [[], [("id", "S")], [("Item", "S")]])
@pytest.mark.parametrize("rules", [TYPED, EXPORT, PARQUET])
def test_rows_are_encoded_as_the_builder_builds_them(
    line: str, keys: list[tuple[str, str]], rules: DocumentRules
) -> None:
    for more in ({}, {"nulls": "null"}, {"mode": DELETE}, {"markers": frozenset({"x"})}):
        # `read` compares both.
        assert len(read(line.encode() + b"\n", replace(rules, table=table(*keys), **more))) == 1


@pytest.mark.parametrize("envelope", ['{"Item":%s}', '{ "Item" : %s }\r', "%s"])
def test_item_is_sent_in_the_spelling_of_its_line(envelope: str) -> None:
    item = '{"id": {"S":"\\u0061"}, "n":{"N":"1.50"}}'
    block = Block((envelope % item).encode() + b"\n", Cursor(0, 1))
    _, encoded = DocumentEncoder(TYPED).read(block)
    assert encoded.puts == [f'{{"PutRequest":{{"Item":{item}}}}}']
    assert encoded.keys == [("a",)]
