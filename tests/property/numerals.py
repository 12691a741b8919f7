"""Texts that are numbers, or nearly so."""

from __future__ import annotations

from hypothesis import strategies as st

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
    """Draw a number whose first digit stands at one end of the range, or just beyond."""
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
