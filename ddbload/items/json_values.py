"""Parses JSON exactly as RFC 8259 has it, and keeps numbers as they are spelled.

The standard library does the parsing, with hooks against its laxity: it would turn numbers into
floats (or fail for those of many digits), accept NaN, and keep the last of two members with one
name.
"""

from __future__ import annotations

from collections.abc import Callable
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


def attribute(value: Json, depth: int = 0) -> AttributeValue:
    """Return parsed JSON as an attribute value: numbers become N, objects M, arrays L.

    `depth` counts the lists and maps around the value. Raises `BadValue`.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if isinstance(value, str):
        utf8_size(value)
        return {"S": value}
    if isinstance(value, bytes):
        return {"N": number_text(value)}
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, list):
        return {"L": [attribute(member, depth + 1) for member in value]}
    members = members_by_name(value)
    for name in members:
        check_name(name)
    return {"M": {name: attribute(member, depth + 1) for name, member in members.items()}}


def number_text(value: bytes) -> str:
    """Return a JSON number as DynamoDB takes it. Raises `BadValue`."""
    text = value.decode()
    # So short and without an exponent, it is neither too long nor out of range.
    if len(text) > MAX_DIGITS or "e" in text or "E" in text:
        text = parse_number(text).text
    return text


def attribute_json(value: Json, depth: int = 0) -> str:
    """Return `attribute` of parsed JSON, encoded as JSON. Raises `BadValue`.

    Unlike `attribute` it accepts lone surrogates, which then have no UTF-8.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if isinstance(value, str):
        return f'{{"S":{quoted(value)}}}'
    if isinstance(value, bytes):
        return f'{{"N":"{number_text(value)}"}}'
    if value is None:
        return '{"NULL":true}'
    if isinstance(value, bool):
        return '{"BOOL":true}' if value else '{"BOOL":false}'
    if isinstance(value, list):
        return f'{{"L":[{",".join([attribute_json(member, depth + 1) for member in value])}]}}'
    members = members_by_name(value)
    for name in members:
        check_name(name)
    inner = [f"{quoted(name)}:{attribute_json(each, depth + 1)}" for name, each in members.items()]
    return f'{{"M":{{{",".join(inner)}}}}}'


def attribute_of_json(text: str) -> AttributeValue:
    """Parse a JSON text as an attribute value. Raises `BadValue`."""
    return attribute(parse(text))


def members_by_name(members: Members) -> dict[str, Json]:
    """Return an object's values by name. Raises `BadValue` if a name occurs twice."""
    values = dict(members)
    if len(values) < len(members):
        raise BadValue(
            "duplicate_name", "an object has two members with the same name; one would be lost"
        )
    return values


def plain(value: Json) -> Any:
    """Return parsed JSON with objects as `dict`. Raises `BadValue` if a name occurs twice.

    Raises `RecursionError` for values that are nested too deeply.
    """
    if isinstance(value, tuple):
        return {name: plain(member) for name, member in members_by_name(value).items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
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
