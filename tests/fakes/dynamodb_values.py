"""DynamoDB's rules for attribute values: numbers, sets, sizes.

The rules are those of the Developer Guide, "Supported data types and naming rules" and "DynamoDB
item sizes and formats". An attribute value is botocore's: ``{"N": "1"}``, with binary as bytes.
All functions raise Refused (ValidationException) for a value that the service refuses.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from tests.fakes.client import Refused, refused

MAX_DIGITS = 38
MAX_EXPONENT = 125
MIN_EXPONENT = -130
MAX_NAME_BYTES = 65535
MAX_DEPTH = 32

Value = dict[str, Any]
Item = dict[str, Value]

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
_WIDE = Context(prec=64)


def invalid(message: str) -> Refused:
    """Make a ValidationException."""
    return refused("ValidationException", 400, message)


def number(text: str) -> Decimal:
    """Parse a number into its normal form: no trailing zeros, no negative zero."""
    match = _NUMBER.fullmatch(text)
    if not match:
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    digits = match[2].replace(".", "").strip("0")
    if not digits:
        return Decimal(0)
    try:
        value = _WIDE.normalize(Decimal(text)) if len(digits) <= MAX_DIGITS else Decimal(text)
        exponent = value.adjusted()
    except InvalidOperation:  # an exponent of 19 digits or more
        exponent = -(10**18) if (match[3] or "").startswith("-") else 10**18
    if exponent > MAX_EXPONENT:
        raise invalid(
            "Number overflow. Attempting to store a number with magnitude larger than supported"
            " range"
        )
    if exponent < MIN_EXPONENT:
        raise invalid(
            "Number underflow. Attempting to store a number with magnitude smaller than supported"
            " range"
        )
    if len(digits) > MAX_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return value


def number_text(text: str) -> str:
    """Format a number as the service does: no exponent, no plus, no superfluous zeros."""
    return format(number(text), "f")


def stored(value: Value, depth: int = 0) -> Value:
    """Normalise a value as the service stores it."""
    if len(value) != 1:
        raise invalid(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
            if not value
            else "Supplied AttributeValue has more than one datatypes set, must contain exactly one"
            " of the supported datatypes"
        )
    if depth >= MAX_DEPTH:
        raise invalid("Nesting Levels have exceeded supported limits")
    ((kind, content),) = value.items()
    match kind:
        case "N":
            content = number_text(content)
        case "B":
            content = _bytes(content)
        case "NULL" if content is not True:
            raise invalid(
                "One or more parameter values were invalid: Null attribute value types must have"
                " the value of true"
            )
        case "SS" | "NS" | "BS":
            one = kind[0]
            content = [stored({one: member})[one] for member in content]
            if not content:
                raise invalid("One or more parameter values were invalid: A set may not be empty")
            if len(set(content)) < len(content):
                raise invalid(
                    "One or more parameter values were invalid: Input collection contains"
                    " duplicates."
                )
        case "L":
            content = [stored(member, depth + 1) for member in content]
        case "M":
            content = stored_item(content, depth + 1)
    return {kind: content}


def stored_item(item: Item, depth: int = 0) -> Item:
    """Normalise an item or a map as the service stores it."""
    for name in item:
        if not 0 < _text_size(name) <= MAX_NAME_BYTES:
            raise invalid(
                "One or more parameter values were invalid: Attribute name of a wrong length"
            )
    return {name: stored(value, depth) for name, value in item.items()}


def size(value: Value) -> int:
    """Measure a stored value in bytes, without its name."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return _text_size(content)
        case "B":
            return len(content)
        case "N":
            return _number_size(content)
        case "BOOL" | "NULL":
            return 1
        case "SS" | "NS" | "BS":
            return sum(size({kind[0]: member}) for member in content)
        case "L":
            return 3 + sum(1 + size(member) for member in content)
        case _:
            return 3 + sum(1 + _text_size(name) + size(member) for name, member in content.items())


def item_size(item: Item) -> int:
    """Measure a stored item in bytes: names and values."""
    return sum(_text_size(name) + size(value) for name, value in item.items())


def _number_size(text: str) -> int:
    # "Approximately": a byte for two digits, one more, and one for the sign.
    digits = text.lstrip("-").replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + text.startswith("-")


def _text_size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise refused("SerializationException", 400, "Invalid Unicode in a string") from error


def _bytes(content: Any) -> bytes:
    # botocore sends text given for binary as its UTF-8.
    return content.encode() if isinstance(content, str) else bytes(content)
