"""JSON read as RFC 8259 has it and no laxer, numbers kept as they are written.

The standard library does the reading, told to let go of nothing: it would make floats of numbers
(or trip over those of many digits), take NaN, and keep the last of two members with one name.
"""

from __future__ import annotations

from json.decoder import JSONDecodeError, JSONDecoder
from typing import NoReturn

from ddbload.rows.attributes import MAX_DEPTH, AttributeValue, check_name, too_deep, utf8_size
from ddbload.rows.types import BadValue, number

Json = str | bytes | bool | list["Json"] | dict[str, "Json"] | None
"""What `parse` gives. Bytes are a number's text: nothing else tells it as cheaply from a string."""

BAD_JSON = "bad_json"


class DuplicateName(BadValue):
    """An object with two members of one name."""

    def __init__(self) -> None:
        super().__init__(
            "duplicate_name", "an object has two members with the same name; one would be lost"
        )


def parse(text: str) -> Json:
    """A JSON text, whole. Strings may still hold lone surrogates. Raises `BadValue`."""
    try:
        value: Json = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise BadValue(BAD_JSON, _told(text, error)) from None
    except RecursionError:
        # The interpreter's limit is far beyond DynamoDB's.
        raise too_deep() from None
    return value


def attribute(value: Json, depth: int = 0) -> AttributeValue:
    """The attribute value of what `parse` gave: a number becomes N, an object M, a list L.

    `depth`: how many lists and maps it stands in. Raises `BadValue`.
    """
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, str):
        utf8_size(value)
        return {"S": value}
    if isinstance(value, bytes):
        return {"N": number(value.decode()).text}
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, list):
        return {"L": [attribute(member, depth + 1) for member in value]}
    for name in value:
        check_name(name)
    return {"M": {name: attribute(member, depth + 1) for name, member in value.items()}}


def attribute_of_json(text: str) -> AttributeValue:
    """The attribute value that a JSON text stands for. Raises `BadValue`."""
    return attribute(parse(text))


def _object(members: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(members)
    if len(made) < len(members):
        raise DuplicateName
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise BadValue(BAD_JSON, f"{name} is no JSON, and no number of DynamoDB's")


_DECODER = JSONDecoder(
    object_pairs_hook=_object,
    parse_int=str.encode,
    parse_float=str.encode,
    parse_constant=_refuse_constant,
)


def _told(text: str, error: JSONDecodeError) -> str:
    if text.startswith("\ufeff"):
        return "not JSON: a byte order mark, which stands only where a file begins"
    return f"not JSON, from character {error.pos + 1} on: {error.msg}"
