"""Tests of values of every type, read from text."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.row_attributes import TEXT_READERS
from tests.unit.items.expected_items import BAD


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
