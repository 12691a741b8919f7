"""Numbers, sizes and keys by the rules of DynamoDB's documentation, computed the slow way."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

NUMERALS = frozenset("0123456789+-.eE")
BAD = {
    **{
        ("B", text): "not_base64"
        for text in ("a", "QQ=", "Q Q=", "QQ==\n", "QQ==QQ==", "Q_==", "é")
    },
    ("SS", "[]"): "empty_set",
    ("SS", '["a", "a"]'): "duplicate_in_set",
    ("SS", '["\\u0061", "a"]'): "duplicate_in_set",
    ("SS", "[1]"): "not_a_set",
    ("SS", "a,b"): "bad_json",
    ("SS", '"a"'): "not_a_set",
    ("NS", "[]"): "empty_set",
    ("NS", "[1, 1.0]"): "duplicate_in_set",
    ("NS", '[1, "10e-1"]'): "duplicate_in_set",
    ("NS", "[true]"): "not_a_set",
    ("NS", "[1,]"): "bad_json",
    ("NS", '["x"]'): "not_a_number",
    ("NS", "[1e126]"): "number_out_of_range",
    ("BS", "[]"): "empty_set",
    ("BS", '["QQ==", "QQ=="]'): "duplicate_in_set",
    ("BS", '["QQ==", "QR=="]'): "duplicate_in_set",
    ("BS", '["a"]'): "not_base64",
    ("M", "[]"): "not_a_map",
    ("M", "null"): "not_a_map",
    ("M", "{"): "bad_json",
    ("M", '{"a": NaN}'): "bad_json",
    ("M", '{"a": 1, "a": 2}'): "duplicate_name",
    ("M", '{"": 1}'): "bad_name",
    ("M", '{"a": "\\ud800"}'): "lone_surrogate",
    ("M", '{"a": ' + "1" * 39 + "}"): "number_too_long",
    ("L", "{}"): "not_a_list",
    ("L", "[1] 2"): "bad_json",
    ("L", "[" * 40 + "]" * 40): "nested_too_deep",
    ("NULL", "nil"): "not_null",
    **{
        ("epoch", text): "not_a_time"
        for text in (
            *("2024", "20240131", "20240131235959", "1e9", "31.01.2024", "2024-02-30", "tomorrow"),
            *("2024-01-01T24:00", "2024-01-01T00:60Z", "1" + "0" * 20, "2024-1-1", "٣"),
        )
    },
}
"""Types with cells that are not of this type."""
BOOLEANS = {
    **dict.fromkeys(["true", "t", "yes", "y", "on", "1"], True),
    **dict.fromkeys(["false", "f", "no", "n", "off", "0"], False),
}


def decimal_of(text: str) -> Decimal | None:
    """Return the number that a text spells, if any, without DynamoDB's limits."""
    if not NUMERALS.issuperset(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def significant_digits(value: Decimal) -> str:
    """Return a number's digits without the zeros before and after them."""
    return "".join(map(str, value.as_tuple().digits)).strip("0")


def fits(value: Decimal) -> bool:
    """Return whether a number has up to 38 digits, and is within 1E-130 and 9.9...E+125."""
    return not value or (
        len(significant_digits(value)) <= 38
        and Decimal("1E-130") <= value.copy_abs() < Decimal("1E+126")
    )


def number_bytes(value: Decimal) -> int:
    """Return a number's size: a byte for two digits, one for the exponent, one for a minus sign."""
    if not value:
        return 1
    integer, _, fraction = f"{value.copy_abs():f}".partition(".")
    integer = integer.zfill(len(integer) + len(integer) % 2)
    fraction = fraction.ljust(len(fraction) + len(fraction) % 2, "0")
    digits = integer + fraction
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    while pairs[0] == "00":
        pairs.pop(0)
    while pairs[-1] == "00":
        pairs.pop()
    return len(pairs) + 1 + (value < 0)


def value_of(kind: str, text: str) -> tuple[str, Any]:
    """Return a good cell's type and value: numbers as `Decimal`, binary as bytes."""
    match kind:
        case "S":
            return "S", text
        case "N":
            return "N", Decimal(text)
        case "BOOL":
            return "BOOL", BOOLEANS[text.lower()]
        case "B":
            return "B", base64.b64decode(text)
        case "NULL":
            return "NULL", True
        case "epoch":
            return "N", Decimal(seconds_of(text))
        case "SS":
            return "SS", frozenset(json.loads(text))
        case "NS":
            return "NS", frozenset(map(Decimal, json.loads(text, parse_int=str, parse_float=str)))
        case "BS":
            return "BS", frozenset(map(base64.b64decode, json.loads(text)))
        case _:
            return _document(json.loads(text, parse_int=Decimal, parse_float=Decimal))


def _document(said: Any) -> tuple[str, Any]:
    match said:
        case None:
            return "NULL", True
        case bool():
            return "BOOL", said
        case Decimal():
            return "N", said
        case str():
            return "S", said
        case list():
            return "L", [_document(each) for each in said]
        case _:
            return "M", {name: _document(each) for name, each in said.items()}


def seconds_of(text: str) -> int:
    """Return the seconds since 1970 of a time as `epoch` reads it."""
    if text.lstrip("-").replace(".", "").isdecimal():
        value = Decimal(text)
        for power in (0, 3, 6, 9):
            if abs(value) < 10 ** (11 + power):
                return math.floor(value.scaleb(-power))
    time = datetime.fromisoformat(text.replace(",", "."))
    return math.floor((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def read_back(attribute: Mapping[str, Any]) -> tuple[str, Any]:
    """Return what DynamoDB understands of an attribute value, in the form of `value_of`."""
    ((kind, content),) = attribute.items()
    match kind:
        case "N":
            assert isinstance(content, str)
            return kind, Decimal(content)
        case "B":
            return kind, base64.b64decode(content, validate=True)
        case "SS":
            assert len(content) == len(set(content))
            return kind, frozenset(content)
        case "NS":
            assert len(content) == len(set(map(Decimal, content)))
            return kind, frozenset(map(Decimal, content))
        case "BS":
            return kind, frozenset(base64.b64decode(each, validate=True) for each in content)
        case "L":
            return kind, [read_back(each) for each in content]
        case "M":
            return kind, {name: read_back(each) for name, each in content.items()}
        case _:
            return kind, content


def value_bytes(value: tuple[str, Any]) -> int:
    """Return the bytes that DynamoDB counts for a value."""
    kind, content = value
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return number_bytes(content)
        case "B":
            return len(content)
        case "SS" | "NS" | "BS":
            return sum(value_bytes((kind[0], each)) for each in content)
        case "L":
            return 3 + sum(1 + value_bytes(each) for each in content)
        case "M":
            return 3 + sum(
                1 + len(name.encode()) + value_bytes(each) for name, each in content.items()
            )
        case _:
            return 1


EMPTY = {"S": ("S", ""), "B": ("B", b""), "L": ("L", []), "M": ("M", {})}


def absent(kind: str, policy: str, *, indexed: bool) -> tuple[str, Any] | None:
    """Return the value of a missing cell under a policy other than reject."""
    if policy == "omit" or indexed:
        return None
    return ("NULL", True) if policy == "null" else EMPTY.get(kind)


def causes(
    fields: Sequence[str],
    columns: Mapping[str, str],
    keys: Sequence[str],
    limits: Mapping[str, int],
    policy: str = "omit",
) -> Iterator[tuple[str, int | None]]:
    """Return every reason to reject a row, with its column. `limits`: bytes of key attributes."""
    if len(fields) != len(columns):
        yield "field_count", None
        return
    for column, ((name, kind), text) in enumerate(zip(columns.items(), fields, strict=True)):
        if not text:
            if name in keys:
                yield "empty_key", column
            if policy == "reject":
                yield "null_value", column
            continue
        if (kind, text) in BAD:
            yield BAD[kind, text], column
            continue
        if kind in "SB" and value_bytes(value_of(kind, text)) > limits.get(name, 2**40):
            yield "key_too_long", column
        if kind == "BOOL" and text.lower() not in BOOLEANS:
            yield "not_a_boolean", column
        if kind == "N":
            value = decimal_of(text)
            if value is None:
                yield "not_a_number", column
            elif value and len(significant_digits(value)) > 38:
                yield "number_too_long", column
            elif not fits(value):
                yield "number_out_of_range", column
