"""Plain JSON of items, for targets that are not tables. Pure.

Numbers keep all their digits, sets become arrays, and binary stays base64. Attributes stay in the
order of the item, which is that of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any

from ddbload.dynamodb.attribute_values import Attributes

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PARTS = re.compile(r"(-?)0*([0-9]*)(?:\.([0-9]*))?((?:[eE][+-]?[0-9]+)?)")


def plain_object(item: Attributes) -> str:
    """Return an item as a JSON object without blanks."""
    members = [f"{quoted(name)}:{_text(value)}" for name, value in item.items()]
    return f"{{{','.join(members)}}}"


def json_number(text: str) -> str:
    """Return a number of DynamoDB as JSON writes it: `007` is 7, `.5` is 0.5; no digit is lost."""
    if _JSON_NUMBER.fullmatch(text):
        return text
    found = _PARTS.fullmatch(text)
    assert found is not None, "checked when the item was built"  # noqa: S101
    minus, whole, fraction, exponent = found.groups()
    return f"{minus}{whole or '0'}{'.' + fraction if fraction else ''}{exponent}"


def _text(value: Mapping[str, Any]) -> str:
    ((kind, content),) = value.items()
    return _WRITERS[kind](content)


def _array(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "S": quoted,
    "N": json_number,
    "B": quoted,
    "BOOL": lambda content: "true" if content else "false",
    "NULL": lambda _: "null",
    "SS": lambda content: _array(list(map(quoted, content))),
    "NS": lambda content: _array(list(map(json_number, content))),
    "BS": lambda content: _array(list(map(quoted, content))),
    "L": lambda content: _array(list(map(_text, content))),
    "M": plain_object,
}
