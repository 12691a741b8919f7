"""Values of DynamoDB JSON as plain JSON, and checks of the spelling that they have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from json.encoder import encode_basestring as quoted
from typing import Any

from ddbload.dynamodb.attribute_values import BAD_ATTRIBUTE, check_value, nesting_error
from ddbload.dynamodb.limits import MAX_DEPTH
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.document_builder import Composed
from ddbload.items.item_requests import compact_json
from ddbload.items.json_values import Json, name_json, plain

is_plain_number = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,19})?").fullmatch
"""Matches numbers of 38 digits at most, without an exponent: DynamoDB takes them as they are."""


class TypedValue(tuple[Any, ...]):
    """Value of DynamoDB JSON that plain JSON has no form for."""

    __slots__ = ()


def left_to_builder() -> BadValue:
    """Return the error for a value or row that `DocumentBuilder` is to judge."""
    return BadValue(BAD_ATTRIBUTE, "left to the builder")


def untyped(value: Json, *, keeps_nulls: bool) -> Any:
    """Return a value of DynamoDB JSON as plain JSON, a `TypedValue` if that has no form for it."""
    if isinstance(value, Composed):
        return value
    kind, content = content_of(value, 0)
    if isinstance(content, str):
        if kind == "S":
            return content
        if kind == "N":
            return (content if is_plain_number(content) else parse_number(content).text).encode()
    elif kind == "BOOL" and isinstance(content, bool):
        return content
    if kind == "NULL" and content is True and not keeps_nulls:
        return None
    return TypedValue(((kind, content),))


def typed(value: Any) -> Json:
    """Return a value other than null that `untyped` returned as DynamoDB JSON again."""
    if isinstance(value, TypedValue | Composed):
        return value if isinstance(value, str) else tuple(value)
    if isinstance(value, bool):
        return (("BOOL", value),)
    return (("S", value) if isinstance(value, str) else ("N", value.decode()),)


def typed_json(value: TypedValue) -> str:
    """Return the checked JSON of a value. Raises `BadValue`."""
    ((kind, content),) = value
    if is_spelled_well(kind, content, 0):
        return _json(tuple(value))
    return compact_json(check_value(plain(tuple(value))))


def _json(value: Json) -> str:
    """Return a well spelled value as JSON without blanks."""
    if isinstance(value, tuple):
        return f"{{{','.join([f'{quoted(name)}:{_json(member)}' for name, member in value])}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    return compact_json(value)


def content_of(value: Json, depth: int) -> tuple[str, Json]:
    """Return the type and the content of an attribute value. Raises `BadValue`."""
    if depth >= MAX_DEPTH or not isinstance(value, tuple) or len(value) != 1:
        raise left_to_builder()
    return value[0]


def is_spelled_well(kind: str, content: Json, depth: int) -> bool:
    """Return whether DynamoDB takes a value in the spelling that it has.

    `depth` counts the lists and maps around it. Raises `BadValue`, and `ValueError` for other JSON.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if kind == "S":
        return isinstance(content, str)
    if kind == "N":
        return isinstance(content, str) and is_plain_number(content) is not None
    if kind == "BOOL":
        return isinstance(content, bool)
    if kind == "L" and isinstance(content, list):
        members: Iterable[Json] = content
    elif kind == "M" and isinstance(content, tuple) and len(dict(content)) == len(content):
        for name, _ in content:
            name_json(name)
        members = [member for _, member in content]
    else:
        value = {kind: plain(content)}
        return check_value(value, depth) == value
    return all(is_spelled_well(*content_of(member, 0), depth + 1) for member in members)
