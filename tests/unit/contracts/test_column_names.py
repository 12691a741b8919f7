"""Columns without a name, and columns of one name."""

import pytest

from ddbload.contracts.chunks import ObjectSlice
from ddbload.contracts.column_mapping import name_columns
from ddbload.errors import InvalidPayload


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,a", "id,a"),
        ("id,a,", "id,a,c3"),
        ("id,,a,", "id,c2,a,c4"),
        # No name that another column has, whatever stands before or after it.
        ("id,c4,,", "id,c4,c3,c4_2"),
        ("id,c4_2,c4,", "id,c4_2,c4,c4_3"),
        (",,", ",,"),
        ("a,a", "a,a"),
    ],
)
def test_column_without_name_is_called_by_its_place(header, columns):
    assert name_columns(header.split(","))[0] == tuple(columns.split(","))


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,a,a,a", "id,a,a_2,a_3"),
        ("id,a_2,a,a", "id,a_2,a,a_2_2"),
        ("id,a,a,a_2", "id,a,a_2_2,a_2"),
        # Which of the two is the key, nobody knows.
        ("id,a,id", "id,a,id"),
        ("id,a,,a", "id,a,c3,a_2"),
    ],
)
def test_duplicate_names_get_numbers_unless_they_are_keys(header, columns):
    names, _, numbered = name_columns(header.split(","), number=True, keys=["id"])
    assert names == tuple(columns.split(","))
    assert numbered == (header != "id,a,id")


@pytest.mark.parametrize("places", [[], [1, 1], [-1], ["0"], [True], {"0": 1}, 1])
def test_places_of_columns_are_different_numbers(places):
    slice_ = ObjectSlice({}, 0, 0, 1, 5, places=(1, 0))
    value = slice_.to_json()
    assert ObjectSlice.from_json(value | {"places": [1, 0]}) == slice_
    assert "places" not in ObjectSlice({}, 0, 0, 1, 5).to_json()
    with pytest.raises(InvalidPayload, match="a list of different whole numbers"):
        ObjectSlice.from_json(value | {"places": places})
