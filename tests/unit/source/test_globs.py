from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.errors import InvalidPayload
from ddbload.source.catalogs.globs import Glob


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("in/*.csv", "in/"), ("in/a?", "in/a"), ("[ab]", ""), ("in/x", "in/x"), ("é/**", "é/")],
)
def test_pattern_prefix_begins_every_match(pattern, prefix):
    assert Glob(pattern).prefix == prefix


def test_reversed_range_is_refused():
    with pytest.raises(InvalidPayload, match="backwards"):
        Glob("a[z-a]")


@pytest.mark.parametrize(
    ("pattern", "folder", "may"),
    [
        ("in/*.csv", "in/", True),
        ("in/*.csv", "out/", False),
        ("in/*.csv", "in/a/", False),
        ("in/*/x", "in/a/", True),
        ("in/*", "in/a/", False),
        ("in/b*/x", "in/a/", False),
        ("in/**", "in/a/b/c/", True),
        ("in/**", "out/", False),
    ],
)
def test_folders_without_a_possible_match_are_skipped(pattern, folder, may):
    assert Glob(pattern).may_match_in(folder) == may


def test_several_double_stars_take_no_longer_than_one():
    """Each further `**` took 1,000 times as long on a key of 1,000 characters: hours here."""
    patterns = [
        "**a**a**a**a**a**b",
        "**/a/**/a/**/a/**/a/**/b",
        "**a*a**a*a**a*a**b",
        "*a**a*/**/a**a/b",
        "**/*a*/**/*a*/**/*a*b",
    ]
    names = ["a" * 1024, "a/" * 512, "a" * 1023 + "/", "aa/" * 341]
    assert not any(Glob(pattern).matches(name) for pattern in patterns for name in names)


@given(
    pattern=st.lists(st.sampled_from(["**", "*", "?", "/", "a", "b", "[!b]"]), max_size=9),
    name=st.text("ab/", max_size=9),
)
def test_pattern_matches_like_an_automaton(pattern, name):
    text = "".join(pattern)
    assert Glob(text).matches(name) == _oracle_matches(text, name)


def _oracle_matches(pattern: str, name: str) -> bool:
    """Match by the rules of the documentation, character by character, over sets of places."""
    places = {0}
    for token in re.findall(r"(?:(?<=/)|^)\*\*(?:/|$)|\*\*+|\[[^\]]+\]|.", pattern):
        if token == "**/":
            after_slashes = {end + 1 for end, one in enumerate(name) if one == "/"}
            places |= {place for place in after_slashes if place > min(places, default=place)}
        elif token.startswith("**"):
            places = {end for place in places for end in range(place, len(name) + 1)}
        elif token == "*":
            places = {
                end
                for place in places
                for end in range(place, len(name) + 1)
                if "/" not in name[place:end]
            }
        else:
            places = {
                place + 1 for place in places if place < len(name) and _one(token, name[place])
            }
    return len(name) in places


def _one(token: str, character: str) -> bool:
    if token in ("?", "[!b]"):
        return character != "/" and (token == "?" or character == "a")
    return token == character
