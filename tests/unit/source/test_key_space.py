"""Guesses of where to cut are cuts, and good ones where keys are as keys are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ddbload.source.s3_listing.key_space import (
    Alphabets,
    KeySpan,
    cuts,
    next_larger_keys,
    pages_left,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
KEYS = st.lists(
    st.one_of(TEXT, st.text("019", min_size=1, max_size=6), st.sampled_from(["�", "퟿"])),
    min_size=2,
    max_size=8,
    unique=True,
)


def seen(*keys: str, prefix: str = "") -> Alphabets:
    alphabets = Alphabets(prefix)
    for key in keys:
        alphabets.see(key)
    return alphabets


@given(KEYS, st.integers(1, 9), st.floats(1, 10), st.integers(0, 3), st.booleans())
def test_cuts_are_in_order_and_within(keys, count, each, skip, is_open):
    first, *middle, until = sorted(keys)
    last = middle[-1] if middle else first
    span = KeySpan(first, last, 1, None if is_open else until)
    alphabets = seen(*keys)
    for found in (
        cuts(span, alphabets, count, each, skip),
        next_larger_keys(span, alphabets, count),
    ):
        assert len(found) <= count
        assert found == sorted(set(found))
        assert all(last < cut for cut in found)
        assert is_open or all(cut < until for cut in found)
        # They travel as UTF-8.
        assert all(cut.encode() for cut in found)
    assert pages_left(span, alphabets) >= 0


def test_a_climb_tells_where_keys_count_up():
    span = KeySpan("in/part-0017", "in/part-0029", 1, None)
    found = next_larger_keys(span, seen("in/part-0017", "in/part-0029", prefix="in/"), 9)
    assert found == ["in/part-003", "in/part-01", "in/part-1", "in/q"]
    assert next_larger_keys(span, seen(prefix="in/"), 2) == ["in/part-01", "in/q"]


def test_cuts_are_even():
    alphabets = seen("a000", "a100", "a199", "a999", prefix="a")
    span = KeySpan("a000", "a099", 1, None)
    assert pages_left(span, alphabets) == 901 / 99
    assert cuts(span, alphabets, 2, 9.0, 0) == ["a3", "a6"]
    assert cuts(span, alphabets, 1, 2.0, 1) == ["a3"]
    assert cuts(span._replace(until="a5"), alphabets, 1, 9.0, 0) == ["a2"]


def test_hexadecimal_keys_go_on_to_f():
    alphabets = seen("00ab12", "01cd34", "02fe9a", "03b1c2")
    assert alphabets.at(1, beyond=True) == "0123456789abcdef"
    assert alphabets.at(1, beyond=False) == "0123"
    assert seen("00x", "03y").at(1, beyond=True) == "0123456789"


def test_what_was_in_vain_is_not_tried_again():
    alphabets = seen("d01", "d12", "d29")
    assert alphabets.at(1, beyond=True) == "0123456789"
    alphabets.deny("d7")
    assert alphabets.at(1, beyond=True) == "012345689"
    alphabets.see("d71")
    assert alphabets.at(1, beyond=True) == "0123456789"
    assert alphabets.at(1, beyond=False) == "01234567"
    assert alphabets.at(9, beyond=True) == ""
