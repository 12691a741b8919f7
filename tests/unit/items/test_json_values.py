"""Tests of strict JSON, and of the attribute values that it becomes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ddbload.dynamodb.limits import MAX_DEPTH
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.json_values import attribute, parse
from tests.unit.items.bad_json import NOT_JSON


@pytest.mark.parametrize("text", NOT_JSON)
def test_parse_refuses_what_is_not_json(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse(text)
    assert caught.value.cause == "bad_json"
    assert "JSON" in caught.value.detail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a"', {"S": "a"}),
        ('""', {"S": ""}),
        ('"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u0000"', {"S": '"\\/\b\f\n\r\tA\x00'}),
        ('"\\ud83d\\ude00\U0001f600\x7f\u2028"', {"S": "\U0001f600\U0001f600\x7f\u2028"}),
        ("true", {"BOOL": True}),
        ("false", {"BOOL": False}),
        ("null", {"NULL": True}),
        (" \t\r\n[ ] \n", {"L": []}),
        ("{}", {"M": {}}),
        (
            '{"a": [1, "1", null, {"b": true}]}',
            {
                "M": {
                    "a": {
                        "L": [{"N": "1"}, {"S": "1"}, {"NULL": True}, {"M": {"b": {"BOOL": True}}}]
                    }
                }
            },
        ),
    ],
)
def test_json_becomes_an_attribute_value(text: str, expected: dict[str, Any]) -> None:
    assert attribute(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1E400", "number_out_of_range"),
        ("-1E400", "number_out_of_range"),
        ("1E-131", "number_out_of_range"),
        ("1e99999999999999999999999", "number_out_of_range"),
        ("1" * 39, "number_too_long"),
        ("1" * 100_000, "number_too_long"),
        ("0." + "1" * 39, "number_too_long"),
        ('"\\ud800"', "lone_surrogate"),
        ('"\\udc00\\ud800"', "lone_surrogate"),
        ('{"\\ud800": 1}', "lone_surrogate"),
        ('{"a": 1, "a": 1}', "duplicate_name"),
        ('{"a": 1, "\\u0061": 2}', "duplicate_name"),
        ('[{"a": [{"b": 1, "c": 2, "b": 3}]}]', "duplicate_name"),
        ('{"": 1}', "bad_name"),
        ('{"' + "a" * 65_536 + '": 1}', "bad_name"),
        ('{"' + "\u20ac" * 21_846 + '": 1}', "bad_name"),
        ("[" * 100_000, "nested_too_deep"),
        ('{"a":' * 100_000, "nested_too_deep"),
        ("[" * 100_000 + "]" * 100_000, "nested_too_deep"),
    ],
)
def test_value_that_dynamodb_refuses_is_refused(text: str, cause: str) -> None:
    with pytest.raises(BadValue) as caught:
        attribute(parse(text))
    assert caught.value.cause == cause


def test_name_can_have_64_kb_and_no_more() -> None:
    for name in ("a" * 65_535, "\u20ac" * 21_845):
        assert attribute(parse(json.dumps({name: 1}))) == {"M": {name: {"N": "1"}}}


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_nesting_can_have_32_levels_and_no_more(before: str, after: str) -> None:
    # What is innermost is a level of its own.
    for levels in (MAX_DEPTH - 1, MAX_DEPTH, 500, sys.getrecursionlimit() + 500):
        text = before * levels + "1" + after * levels
        if levels < MAX_DEPTH:
            attribute(parse(text))
            continue
        with pytest.raises(BadValue) as caught:
            attribute(parse(text))
        assert caught.value.cause == "nested_too_deep"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1 "b"}', "from character 9 on"),
        ("[1,", "ends too soon"),
        ("{\n", "ends too soon"),
        ('\ufeff{"a": 1}', "a byte order mark"),
        ("NaN", "NaN is no JSON"),
    ],
)
def test_defect_says_where_json_ends(text: str, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse(text)
    assert words in caught.value.detail
