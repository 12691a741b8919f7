"""Tests of the comparison of items."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.dynamodb.item_equality import same, write_units

ALIKE: list[tuple[Any, Any]] = [
    ({"S": "a"}, {"S": "a"}),
    ({"N": "1"}, {"N": "1.0"}),
    ({"N": "10"}, {"N": "1E+1"}),
    ({"N": "-0"}, {"N": "0"}),
    (
        {"N": "12345678901234567890123456789012345678"},
        {"N": "1.2345678901234567890123456789012345678E37"},
    ),
    ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}),
    ({"NS": ["1", "2"]}, {"NS": ["2.0", "1"]}),
    ({"BS": ["MQ==", "Mg=="]}, {"BS": ["Mg==", "MQ=="]}),
    ({"BOOL": True}, {"BOOL": True}),
    ({"NULL": True}, {"NULL": True}),
    ({"L": [{"N": "1"}, {"S": "x"}]}, {"L": [{"N": "1.0"}, {"S": "x"}]}),
    (
        {"M": {"a": {"NS": ["1", "2"]}, "b": {"S": ""}}},
        {"M": {"b": {"S": ""}, "a": {"NS": ["2", "1"]}}},
    ),
]
UNLIKE: list[tuple[Any, Any]] = [
    ({"S": "a"}, {"S": "b"}),
    ({"S": "1"}, {"N": "1"}),
    ({"S": "1"}, {"S": "1.0"}),
    (
        {"N": "12345678901234567890123456789012345678"},
        {"N": "12345678901234567890123456789012345679"},
    ),
    ({"BOOL": True}, {"BOOL": False}),
    ({"SS": ["a", "b"]}, {"SS": ["a"]}),
    ({"NS": ["1"]}, {"SS": ["1"]}),
    ({"L": [{"N": "1"}, {"S": "x"}]}, {"L": [{"S": "x"}, {"N": "1"}]}),
    ({"L": [{"N": "1"}]}, {"L": [{"N": "1"}, {"N": "1"}]}),
    ({"M": {"a": {"N": "1"}}}, {"M": {"b": {"N": "1"}}}),
    ({"M": {"a": {"N": "1"}}}, {"M": {}}),
    ({"N": "1"}, {"N": "one"}),
    ({"N": "one"}, {"N": "one"}),
    ({"N": "1"}, {}),
    ({"N": "1"}, None),
    ({"N": "1"}, {"N": None}),
    ({"L": []}, {"L": None}),
    ({"M": {}}, {"M": None}),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_equal_values_are_the_same(one, other):
    assert same(one, other)
    assert same(other, one)
    assert same({"M": {"x": one}}, {"M": {"x": other}})


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_unequal_values_are_not_the_same(one, other):
    assert not same(one, other)
    assert not same(other, one)
    assert not same({"M": {"x": one}}, {"M": {"x": other}})


@pytest.mark.parametrize(
    ("item", "units"),
    [
        ({"id": {"S": "a"}}, 1.0),
        ({"id": {"S": "a" * 1020}}, 1.0),
        ({"id": {"S": "é" * 600}}, 2.0),
        ({"id": {"B": "YWFh" * 1000}}, 3.0),
        ({"id": {"S": "a"}, "m": {"M": {"x": {"L": [{"S": "a" * 2500}, {"NULL": True}]}}}}, 3.0),
        ({"id": {"N": "1" * 38}, "s": {"SS": ["a" * 1000, "b" * 1000, "c" * 1000]}}, 3.0),
        ({}, 1.0),
        ({"id": {"N": "one"}}, 1.0),
        ({"id": "a"}, 1.0),
        ({"id": {"S": 1}}, 1.0),
        ({"id": {"S": "a", "N": "1"}}, 1.0),
    ],
)
def test_write_units_of_a_failed_condition(item, units):
    assert write_units(item) == units
