"""Laws of numbers: limits, spellings, values and sizes."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import assume, given
from hypothesis import strategies as st

from ddbload.dynamodb.scalar_text import BadValue, Number, parse_number
from tests.property.numerals import numerals, scribbles
from tests.unit.items.expected_items import decimal_of, fits, number_bytes


def _read(text: str) -> Number | None:
    try:
        return parse_number(text)
    except BadValue:
        return None


@given(numerals | scribbles | st.text(max_size=5))
def test_number_is_accepted_exactly_when_dynamodb_accepts_it(text: str) -> None:
    value = decimal_of(text)
    assert (_read(text) is not None) == (value is not None and fits(value))


@given(numerals)
def test_number_keeps_its_spelling_except_for_a_plus(text: str) -> None:
    read = _read(text)
    assume(read is not None)
    assert read is not None
    exponent = text.lower().partition("e")[2]
    assume(len(text) <= 200 and len(exponent) <= 6)
    assert read.text == text.removeprefix("+")


@given(numerals)
def test_number_keeps_its_value_in_at_most_200_characters(text: str) -> None:
    read = _read(text)
    assume(read is not None)
    assert read is not None
    assert Decimal(read.text) == Decimal(text)
    assert len(read.text) <= 200


@given(numerals)
def test_number_size_counts_pairs_of_digits(text: str) -> None:
    read = _read(text)
    assume(read is not None)
    assert read is not None
    assert read.size == number_bytes(Decimal(text))


@st.composite
def _spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Draw two spellings of one number, or of neighbours."""
    digits, power = draw(st.integers(0, 10**6)), draw(st.integers(-8, 8))

    def spelled(near: int) -> str:
        zeros, moved = draw(st.integers(0, 4)), draw(st.integers(0, 6))
        sign = draw(st.sampled_from(["", "+", "-"]) if near else st.just(""))
        text = "0" * zeros + f"{Decimal(digits + near).scaleb(power):f}"
        if draw(st.booleans()):
            text = f"{Decimal(text).scaleb(-moved):f}e{moved}"
        if "." in text and "e" not in text:
            text += "0" * zeros
        return sign + text

    return spelled(0), spelled(draw(st.sampled_from([0, 0, 1])))


@given(_spellings() | st.tuples(numerals, numerals))
def test_spellings_have_one_value_exactly_when_numbers_are_equal(
    texts: tuple[str, str],
) -> None:
    first, second = map(_read, texts)
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    assert (first.value == second.value) == (Decimal(texts[0]) == Decimal(texts[1]))
