"""Numbers, booleans and times read from text. Numbers stay text and never become floats.

The limits are from "Supported data types and naming rules in Amazon DynamoDB" and
"Service, account, and table quotas".

Times have no locale. Type `epoch` reads them as whole seconds since 1970, which DynamoDB's TTL goes
by: dates and times of ISO 8601 in the extended form, or a count of seconds, milliseconds,
microseconds or nanoseconds, which the size of the number distinguishes. `TimeFormat` reads times
that are written otherwise, by the directives of strptime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple, Self

from ddbload.dynamodb.limits import MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT
from ddbload.records import Record

LONGEST_TEXT, LONGEST_EXPONENT = 200, 6
"""Characters of a number, and of its exponent. Longer numbers are sent in scientific notation."""
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_SEPARATED = re.compile(r"[+-]?[0-9.,'\u00a0\u202f ]*[0-9]")
"""Digits with separators of thousands, or with a decimal comma."""
_WITH_UNIT = re.compile(r"\D{0,4}[0-9][0-9.,' ]*\D{0,4}")
_TRUE = ("true", "t", "yes", "y", "on", "1")
_FALSE = ("false", "f", "no", "n", "off", "0")


class BadValue(Exception):
    """A text that is not valid for its type.

    `cause` is the cause of the reject, `column` the attribute if it is known.
    """

    def __init__(self, cause: str, detail: str, column: str | None = None) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail
        self.column = column


class Number(NamedTuple):
    """A number that DynamoDB accepts."""

    text: str
    """The number as in the file, without a plus sign; in scientific notation if very long."""
    value: str
    """Canonical text, the same for equal numbers: the digits of a whole number, otherwise sign,
    digits without outer zeros, `E` and exponent."""
    size: int
    """Size as DynamoDB counts it."""


def parse_number(text: str) -> Number:
    """Read a number by DynamoDB's rules. Raises `BadValue`."""
    if text.isdigit() and text.isascii() and text[0] != "0" and len(text) <= MAX_DIGITS:
        # Fast path for plain whole numbers, with the result of the general path below.
        return Number(text, text, _number_size(text.rstrip("0"), len(text) - 1, ""))
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise BadValue("not_a_number", _number_defect(text))
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", found[4] or "0"
    sent = text[1:] if sign == "+" else text
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return Number(sent if _is_plain(sent, exponent) else "0", "0", 1)
    leading = len(whole) + len(fraction) - len(digits)
    magnitude = len(whole) - leading - 1 + _power(exponent)
    digits = digits.rstrip("0")
    if len(digits) > MAX_DIGITS:
        raise BadValue("number_too_long", f"{len(digits)} digits; DynamoDB allows {MAX_DIGITS}")
    if not MIN_EXPONENT <= magnitude <= MAX_EXPONENT:
        raise BadValue(
            "number_out_of_range", f"DynamoDB's numbers go from 1E{MIN_EXPONENT} to 9.9E+125"
        )
    minus = "-" if sign == "-" else ""
    if not _is_plain(sent, exponent):
        sent = f"{minus}{digits[0]}.{digits[1:] or '0'}E{magnitude}"
    zeros = magnitude + 1 - len(digits)
    value = minus + digits + ("0" * zeros if zeros >= 0 else f"E{magnitude}")
    return Number(sent, value, _number_size(digits, magnitude, minus))


def _number_defect(text: str) -> str:
    """Describe a text that is not a number, and how to write it."""
    told = "not a number; write digits, with a point and no separators"
    if not any("0" <= character <= "9" for character in text):
        return told
    if _SEPARATED.fullmatch(text):
        return f"{told}; for separators and a decimal comma say --thousands and --decimal"
    if not any(character.isalpha() for character in text.strip()) or _WITH_UNIT.fullmatch(text):
        return f"{told}: this has a sign or unit beside the digits; or leave the column a string"
    return told


def _is_plain(text: str, exponent: str) -> bool:
    # DynamoDB returns numbers of up to 170 characters. Its treatment of longer ones, with many
    # zeros, is not documented.
    return len(text) <= LONGEST_TEXT and len(exponent) <= LONGEST_EXPONENT


def _power(exponent: str) -> int:
    digits = exponent.lstrip("+-0")
    # An exponent of 18 digits is out of range for any digits, and int() limits its input.
    power = int(digits[:18] or "0")
    return -power if exponent.startswith("-") else power


def _number_size(digits: str, magnitude: int, minus: str) -> int:
    # Two digits a byte, counted from the decimal point, one byte for the exponent, one for
    # a minus sign. A number whose first pair holds one digit needs a byte more when even.
    pairs = (len(digits) + 1) // 2
    if len(digits) % 2 == 0 and magnitude % 2 == 0:
        pairs += 1
    return 1 + pairs + len(minus)


def parse_boolean(text: str) -> bool:
    """Read true, false, t, f, yes, no, y, n, on, off, 1 or 0, in any case. Raises `BadValue`."""
    if text.lower() not in _TRUE + _FALSE:
        raise BadValue("not_a_boolean", "not a boolean; write true or false, or leave it a string")
    return text.lower() in _TRUE


@cache
def _form(signs: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern of numbers with a decimal sign and separators, and one of separators."""
    separator = "[ \u00a0\u202f]" if signs[1:] == " " else re.escape(signs[1:]) or "(?!)"
    whole = f"(?:[0-9]{{1,3}}(?:{separator}[0-9]{{3}})+|[0-9]*)"
    number = rf"[+-]?{whole}(?:{re.escape(signs[0])}[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    return re.compile(number), re.compile(separator)


def plain_number(text: str, signs: str) -> str:
    """Return a number with a point and without separators. Raises `BadValue`.

    `signs`: the decimal sign, and the separator of thousands if there is one.
    """
    number, separator = _form(signs)
    if number.fullmatch(text) is None:
        raise BadValue(
            "not_a_number",
            f"not a number whose decimal sign is {signs[0]!r}, and whose separators are between"
            " groups of three digits",
        )
    return separator.sub("", text).replace(signs[0], ".")


# Times.

_ISO = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r" ?(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_COUNT = re.compile(r"([+-]?)([0-9]{1,20})(\.[0-9]*)?")
_DATES = re.compile(
    r"(?:19|20|21)[0-9]{2}(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:(?:[01][0-9]|2[0-3])(?:[0-5][0-9]){2})?)?"
)
"""A year, a day, or a day with hours, minutes and seconds."""
_DAY_FIRST = re.compile(r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}")
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Upper limit of a count, and how many of its unit make a second.

10**11 seconds are the year 5138; 10**11 milliseconds are March 1973.
"""
_1970, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_FORMS = "write 2026-01-31, 2026-01-31T23:59:59Z, or seconds or milliseconds since 1970"


def epoch_seconds(text: str) -> int:
    """Return whole seconds since 1970-01-01T00:00:00Z. Raises `BadValue`.

    Times without a zone are UTC. Fractions are cut off towards the past.
    """
    count = _COUNT.fullmatch(text)
    if count is not None:
        return _seconds_of_count(count)
    found = _ISO.fullmatch(text)
    if found is None:
        order = ": the year comes first" if _DAY_FIRST.match(text) else ""
        raise BadValue("not_a_time", f"not a time; {_FORMS}{order}")
    at, offset = _second(found.groupdict(), f"; {_FORMS}")
    return (at - _1970) // _SECOND - offset


def _second(parts: Mapping[str, str | None], told: str) -> tuple[datetime, int]:
    """Return a second by its parts, and the seconds by which its zone is before UTC.

    Raises `BadValue`, with what is `told` of a time that there is not.
    """
    zone, of_day = parts.get("zone"), ("hour", "minute", "second")
    day = [int(parts[name] or 0) for name in ("year", "month", "day")]
    try:
        time = [int(parts.get(name) or 0) for name in of_day]
        at = datetime(day[0], day[1], day[2], time[0], time[1], time[2], tzinfo=UTC)
    except ValueError as error:
        # The message begins with the part.
        what = "time of day" if str(error).startswith(of_day) else "day"
        raise BadValue("not_a_time", f"there is no such {what}{told}") from None
    if zone is None or zone in "Zz":
        return at, 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise BadValue("not_a_time", f"there is no such time zone{told}")
    seconds = hours * 3600 + minutes * 60
    return at, -seconds if zone[0] == "-" else seconds


def _seconds_of_count(count: re.Match[str]) -> int:
    sign, whole, fraction = count.groups()
    if not sign and fraction is None and _DATES.fullmatch(whole):
        # Taken as seconds, 20260131 is a day in 1970: with TTL, the item would expire at once.
        raise BadValue("not_a_time", "digits that are a date without dashes; write 2026-01-31")
    number = int(whole)
    unit = next((unit for limit, unit in _UNITS if number < limit), None)
    if unit is None:
        raise BadValue("not_a_time", f"too large a number for a time; {_FORMS}")
    if sign != "-":
        return number // unit
    cut = number % unit or (fraction or "").strip(".0")
    return -(number // unit) - bool(cut)


_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_SIXTY, _MONTH = "[0-5]?[0-9]", "0?[1-9]|1[0-2]"
_DIRECTIVES = {
    "Y": ("year", "[0-9]{4}"), "y": ("year", "[0-9]{2}"), "m": ("month", _MONTH),
    "b": ("month", "|".join(name[:3] for name in _MONTHS)), "B": ("month", "|".join(_MONTHS)),
    "d": ("day", "0?[1-9]|[12][0-9]|3[01]"), "H": ("hour", "[01]?[0-9]|2[0-3]"),
    "I": ("hour", _MONTH), "p": ("half", "[ap]m"), "M": ("minute", _SIXTY),
    "S": ("second", _SIXTY), "f": ("fraction", "[0-9]{1,9}"),
    "z": ("zone", "Z|[+-][0-9]{2}(?::?[0-9]{2})?"),
}  # fmt: skip
"""Part of a time that each directive reads, and its pattern."""
_PIECE = re.compile(r"%(.?)|[^%]+", re.DOTALL)


class TimeFormat(Record):
    """Format of times, such as `%d/%m/%Y`. Times without a zone are UTC."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    @cache
    def of(cls, text: str) -> Self:
        """Read a format. Raises `ValueError`.

        A number has one or two digits, but two where another number touches it: `%d%m%Y`.
        """
        pieces, parts, pattern = list(_PIECE.finditer(text)), list[str](), ""
        letters = [piece[1] for piece in pieces]
        for place, letter in enumerate(letters):
            if letter is None or letter == "%":
                pattern += re.escape(letter or pieces[place][0])
                continue
            if letter not in _DIRECTIVES:
                known = " ".join(f"%{each}" for each in _DIRECTIVES)
                raise ValueError(f"%{letter} is none of the directives {known} and %%")
            part, digits = _DIRECTIVES[letter]
            beside = {*letters[place - 1 : place], *letters[place + 1 : place + 2]}
            if letter in "mdHIMS" and beside & set("YymdHIMSf"):
                digits = digits.replace("?", "")
            pattern += f"(?P<{part}>{digits})"
            parts.append(part)
        for part in ("year", "month", "day", *parts):
            if parts.count(part) != 1:
                many = "two directives give" if part in parts else "no directive gives"
                raise ValueError(f"{many} the {part}")
        if ("half" in parts) != ("I" in letters):
            raise ValueError("%I and %p are used together")
        return cls(text, re.compile(pattern, re.IGNORECASE | re.ASCII))

    def seconds(self, text: str) -> int:
        """Return whole seconds since 1970-01-01T00:00:00Z. Raises `BadValue`."""
        at, offset = _second(self._parts(text), "")
        return (at - _1970) // _SECOND - offset

    def iso_text(self, text: str) -> str:
        """Return the date as `2026-01-31`, or the time in UTC, `2026-01-31T23:59:59Z`.

        Raises `BadValue`.
        """
        parts = self._parts(text)
        at, offset = _second(parts, "")
        if parts.keys() <= {"year", "month", "day"}:
            return at.date().isoformat()
        try:
            at -= offset * _SECOND
        except OverflowError:
            raise BadValue("not_a_time", "in UTC not of the years 1 to 9999") from None
        point = f".{parts['fraction']}" if "fraction" in parts else ""
        return f"{at.isoformat()[:19]}{point}Z"

    def _parts(self, text: str) -> dict[str, str]:
        """Return the parts of a time as texts of digits. Raises `BadValue`."""
        found = self.pattern.fullmatch(text)
        if found is None:
            raise BadValue("not_a_time", f"not a time of the form {self.text}")
        parts = {name: each.lower() for name, each in found.groupdict().items()}
        if not parts["month"].isdigit():
            short = [name[:3] for name in _MONTHS]
            parts["month"] = str(short.index(parts["month"][:3]) + 1)
        if len(parts["year"]) == 2:
            # As POSIX has it.
            parts["year"] = ("19" if parts["year"] > "68" else "20") + parts["year"]
        if "half" in parts:
            parts["hour"] = str(int(parts["hour"]) % 12 + 12 * (parts["half"] == "pm"))
        return parts
