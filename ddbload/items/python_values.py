"""Attribute values as Python values, and back.

S is str, N is Decimal, BOOL is bool, B is bytes, NULL is None, L is list, M is dict, and sets are
sets of these. There are no floats: they would change numbers.
"""

from __future__ import annotations

import operator
from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ddbload.contracts.results import TRANSFORM
from ddbload.dynamodb.attribute_values import Attributes, AttributeValue, nesting_error
from ddbload.dynamodb.limits import MAX_DEPTH
from ddbload.dynamodb.scalar_text import BadValue, parse_number

_SET_TYPES = {"S": "SS", "N": "NS", "B": "BS"}


def python_row(attributes: Attributes) -> dict[str, Any]:
    """Return an item as Python values, in new containers."""
    return {name: _python_value(value) for name, value in attributes.items()}


def _python_value(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return Decimal(content)
        case "B":
            return b64decode(content)
        case "NULL":
            return None
        case "L":
            return [_python_value(each) for each in content]
        case "M":
            return python_row(content)
        case "NS":
            return {Decimal(each) for each in content}
        case "BS":
            return {b64decode(each) for each in content}
        case "SS":
            return set(content)
    return content


def attributes_of(row: object, *, floats: bool = False) -> Attributes:
    """Return the item of a dict of Python values.

    With `floats`, a float is the number of the shortest text that reads as it, as in JSON. Raises
    `BadValue`, whose column is the attribute.
    """
    if not isinstance(row, Mapping):
        raise BadValue(TRANSFORM, f"a row is a dict, not of type {type(row).__name__}")
    found: Attributes = {}
    for name, value in row.items():
        if not isinstance(name, str):
            raise BadValue(TRANSFORM, f"a name is a str, not of type {type(name).__name__}")
        try:
            found[name] = _attribute_value(value, floats)
        except BadValue as bad:
            bad.column = name
            raise
    return found


def _attribute_value(value: object, floats: bool, depth: int = 0) -> AttributeValue:
    if depth >= MAX_DEPTH:
        raise nesting_error()
    match value:
        case str():
            return {"S": str.__str__(value)}
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case Decimal():
            return _number(Decimal.__str__(value))
        case float() if floats:
            return _number(float.__repr__(value))
        case bytes() | bytearray():
            return {"B": b64encode(value).decode()}
        case list() | tuple():
            return {"L": [_attribute_value(each, floats, depth + 1) for each in value]}
        case set() | frozenset():
            return _set(value, floats)
        case Mapping():
            names = [name for name in value if not isinstance(name, str)]
            if names:
                raise BadValue(TRANSFORM, f"a key of type {type(names[0]).__name__} in a dict")
            deeper = depth + 1
            return {"M": {k: _attribute_value(each, floats, deeper) for k, each in value.items()}}
    try:
        # Whole numbers of other libraries, too.
        return {"N": str(operator.index(value))}  # type: ignore[arg-type]
    except (TypeError, ValueError):
        hint = "; use Decimal" if isinstance(value, float) else ""
        raise BadValue(
            TRANSFORM, f"a value of type {type(value).__name__} is of no attribute type{hint}"
        ) from None


def _number(text: str) -> AttributeValue:
    return {"N": parse_number(text).text}


def _set(members: set[Any] | frozenset[Any], floats: bool) -> AttributeValue:
    values = [_attribute_value(each, floats, MAX_DEPTH - 1) for each in members]
    kinds = {kind for value in values for kind in value}
    if len(kinds) != 1 or not kinds <= _SET_TYPES.keys():
        raise BadValue(TRANSFORM, "a set has at least one member, all str, numbers or bytes")
    (kind,) = kinds
    # Sorted, because the order of a set differs between processes.
    return {_SET_TYPES[kind]: sorted(value[kind] for value in values)}
