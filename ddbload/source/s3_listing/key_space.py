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
_DIGITS = frozenset(string.digits)
_LETTERS = (string.ascii_lowercase, string.ascii_uppercase)
_HEX_LETTERS = frozenset("abcdef")
_HEX = _DIGITS | _HEX_LETTERS


class Alphabets:
    """Which characters stand where in the keys of one listing."""

    def __init__(self, prefix: str) -> None:
        self.first = len(prefix)
        """The first place that is not the prefix's."""
        self._seen: list[set[str]] = []
        self._denied: set[tuple[int, str]] = set()
        self._known: dict[tuple[int, bool], str] = {}

    def see(self, key: str) -> None:
        """Take note of a key."""
        rest = key[self.first : self.first + DEPTH]
        while len(self._seen) < len(rest):
            self._seen.append(set())
        for number, character in enumerate(rest):
            if character not in self._seen[number]:
                self._seen[number].add(character)
                for beyond in (False, True):
                    self._known.pop((self.first + number, beyond), None)

    def deny(self, cut: str) -> None:
        """Take note that nothing begins like a cut: what it ends with may stand there nowhere."""
        self._denied.add((len(cut) - 1, cut[-1]))
        self._known.pop((len(cut) - 1, True), None)

    def at(self, place: int, *, beyond: bool) -> str:
        """What may stand at this place, in order; empty where nothing was seen.

        One character alone is taken for a constant. Of several, their kin are thought to come too;
        `beyond`: also those before the first and after the last that were seen.
        """
        known = self._known.get((place, beyond))
        if known is None:
            number = place - self.first
            seen = self._seen[number] if number < len(self._seen) else set()
            found = _kin(seen, is_hex=beyond and self._is_hex())
            if seen and not beyond:
                found = {each for each in found if min(seen) <= each <= max(seen)}
            found = {each for each in found if each in seen or (place, each) not in self._denied}
            known = self._known[place, beyond] = "".join(sorted(found))
        return known

    def _is_hex(self) -> bool:
        """Whether there are places where hexadecimal digits stand, and nothing else."""
        return any(
            seen <= _HEX and len(seen & _HEX_LETTERS) > 1 and seen & _DIGITS for seen in self._seen
        )


class KeySpan(NamedTuple):
    """Keys of which some have been listed."""

    first: str
    """The first key listed."""
    last: str
    """The last key listed."""
    pages: int
    """How many pages that was."""
    until: str | None
    """The last key that there may be; None for whatever comes."""


def next_larger_keys(span: KeySpan, alphabets: Alphabets, count: int) -> list[str]:
    """Up to `count` cuts, each behind all keys that begin as the last one does, for less and less
    of it. What lies behind them tells how much of the key counts up, and how far.
    """
    top, last = alphabets.first, span.last
    lowest = min(_common(span.first, last), len(last) - 1, top + DEPTH)
    # It is digits that count up; names do so rarely, and are part of what the first place tells.
    places = [
        place
        for place in range(top, lowest + 1)
        if place in (top, lowest) or last[place] in string.digits
    ]
    if len(places) > count:
        step = len(places) / count
        places = [places[int(number * step)] for number in range(count)]
    found = (_behind(last[: place + 1]) for place in reversed(places))
    return [cut for cut in found if cut is not None and _is_within(cut, span)]


def pages_left(span: KeySpan, alphabets: Alphabets) -> float:
    """About how many pages are still to be listed."""
    scale = _Scale(span, alphabets)
    return (scale.end - scale.last) / scale.page


def cuts(
    span: KeySpan, alphabets: Alphabets, count: int, pages_each: float, skip: int
) -> list[str]:
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

    def __init__(self, span: KeySpan, alphabets: Alphabets) -> None:
        until = span.until
        self._text = span.last
        self._from = alphabets.first if until is None else _common(span.first, until)
        self._digits: list[str] = []
        precise, is_fixed = 1, True
        while precise < _PRECISE and len(self._digits) < DEPTH:
            # What counts up slowest goes on to wherever; what is behind it has been all round.
            digits = alphabets.at(self._from + len(self._digits), beyond=is_fixed)
            if not digits:
                break
            if not self._digits and until is not None:
                now, end = span.last[self._from : self._from + 1], until[self._from]
                is_fixed = sum(now <= each < end for each in digits) < 2
            else:
                is_fixed = is_fixed and len(digits) == 1
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


def _kin(seen: set[str], *, is_hex: bool) -> set[str]:
    if len(seen) < 2:
        return seen
    found = set(seen)
    if seen & _DIGITS:
        found |= _DIGITS
    if seen <= _HEX and (is_hex or seen & _HEX_LETTERS):
        return found | _HEX_LETTERS
    for letters in _LETTERS:
        if seen & set(letters):
            found.update(letters)
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


def _is_within(cut: str, span: KeySpan) -> bool:
    return cut > span.last and (span.until is None or cut < span.until)
