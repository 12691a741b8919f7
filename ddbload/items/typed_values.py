"""Attribute values, read from a cell's text by its column's type."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from ddbload.dynamodb.attribute_values import AttributeValue, check_value, decode_base64, value_size
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.items.json_values import attribute_of_json, parse
from ddbload.items.timestamps import epoch_seconds
from ddbload.rows.columns import to_octets

OMIT, NULL, EMPTY, REJECT = POLICIES = ("omit", "null", "empty", "reject")
"""What becomes of an attribute without a value."""


class Value(NamedTuple):
    """What a cell is."""

    attribute: AttributeValue
    identity: Hashable
    """The same for values that are one key to DynamoDB, within their type."""
    size: int
    """Bytes that DynamoDB counts for it."""


def _string(text: str) -> Value:
    if text.isascii():
        return Value({"S": text}, text, len(text))
    utf8 = to_octets(text)
    return Value({"S": text}, utf8, len(utf8))


def _number(text: str) -> Value:
    read = parse_number(text)
    return Value({"N": read.text}, read.value, read.size)


def _boolean(text: str) -> Value:
    return Value({"BOOL": parse_boolean(text)}, "", 1)


def _binary(text: str) -> Value:
    plain = decode_base64(text)
    attribute = {"B": plain}
    return Value(attribute, plain, value_size(attribute))


def _epoch(text: str) -> Value:
    return _number(str(epoch_seconds(text)))


def _null(text: str) -> Value:
    if text.lower() not in ("null", "true"):
        raise BadValue("not_null", "not a null; write null, or leave it empty")
    return NULL_VALUE


def _map(text: str) -> Value:
    return _document(text, "M", "not_a_map", "a JSON object, such as {}")


def _list(text: str) -> Value:
    return _document(text, "L", "not_a_list", "a JSON list, such as []")


def _document(text: str, kind: str, cause: str, wanted: str) -> Value:
    attribute = attribute_of_json(text)
    if kind not in attribute:
        raise BadValue(cause, f"JSON, and not {wanted}")
    return Value(attribute, "", value_size(attribute))


def _strings(text: str) -> Value:
    return _set("SS", _members(text, str), "strings")


def _numbers(text: str) -> Value:
    # DynamoDB's own JSON writes numbers as strings; so may a file.
    members = _members(text, str, bytes)
    if members is not None:
        members = [each.decode() if isinstance(each, bytes) else each for each in members]
    return _set("NS", members, "numbers")


def _binaries(text: str) -> Value:
    return _set("BS", _members(text, str), "strings of base64")


def _members(text: str, *kinds: type) -> list[Any] | None:
    found = parse(text)
    if not isinstance(found, list) or not all(isinstance(each, kinds) for each in found):
        return None
    return found


def _set(kind: str, members: list[Any] | None, wanted: str) -> Value:
    if members is None:
        raise BadValue("not_a_set", f"JSON, and not a list of {wanted}")
    attribute = check_value({kind: members})
    return Value(attribute, "", value_size(attribute))


NULL_VALUE = Value({"NULL": True}, "", 1)
REFUSED = Value({}, None, 0)
"""Stands for what has no value, and ought to."""
EMPTY_VALUES = {
    "S": Value({"S": ""}, "", 0),
    "B": Value({"B": ""}, "", 0),
    "M": Value({"M": {}}, "", 3),
    "L": Value({"L": []}, "", 3),
}
"""By a column's type, where there is such a thing: neither numbers nor sets can be empty."""

TEXT_READERS: Mapping[str, Callable[[str], Value]] = {
    "S": _string,
    "N": _number,
    "BOOL": _boolean,
    "B": _binary,
    "SS": _strings,
    "NS": _numbers,
    "BS": _binaries,
    "M": _map,
    "L": _list,
    "NULL": _null,
    "epoch": _epoch,
}
"""By a column's type. They take any text that is not empty, and raise `BadValue`."""

TYPES = tuple(TEXT_READERS)
"""What a column may be declared as."""


def attribute_type(declared: str) -> str:
    """DynamoDB's type of what a column of a declared type holds."""
    return "N" if declared == "epoch" else declared


def null_of(kind: str, policy: str, is_indexed: bool) -> Value | None:
    """What stands for an attribute without a value: None for nothing, or `REFUSED`.

    `is_indexed`: it is a key of an index, where DynamoDB takes no null and nothing empty.
    """
    if policy == REJECT:
        return REFUSED
    if policy == OMIT or is_indexed:
        return None
    return NULL_VALUE if policy == NULL else EMPTY_VALUES.get(kind)
