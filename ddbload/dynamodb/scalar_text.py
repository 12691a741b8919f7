"""Numbers and booleans read from text. Numbers stay text and never become floats.

The limits are from "Supported data types and naming rules in Amazon DynamoDB" and
"Service, account, and table quotas".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ddbload.dynamodb.limits import MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT

LONGEST_TEXT, LONGEST_EXPONENT = 200, 6
"""Characters of a number, and of its exponent. Longer numbers are sent in scientific notation."""
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_SEPARATED = re.compile(r"[+-]?[0-9.,'\u00a0\u202f ]*[0-9]")
"""Digits with separators of thousands, or with a decimal comma."""
_WITH_UNIT = re.compile(r"\D{0,4}[0-9][0-9.,' ]*\D{0,4}")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


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
        return f"{told}: this has separators, as of thousands, or a decimal comma"
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
    """Read true, false, 1, 0, yes or no, in any case. Raises `BadValue`."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        defect = "not a boolean; write true, false, 1, 0, yes or no"
        if len(text) == 1:
            defect += ", and not a single letter; or leave the column a string"
        raise BadValue("not_a_boolean", defect)
    return value
