"""Tests of numbers and booleans read from text."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number


@pytest.mark.parametrize(
    "text", ["1" * 39, "-0." + "12" * 20, "1" + "0" * 37 + "1", "1." + "1" * 38]
)
def test_number_of_more_than_38_digits_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"^(39|40) digits; DynamoDB allows 38$") as caught:
        parse_number(text)
    assert caught.value.cause == "number_too_long"


@pytest.mark.parametrize(
    "text",
    [
        *("9.9E-131", "1E-131", "1E126", "-1E126", "10E125", "0.1E-130", "1E1000000000"),
        *("1e-99999999999999999999", "1e" + "9" * 10_000, "1" + "0" * 126),
    ],
)
def test_number_beyond_the_range_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"1E-130 to 9\.9E\+125") as caught:
        parse_number(text)
    assert caught.value.cause == "number_out_of_range"


@pytest.mark.parametrize("text", ["", "tt", "o", "2", "-1", " true", "yes\n", "ja", "1.0", "nо"])
def test_text_that_is_not_a_boolean_is_refused(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_boolean(text)
    assert caught.value.cause == "not_a_boolean"
