"""Comparison of items that DynamoDB returns, and conversion for boto3 clients."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from typing import Any

from ddbload.dynamodb.attribute_values import item_size
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.scalar_text import BadValue


def same_item(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return true if two items are equal: numbers by value, sets in any order."""
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def same(one: Any, other: Any) -> bool:
    """Return true if two attribute values are equal; a malformed one equals no other."""
    try:
        ((kind, first),) = one.items()
        ((other_kind, second),) = other.items()
        if kind != other_kind:
            return False
        match kind:
            case "N":
                return Decimal(first) == Decimal(second)
            case "NS":
                return set(map(Decimal, first)) == set(map(Decimal, second))
            case "SS" | "BS":
                return set(first) == set(second)
            case "L":
                return len(first) == len(second) and all(map(same, first, second))
            case "M":
                return same_item(first, second)
            case _:
                return bool(first == second)
    except (AttributeError, DecimalException, LookupError, TypeError, ValueError):
        return False


def write_units(item: Mapping[str, Any]) -> float:
    """Return the write units that a failed condition on an item costs; 1 if it is malformed."""
    try:
        size = item_size(item)
    except (AttributeError, BadValue, TypeError, ValueError):
        size = 0
    return float(max(1, -(-size // WRITE_UNIT_BYTES)))


def to_client(value: Any) -> Any:
    """Convert parameters for a boto3 client, which takes binary as bytes instead of base64."""
    match value:
        # No other member of a request, and no attribute, has a text or a list of texts as content.
        case {"B": str(text)}:
            return {"B": b64decode(text)}
        case {"BS": list(texts)}:
            return {"BS": [b64decode(each) for each in texts]}
        case dict():
            return {name: to_client(each) for name, each in value.items()}
        case list():
            return [to_client(each) for each in value]
        case _:
            return value


def of_client(answer: Any) -> Any:
    """Convert a boto3 client's answer to DynamoDB JSON, with binary as base64."""
    match answer:
        case bytes() | bytearray():
            return b64encode(answer).decode()
        case Mapping():
            return {name: of_client(each) for name, each in answer.items()}
        case list() | tuple():
            return [of_client(each) for each in answer]
        case _:
            return answer
