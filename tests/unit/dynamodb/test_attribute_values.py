"""Tests of the validation and size of attribute values."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.dynamodb.attribute_values import check_value, item_size, value_size
from ddbload.dynamodb.scalar_text import BadValue


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "é漢😀"}, 9),
        ({"N": "0"}, 1),
        ({"N": "1.0"}, 2),
        ({"N": "-15"}, 3),
        ({"N": "123456"}, 4),
        ({"B": ""}, 0),
        ({"B": "QQ=="}, 1),
        ({"B": "QUI="}, 2),
        ({"B": "QUJD"}, 3),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"SS": ["", "ab", "é"]}, 4),
        ({"NS": ["1", "10.0", "-3"]}, 2 + 2 + 3),
        ({"BS": ["QQ==", "QUJD"]}, 4),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}, {"L": []}]}, 3 + (1 + 2) + (1 + 3)),
        ({"M": {}}, 3),
        (
            {"M": {"né": {"S": "ab"}, "x": {"M": {"y": {"BOOL": True}}}}},
            3 + 1 + 5 + 1 + 1 + 3 + 1 + 2,
        ),
    ],
)
def test_valid_value_is_kept_and_measured(value: dict[str, Any], size: int) -> None:
    assert check_value(value) == value
    assert value_size(value) == size
    assert item_size({"né": value}) == 3 + size


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"N": "+1"}, {"N": "1"}),
        ({"N": "0" * 300 + "1"}, {"N": "1.0E0"}),
        ({"NS": ["+1", "2"]}, {"NS": ["1", "2"]}),
        # Bits that mean nothing: the same bytes in their plain spelling.
        ({"B": "QR=="}, {"B": "QQ=="}),
    ],
)
def test_numbers_and_base64_are_normalized(value: dict[str, Any], expected: dict[str, Any]) -> None:
    assert check_value(value) == expected


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (None, "bad_attribute"),
        ("a", "bad_attribute"),
        (b"1", "bad_attribute"),
        ([], "bad_attribute"),
        ({}, "bad_attribute"),
        ({"S": "a", "N": "1"}, "bad_attribute"),
        ({"s": "a"}, "bad_attribute"),
        ({"X": "a"}, "bad_attribute"),
        ({"S": b"1"}, "bad_attribute"),
        ({"S": None}, "bad_attribute"),
        ({"N": b"1"}, "bad_attribute"),
        ({"N": ""}, "not_a_number"),
        ({"N": " 1"}, "not_a_number"),
        ({"N": "NaN"}, "not_a_number"),
        ({"N": "1e126"}, "number_out_of_range"),
        ({"N": "1" * 39}, "number_too_long"),
        ({"B": "QQ"}, "not_base64"),
        ({"B": "QQ=="[:3]}, "not_base64"),
        ({"B": "QQ==QQ=="}, "not_base64"),
        ({"B": "Q-_="}, "not_base64"),
        ({"B": "QUJD\n"}, "not_base64"),
        ({"B": "é"}, "not_base64"),
        ({"B": b"1"}, "bad_attribute"),
        ({"BOOL": "true"}, "bad_attribute"),
        ({"BOOL": b"1"}, "bad_attribute"),
        ({"BOOL": None}, "bad_attribute"),
        ({"NULL": False}, "bad_attribute"),
        ({"NULL": "true"}, "bad_attribute"),
        ({"NULL": b"1"}, "bad_attribute"),
        ({"SS": "a"}, "bad_attribute"),
        ({"SS": []}, "empty_set"),
        ({"NS": []}, "empty_set"),
        ({"BS": []}, "empty_set"),
        ({"SS": [b"1"]}, "bad_attribute"),
        ({"SS": ["a", "a"]}, "duplicate_in_set"),
        ({"NS": ["1", "1.0"]}, "duplicate_in_set"),
        ({"NS": [b"1"]}, "bad_attribute"),
        ({"BS": ["QQ==", "QR=="]}, "duplicate_in_set"),
        ({"L": {}}, "bad_attribute"),
        ({"L": ["a"]}, "bad_attribute"),
        ({"M": []}, "bad_attribute"),
        ({"M": {"": {"S": "a"}}}, "bad_name"),
        ({"M": {"a": "b"}}, "bad_attribute"),
        ({"S": "\ud800"}, "lone_surrogate"),
        ({"SS": ["\ud800"]}, "lone_surrogate"),
        ({"M": {"\ud800": {"S": "a"}}}, "lone_surrogate"),
    ],
)
def test_invalid_value_is_refused_with_its_cause(value: object, cause: str) -> None:
    with pytest.raises(BadValue) as caught:
        check_value(value)
    assert caught.value.cause == cause


@pytest.mark.parametrize("kind", ["L", "M"])
def test_value_of_32_levels_is_the_deepest(kind: str) -> None:
    # What is innermost is a level of its own.
    value: dict[str, Any] = {"S": "a"}
    for _ in range(31):
        value = {"L": [value]} if kind == "L" else {"M": {"a": value}}
    assert check_value(value) == value
    with pytest.raises(BadValue) as caught:
        check_value({"L": [value]})
    assert caught.value.cause == "nested_too_deep"
