"""Tests of values of every type, read from text."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.dynamodb.attribute_values import value_size
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.row_attributes import TEXT_READERS
from tests.unit.items.expected_items import BAD, value_bytes, value_of


@pytest.mark.parametrize(
    ("kind", "text", "attribute"),
    [
        ("S", " a ", {"S": " a "}),
        ("N", "+1.0", {"N": "1.0"}),
        ("BOOL", "YES", {"BOOL": True}),
        ("B", "AP8=", {"B": "AP8="}),
        # Bits after the last byte are nobody's, and one value has one spelling.
        ("B", "QR==", {"B": "QQ=="}),
        ("SS", '["b", "a", "é", ""]', {"SS": ["b", "a", "é", ""]}),
        ("NS", '[1, "2", -0.50, 1e2]', {"NS": ["1", "2", "-0.50", "1e2"]}),
        ("BS", '["AP8=", ""]', {"BS": ["AP8=", ""]}),
        ("NULL", "Null", {"NULL": True}),
        ("epoch", "2024-02-29", {"N": "1709164800"}),
        ("epoch", "1709210096123", {"N": "1709210096"}),
        ("L", ' [1, "1", null, true, [], {}] ', None),
        ("M", '{"n": 12345678901234567890.10, "m": {"l": [false]}, "é": "\\u00e9"}', None),
    ],
)
def test_text_is_read_as_a_value_of_its_type(
    kind: str, text: str, attribute: dict[str, Any] | None
) -> None:
    value = TEXT_READERS[kind](text)
    if attribute is not None:
        assert value == attribute
    assert value_size(value) == value_bytes(value_of(kind, text))


def test_numbers_in_documents_keep_all_digits() -> None:
    said = '{"a": [0.1, 1.0, 1E2, 12345678901234567890123456789012345678, -0]}'
    (numbers,) = TEXT_READERS["M"](said)["M"].values()
    texts = ["0.1", "1.0", "1E2", "12345678901234567890123456789012345678", "-0"]
    assert numbers == {"L": [{"N": text} for text in texts]}


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_text_is_refused_when_it_is_not_of_its_type(kind: str, text: str) -> None:
    with pytest.raises(BadValue) as caught:
        TEXT_READERS[kind](text)
    assert caught.value.cause == BAD[kind, text]
    assert caught.value.detail


def test_spellings_of_one_binary_are_one_key() -> None:
    assert TEXT_READERS["B"]("QQ==") == TEXT_READERS["B"]("QR==")
    assert TEXT_READERS["B"]("QQ==") != TEXT_READERS["B"]("Qg==")
