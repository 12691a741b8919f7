"""Text that leaves has no character that could control a terminal or a log."""

from __future__ import annotations

import pytest

from ddbload.errors import MAX_ERROR_TEXT, InvalidPayload, visible

ODD = {
    "\x00": r"\x00",
    "\x1b[31m": r"\x1b[31m",
    "\r\n": r"\r\n",
    "\t": r"\t",
    "\x7f": r"\x7f",
    "\x85": r"\x85",
    "\u2028": r"\u2028",
    "\u2029": r"\u2029",
    "\u202e": r"\u202e",
    "\u2066": r"\u2066",
    "\u200b": r"\u200b",
    "\ufeff": r"\ufeff",
    "\ud800": r"\ud800",
    "\U000e0001": r"\U000e0001",
}


@pytest.mark.parametrize("odd", ODD)
def test_characters_without_a_picture_are_escaped(odd):
    assert visible(f"a{odd}é😀") == f"a{ODD[odd]}é😀"
    assert visible(visible(odd)) == visible(odd)
    assert str(InvalidPayload(f"a{odd}b")) == f"a{ODD[odd]}b"
    assert InvalidPayload(f"a{odd}b").message == f"a{ODD[odd]}b"


@pytest.mark.parametrize("text", ["x" * 10**6, "\x00" * 10**6])
def test_text_is_cut_to_its_limit(text):
    assert len(visible(text, 100)) == 103
    assert len(str(InvalidPayload(text))) == MAX_ERROR_TEXT + 3
