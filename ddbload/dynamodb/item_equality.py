"""Attributes as DynamoDB shows them: whether they are the same, and how large. Pure."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from typing import Any

from ddbload.dynamodb.write_modes import Deletion

_UNIT_BYTES = 1024
_MAY_HOLD_BINARY = frozenset({"B", "BS", "L", "M"})


def same_item(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether DynamoDB would store them alike: numbers by value, sets without an order."""
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def same(one: Any, other: Any) -> bool:
    """The same of two values, each with its type. What is no value is like no other."""
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
    """Write units of an item, about: what is billed for a write that its condition forbids."""
    size = sum(len(name.encode()) + _size(value) for name, value in item.items())
    return float(max(1, -(-size // _UNIT_BYTES)))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    if isinstance(value, bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        if value.keys() == {"N"}:
            return len(str(value["N"])) // 2 + 2
        # The type's name, or that of an attribute within a map: about as long as what is counted.
        return sum(1 + _size(each) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(1 + _size(each) for each in value)
    return 1


def to_client(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item of DynamoDB's JSON as a boto3 client wants it: binary as bytes, and not as base64."""
    if _MAY_HOLD_BINARY.isdisjoint(kind for value in item.values() for kind in value):
        return item
    made = {name: _with_bytes(value) for name, value in item.items()}
    return Deletion(made) if isinstance(item, Deletion) else made


def of_client(answer: Any) -> Any:
    """What a boto3 client gave, as DynamoDB's JSON: binary as base64."""
    match answer:
        case bytes() | bytearray():
            return b64encode(answer).decode()
        case Mapping():
            return {name: of_client(each) for name, each in answer.items()}
        case list() | tuple():
            return [of_client(each) for each in answer]
        case _:
            return answer


def _with_bytes(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    match kind:
        case "B":
            content = b64decode(content)
        case "BS":
            content = [b64decode(each) for each in content]
        case "L":
            content = [_with_bytes(each) for each in content]
        case "M":
            content = {name: _with_bytes(each) for name, each in content.items()}
    return {kind: content}
