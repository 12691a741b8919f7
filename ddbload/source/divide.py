"""Where to cut a range of keys of which only the beginning has been seen. Pure.

Keys are read as numbers: each place has an alphabet, as far as characters have been seen there.
Guesses only make a listing quicker or slower; whoever cuts anywhere lists the same keys.
"""

from __future__ import annotations

import string
from bisect import bisect_left
from typing import NamedTuple

DEPTH = 64
"""Places of a key that are looked at, behind the prefix that all have."""
_PRECISE = 10**15
"""As exact as a guess need be."""
_LETTERS = (string.ascii_lowercase, string.ascii_uppercase)
_HEX_LETTERS = 6


class Alphabets:
    """Which characters stand where in the keys of one listing."""

    def __init__(self, prefix: str) -> None:
        self.first = len(prefix)
        """The first place that is not the prefix's."""
        self._seen: list[set[str]] = []
        self._known: dict[int, str] = {}

    def see(self, key: str) -> None:
        """Take note of a key."""
        rest = key[self.first : self.first + DEPTH]
        while len(self._seen) < len(rest):
            self._seen.append(set())
        for number, character in enumerate(rest):
            if character not in self._seen[number]:
                self._seen[number].add(character)
                self._known.pop(self.first + number, None)

    def at(self, place: int) -> str:
        """What may stand at this place, in order; empty where nothing was seen.

        One character alone is taken for a constant. Of several, their kin are thought to come too.
        """
        known = self._known.get(place)
        if known is None:
            number = place - self.first
            seen = self._seen[number] if number < len(self._seen) else set()
            known = self._known[place] = "".join(sorted(_kin(seen)))
        return known


class Span(NamedTuple):
    """Keys of which some have been listed."""

    first: str
    """The first key listed."""
    last: str
    """The last key listed."""
    pages: int
    """How many pages that was."""
    until: str | None
    """The last key that there may be; None for whatever comes."""


def climb(span: Span, alphabets: Alphabets, count: int) -> list[str]:
    """Up to `count` cuts, each behind all keys that begin as the last one does, for less and less
    of it. What lies behind them tells how much of the key counts up, and how far.
    """
    top = alphabets.first
    places = range(top, min(_common(span.first, span.last) + 1, len(span.last), top + DEPTH))
    if len(places) > count:
        step = len(places) / count
        places_taken = [places[int(number * step)] for number in range(count)]
    else:
        places_taken = list(places)
    found = (_behind(span.last[: place + 1]) for place in reversed(places_taken))
    return [cut for cut in found if cut is not None and _is_within(cut, span)]


def pages_left(span: Span, alphabets: Alphabets) -> float:
    """About how many pages are still to be listed."""
    scale = _Scale(span, alphabets)
    return (scale.end - scale.last) / scale.page


def cuts(span: Span, alphabets: Alphabets, count: int, pages_each: float, skip: int) -> list[str]:
    """Up to `count` cuts, so that there are about `pages_each` pages, or fewer, between two.

    `skip`: pages that are on their way. In order; all of them after the last key, and before
    `until`.
    """
    scale = _Scale(span, alphabets)
    left = (scale.end - scale.last) / scale.page - skip
    each = max(1.0, min(pages_each, left / (count + 1)))
    found: list[str] = []
    for number in range(1, count + 1):
        value = scale.last + int((skip + number * each) * scale.page)
        if value >= scale.end:
            break
        cut = scale.text(value)
        if cut is not None and _is_within(cut, span) and (not found or found[-1] < cut):
            found.append(cut)
    return found


class _Scale:
    """Keys of a span as numbers, from the first place in which they differ."""

    def __init__(self, span: Span, alphabets: Alphabets) -> None:
        until = span.until
        self._text = span.last
        self._from = alphabets.first if until is None else _common(span.first, until)
        self._digits: list[str] = []
        precise = 1
        while precise < _PRECISE and len(self._digits) < DEPTH:
            digits = alphabets.at(self._from + len(self._digits))
            if not digits:
                break
            self._digits.append(digits)
            if len(self._digits) > 1:
                precise *= len(digits)
        self.last = self.value(span.last)
        if until is None:
            self.end = precise * (len(self._digits[0]) if self._digits else 1)
        else:
            self.end = self.value(until)
        self.end = max(self.end, self.last)
        self.page = max(1, (self.last - self.value(span.first)) // max(1, span.pages))

    def value(self, key: str) -> int:
        value, is_between = 0, False
        for number, digits in enumerate(self._digits):
            place = self._from + number
            digit = 0
            if not is_between and place < len(key):
                digit = bisect_left(digits, key[place])
                # Before or between those that are known: what follows says nothing.
                is_between = digits[digit : digit + 1] != key[place]
            value = value * len(digits) + digit
        return value

    def text(self, value: int) -> str | None:
        """The shortest text that says so much and comes after the last key; None for none."""
        characters: list[str] = []
        for digits in reversed(self._digits[1:]):
            value, digit = divmod(value, len(digits))
            characters.append(digits[digit])
        if not self._digits or value >= len(self._digits[0]):
            return None
        characters.append(self._digits[0][value])
        text = self._text[: self._from] + "".join(reversed(characters))
        for length in range(self._from + 1, len(text) + 1):
            if text[:length] > self._text:
                return text[:length]
        return None


def _kin(seen: set[str]) -> set[str]:
    if len(seen) < 2:
        return seen
    found = set(seen)
    if seen & set(string.digits):
        found.update(string.digits)
    for letters in _LETTERS:
        of_these = seen & set(letters)
        if of_these:
            is_hex = of_these <= set(letters[:_HEX_LETTERS])
            found.update(letters[:_HEX_LETTERS] if is_hex else letters)
    return found


def _common(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    number = 0
    for mine, other in zip(first, second, strict=False):
        if mine != other:
            break
        number += 1
    return number


def _behind(start: str) -> str | None:
    """The first text after all that begin with `start`."""
    code = ord(start[-1]) + 1
    if 0xD800 <= code <= 0xDFFF:
        code = 0xE000
    return start[:-1] + chr(code) if code <= 0x10FFFF else None


def _is_within(cut: str, span: Span) -> bool:
    return cut > span.last and (span.until is None or cut < span.until)
