"""Laws of numbers."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import assume, given
from hypothesis import strategies as st

from ddbload.dynamodb.scalar_text import BadValue, Number, parse_number
from tests.unit.items.expected_items import decimal_of, fits, number_bytes

_digits = st.one_of(
    st.text("0123456789", max_size=6),
    st.text("09", max_size=45),
    st.integers(30, 45).map(lambda count: "7" * count),
)
_signs = st.sampled_from(["", "", "-", "+"])
_points = st.sampled_from(["", ".", "."])
_exponents = st.one_of(
    st.just(""),
    st.tuples(
        st.sampled_from(["e", "E"]),
        _signs,
        st.integers(0, 5) | st.integers(80, 180) | st.integers(0, 10**6),
        st.sampled_from(["", "0", "00"]),
    ).map(lambda it: f"{it[0]}{it[1]}{it[3]}{it[2]}"),
)


@st.composite
def _near_the_ends(draw: st.DrawFn) -> str:
    """A number whose first digit stands at one end of the range, or just beyond."""
    digits = draw(st.sampled_from(["1", "10", "99", "0123", "9" * 38]))
    magnitude = draw(st.sampled_from([-132, -131, -130, -129, 124, 125, 126, 127]))
    moved = draw(st.integers(-3, 3))
    leading = len(digits.lstrip("0")) - 1
    if moved > 0:
        return f"0.{'0' * (moved - 1)}{digits.lstrip('0')}e{magnitude + moved}"
    return f"{digits}{'0' * -moved}E{magnitude - leading + moved}"


numerals = _near_the_ends() | st.tuples(_signs, _digits, _points, _digits, _exponents).map("".join)
"""Texts that are numbers or nearly so, on both sides of every limit."""
scribbles = st.text(st.sampled_from("0123456789+-.eE _,\n٣²NaInfity"), max_size=12)


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
    """Two texts of one value, or of neighbours."""
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
