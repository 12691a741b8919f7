"""Parses JSON exactly as RFC 8259 has it, and keeps numbers as they are spelled.

The standard library does the parsing, with hooks against its laxity: it would turn numbers into
floats (or fail for those of many digits), accept NaN, and keep the last of two members with one
name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import encode_basestring as quoted
from json.scanner import make_scanner
from typing import Any, NoReturn

from ddbload.dynamodb.attribute_values import AttributeValue, check_name, nesting_error, utf8_size
from ddbload.dynamodb.limits import MAX_DEPTH, MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.rows.blocks import WHITE_SPACE

Members = tuple[tuple[str, "Json"], ...]
"""Names and values of an object, in order; a name may occur twice."""
Json = str | bytes | bool | list["Json"] | Members | None
"""Result of `scan`. Numbers are `bytes`, their spelling: the cheapest way to tell them from
strings."""

BAD_JSON = "bad_json"


class Binary(str):
    """Bytes in base64, which plain JSON has no type for."""

    __slots__ = ()


def parse(text: str) -> Json:
    """Parse a whole JSON text. Raises `BadValue`.

    The result may contain lone surrogates, and objects with a name that occurs twice.
    """
    try:
        value: Json = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise BadValue(BAD_JSON, _json_defect(text, error)) from None
    except RecursionError:
        # Python's limit is far above the 32 levels that DynamoDB allows.
        raise nesting_error() from None
    return value


def attribute(value: Json) -> AttributeValue:
    """Return parsed JSON as an attribute value: numbers become N, objects M, arrays L.

    Raises `BadValue`, for a lone surrogate, too.
    """
    text = attribute_json(value)
    utf8_size(text)
    found: AttributeValue = json.loads(text)
    return found


def attribute_json(value: Json, depth: int = 0) -> str:
    """Return parsed JSON as the JSON of an attribute value. Raises `BadValue`.

    `depth` counts the lists and maps around the value. Unlike `attribute` it accepts lone
    surrogates, which then have no UTF-8.
    """
    return _ENCODERS[value.__class__](value, depth)


def _list_json(value: list[Json], depth: int) -> str:
    depth += 1
    if value and depth >= MAX_DEPTH:
        raise nesting_error()
    members = [attribute_json(each, depth) for each in value]
    return f'{{"L":[{",".join(members)}]}}'


def _map_json(value: Members, depth: int) -> str:
    depth += 1
    if value and depth >= MAX_DEPTH:
        raise nesting_error()
    if len(dict(value)) < len(value):
        members_by_name(value)
    members = [f"{name_json(name)}{attribute_json(each, depth)}" for name, each in value]
    return f'{{"M":{{{",".join(members)}}}}}'


def number_json(value: bytes, _depth: int = 0) -> str:
    """Return a JSON number as the JSON of an attribute value. Raises `BadValue`."""
    text = value.decode()
    # So short and without an exponent, it is neither too long nor out of range.
    if len(text) > MAX_DIGITS or "e" in text or "E" in text:
        text = parse_number(text).text
    return f'{{"N":"{text}"}}'


_ENCODERS: dict[type, Callable[[Any, int], str]] = {
    str: lambda value, _: f'{{"S":{quoted(value)}}}',
    bytes: number_json,
    type(None): lambda _value, _: '{"NULL":true}',
    bool: lambda value, _: '{"BOOL":true}' if value else '{"BOOL":false}',
    list: _list_json,
    tuple: _map_json,
    Binary: lambda value, _: f'{{"B":{quoted(value)}}}',
}


@lru_cache(maxsize=500)
def name_json(name: str) -> str:
    """Return a name and a colon as JSON. Raises `BadValue` for a name that is not legal."""
    check_name(name)
    return f"{quoted(name)}:"


def members_by_name(members: Members) -> dict[str, Json]:
    """Return an object's values by name. Raises `BadValue` if a name occurs twice."""
    values = dict(members)
    if len(values) < len(members):
        raise BadValue(
            "duplicate_name", "an object has two members with the same name; one would be lost"
        )
    return values


def plain(value: Json) -> Any:
    """Return parsed JSON with objects as `dict`.

    Raises `BadValue` if a name occurs twice, and for too deep a nesting.
    """
    try:
        if isinstance(value, tuple):
            return {name: plain(member) for name, member in members_by_name(value).items()}
        if isinstance(value, list):
            return [plain(member) for member in value]
    except RecursionError:
        raise nesting_error() from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadValue(BAD_JSON, f"{name} is no JSON, and no number of DynamoDB's")


_DECODER = JSONDecoder(
    object_pairs_hook=tuple,
    parse_int=str.encode,
    parse_float=str.encode,
    parse_constant=_refuse_constant,
)


scan: Callable[[str, int], tuple[Json, int]] = make_scanner(_DECODER)  # type: ignore[arg-type]
"""Function that parses the value at an index of a text, and returns it and its end.

Raises `JSONDecodeError`, `StopIteration` or `RecursionError`; `parse` turns these into `BadValue`.
"""


def parse_object(line: str) -> Members | None:
    """Parse a line that is an object; None for any other line."""
    try:
        value, end = scan(line, 0)
    except (BadValue, JSONDecodeError, RecursionError, StopIteration):
        if not line or line[0] not in WHITE_SPACE:
            return None
        return parse_object(line.lstrip(WHITE_SPACE))
    if (end != len(line) and line[end:].strip(WHITE_SPACE)) or not isinstance(value, tuple):
        return None
    return value


def _json_defect(text: str, error: JSONDecodeError) -> str:
    if text.startswith("\ufeff"):
        return "not JSON: a byte order mark, which stands only where a file begins"
    if error.pos >= len(text.rstrip()):
        return "not JSON: it ends too soon; a value stands on one line (`jq -c .` makes lines)"
    return f"not JSON, from character {error.pos + 1} on: {error.msg}"
