"""JSON read as RFC 8259 has it and no laxer, numbers kept as they are written.

The standard library does the reading, told to let go of nothing: it would make floats of numbers
(or trip over those of many digits), take NaN, and keep the last of two members with one name.
"""

from __future__ import annotations

from collections.abc import Callable
from json.decoder import JSONDecodeError, JSONDecoder
from json.scanner import make_scanner
from typing import Any, NoReturn

from ddbload.dynamodb.attribute_values import AttributeValue, check_name, nesting_error, utf8_size
from ddbload.dynamodb.limits import MAX_DEPTH, MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue, parse_number

Members = tuple[tuple[str, "Json"], ...]
"""An object's names and values, as they stand: two may have one name."""
Json = str | bytes | bool | list["Json"] | Members | None
"""What `scan` gives. Bytes are a number's text: nothing else tells it as cheaply from a string."""

BAD_JSON = "bad_json"


def parse(text: str) -> Json:
    """A JSON text, whole. It may still have lone surrogates, and names that stand twice.

    Raises `BadValue`.
    """
    try:
        value: Json = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise BadValue(BAD_JSON, _told(text, error)) from None
    except RecursionError:
        # The interpreter's limit is far beyond DynamoDB's.
        raise nesting_error() from None
    return value


def attribute(value: Json, depth: int = 0) -> AttributeValue:
    """The attribute value of what `parse` gave: a number becomes N, an object M, a list L.

    `depth`: how many lists and maps it stands in. Raises `BadValue`.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if isinstance(value, str):
        utf8_size(value)
        return {"S": value}
    if isinstance(value, bytes):
        text = value.decode()
        # So short, and without an exponent, it can be neither too long nor out of range.
        if len(text) > MAX_DIGITS or "e" in text or "E" in text:
            text = parse_number(text).text
        return {"N": text}
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


def attribute_of_json(text: str) -> AttributeValue:
    """The attribute value that a JSON text stands for. Raises `BadValue`."""
    return attribute(parse(text))


def members_by_name(members: Members) -> dict[str, Json]:
    """An object's values by their names. Raises `BadValue` where one stands twice."""
    values = dict(members)
    if len(values) < len(members):
        raise BadValue(
            "duplicate_name", "an object has two members with the same name; one would be lost"
        )
    return values


def plain(value: Json) -> Any:
    """What `parse` gave, with objects as `dict`. Raises `BadValue` where a name stands twice.

    Take nothing that `too_deep` has not looked at.
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
"""Reads a value that begins at an index, and says where it ends.

Raises what `parse` makes `BadValue` of: `JSONDecodeError`, `StopIteration`, `RecursionError`.
"""


def _told(text: str, error: JSONDecodeError) -> str:
    if text.startswith("\ufeff"):
        return "not JSON: a byte order mark, which stands only where a file begins"
    if error.pos >= len(text.rstrip()):
        return "not JSON: it ends too soon; a value stands on one line (`jq -c .` makes lines)"
    return f"not JSON, from character {error.pos + 1} on: {error.msg}"
