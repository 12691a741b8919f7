"""Attribute values: validation by DynamoDB's rules, and item sizes.

Values are DynamoDB JSON, such as `{"N": "1"}`, with binary as base64. The rules are those of
"Supported data types and naming rules in Amazon DynamoDB" and "DynamoDB item sizes and formats".
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

from ddbload.dynamodb.limits import MAX_DEPTH, MAX_NAME_BYTES
from ddbload.dynamodb.scalar_text import BadValue, parse_number

AttributeValue = dict[str, Any]
Attributes = dict[str, AttributeValue]
BAD_ATTRIBUTE = "bad_attribute"
NOT_A_TIME = "not a time of day"
"""Type of a placeholder for a time of day that no clock shows. Its row is rejected."""
NOT_A_DATE = "not a date of the years 1 to 9999"
"""Type of a placeholder for a date or timestamp that ISO 8601 cannot write in four digits of a
year. Its row is rejected."""
_PLACEHOLDERS = {
    NOT_A_TIME: "a time of day before 00:00:00, or 24:00:00 and later",
    NOT_A_DATE: "a date or timestamp before the year 1 or after the year 9999",
}
_CONTAINER_BYTES, _ELEMENT_BYTES = 3, 1


def check_value(value: object, depth: int = 0) -> AttributeValue:
    """Check a value; return it with numbers and base64 normalized.

    `depth`: number of lists and maps around the value. Raises `BadValue`.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if not isinstance(value, dict) or len(value) != 1:
        raise BadValue(
            BAD_ATTRIBUTE, 'not an attribute value: an object with one type, like {"S": "text"}'
        )
    ((kind, content),) = value.items()
    check = _CHECKS.get(kind)
    if kind in _PLACEHOLDERS:
        raise BadValue("not_a_time", f"{_PLACEHOLDERS[kind]}: correct it, or write it as a number")
    if check is None:
        raise BadValue(BAD_ATTRIBUTE, f"not a type of DynamoDB; types are {', '.join(_CHECKS)}")
    return {kind: check(content, depth)}


def value_size(value: Mapping[str, Any]) -> int:
    """Return the size of a valid value as DynamoDB counts it, without the attribute name."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return utf8_size(content)
        case "N":
            return parse_number(content).size
        case "B":
            return _binary_size(content)
        case "SS":
            return sum(map(utf8_size, content))
        case "NS":
            return sum(parse_number(member).size for member in content)
        case "BS":
            return sum(map(_binary_size, content))
        case "L":
            return _CONTAINER_BYTES + sum(_ELEMENT_BYTES + value_size(each) for each in content)
        case "M":
            return _CONTAINER_BYTES + _ELEMENT_BYTES * len(content) + item_size(content)
        case _:
            return 1


def item_size(attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the size of an item as DynamoDB counts it: attribute names and values."""
    return sum(utf8_size(name) + value_size(value) for name, value in attributes.items())


def utf8_size(text: str) -> int:
    """Return the UTF-8 size of a text. Raises `BadValue` for a lone surrogate."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadValue(
            "lone_surrogate",
            "a lone surrogate (\\ud800 to \\udfff), which UTF-8 cannot encode",
        ) from None


def check_name(name: str) -> None:
    """Raise `BadValue` if the text cannot name an attribute or a member of a map."""
    if not name:
        raise BadValue("bad_name", "a name is empty; DynamoDB needs at least one character")
    size = utf8_size(name)
    if size > MAX_NAME_BYTES:
        raise BadValue("bad_name", f"a name has {size} bytes; DynamoDB's limit is {MAX_NAME_BYTES}")


def decode_base64(text: str) -> str:
    """Normalize standard base64, so that equal bytes are equal text. Raises `BadValue`."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise BadValue(
            "not_base64", "not base64; write it with + and /, padded, without line ends"
        ) from None
    return binascii.b2a_base64(data, newline=False).decode()


def nesting_error() -> BadValue:
    """Make the error of a value that is nested too deep."""
    return BadValue(
        "nested_too_deep",
        f"nested too deep; DynamoDB allows {MAX_DEPTH} levels, including the innermost value",
    )


def _binary_size(text: str) -> int:
    return len(text) // 4 * 3 - text.count("=", -2)


def _text(kind: str, wanted: str, read: Callable[[str], str]) -> Callable[[object, int], str]:
    def check(content: object, depth: int) -> str:  # noqa: ARG001 - as the others
        if not isinstance(content, str):
            raise _wrong(kind, wanted)
        return read(content)

    return check


def _valid_text(text: str) -> str:
    utf8_size(text)
    return text


def _boolean(content: object, depth: int) -> bool:  # noqa: ARG001
    if not isinstance(content, bool):
        raise _wrong("BOOL", "true or false, without quotes")
    return content


def _null(content: object, depth: int) -> bool:  # noqa: ARG001
    if content is not True:
        raise _wrong("NULL", "true")
    return True


def _list(content: object, depth: int) -> list[AttributeValue]:
    if not isinstance(content, list):
        raise _wrong("L", "a list")
    return [check_value(member, depth + 1) for member in content]


def _map(content: object, depth: int) -> Attributes:
    if not isinstance(content, dict):
        raise _wrong("M", "an object")
    for name in content:
        check_name(name)
    return {name: check_value(member, depth + 1) for name, member in content.items()}


def _set_of(
    kind: str, read: Callable[[object, int], str], identity: Callable[[str], str]
) -> Callable[[object, int], list[str]]:
    def check(content: object, depth: int) -> list[str]:
        if not isinstance(content, list):
            raise _wrong(kind, "a list")
        if not content:
            raise BadValue("empty_set", "an empty set; DynamoDB does not allow one")
        members = [read(member, depth) for member in content]
        if len(set(map(identity, members))) < len(members):
            raise BadValue("duplicate_in_set", "a set with two equal members")
        return members

    return check


def _wrong(kind: str, wanted: str) -> BadValue:
    return BadValue(BAD_ATTRIBUTE, f"the content of {kind} must be {wanted}")


_string = _text("S", "a string", _valid_text)
_number = _text("N", 'a string: {"N": "1"}', lambda text: parse_number(text).text)
_binary = _text("B", "a string of base64", decode_base64)
_CHECKS: dict[str, Callable[[object, int], object]] = {
    "S": _string,
    "N": _number,
    "B": _binary,
    "BOOL": _boolean,
    "NULL": _null,
    "SS": _set_of("SS", _string, str),
    "NS": _set_of("NS", _number, lambda text: parse_number(text).value),
    "BS": _set_of("BS", _binary, str),
    "L": _list,
    "M": _map,
}
VALUE_TYPES = frozenset(_CHECKS)
"""Type names of DynamoDB JSON."""
