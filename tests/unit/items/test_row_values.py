"""Sizes of attribute values, counted in their JSON."""

from __future__ import annotations

import pytest

from ddbload.items.item_requests import compact_json
from ddbload.items.row_values import json_sizes


@pytest.mark.parametrize("name", ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"])
@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "abc"}, 3),
        ({"N": "12"}, 2),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"L": []}, 3),
        ({"M": {}}, 3),
    ],
)
def test_member_whose_name_is_a_type(name, value, size):
    text = compact_json({"M": {name: value}})
    # A map takes three bytes, and one for each member.
    assert json_sizes([[text]]) == [3 + 1 + len(name) + size]
