"""Comparison of items by value, however their numbers and sets are written.

A digest is 128 bits of the BLAKE2b hash of an item's canonical JSON: members in the order of their
names, numbers by value, members of sets in order. Unequal items have the same digest once in
2^128 pairs, so that two tables of ten million items each are distinguished.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from ddbload.dynamodb.attribute_values import decode_base64, item_size
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.scalar_text import BadValue, parse_number

DIGEST_BYTES = 16
SALT_BYTES = blake2b.SALT_SIZE
_AS_WRITTEN = frozenset({"S", "BOOL", "NULL"})
_NUMBERS = 16_384
"""Canonical numbers that are remembered: prices, years and the like come again."""


_encode_json = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class ItemDigests:
    """Maker of the digests of items of one table.

    Items are DynamoDB JSON with valid values, such as DynamoDB returns and an import sends.
    """

    def __init__(
        self,
        keys: Sequence[str],
        salt: bytes,
        ignored: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> None:
        """Digest items with key attributes `keys`.

        Args:
            keys: Names of the key attributes.
            salt: Bytes that make the digests of one comparison unlike those of others.
            ignored: Attributes that do not count.
            only: The attributes that count; None for all others.
        """
        self._keys, self._salt = tuple(keys), salt
        self._ignored = frozenset(ignored)
        self._only = None if only is None else frozenset(only)

    def digest_all(self, items: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """Return the digest of each item's key, with that of the item behind it.

        Raises `LookupError`, `TypeError`, `ValueError` or `BadValue` for what is no item.
        """
        salt, ignored, only, key_text = self._salt, self._ignored, self._only, self.key_text
        digests = []
        for item in items:
            key = blake2b(key_text(item).encode(), digest_size=DIGEST_BYTES, salt=salt).digest()
            if not ignored.isdisjoint(item):
                item = {name: item[name] for name in item.keys() - ignored}
            if only is not None and not only.issuperset(item):
                item = {name: item[name] for name in item.keys() & only}
            text = canonical_text(item)
            digests.append(
                key + blake2b(text.encode(), digest_size=DIGEST_BYTES, salt=salt).digest()
            )
        return digests

    def key_text(self, item: Mapping[str, Any]) -> str:
        """Return a text that is the same for equal keys alone."""
        texts = []
        for name in self._keys:
            ((kind, content),) = item[name].items()
            texts.append(content if kind == "S" else _CANONICAL[kind](content))
        if len(texts) == 1:
            return str(texts[0])
        return "".join(f"{len(text)} {text}" for text in texts)


def canonical_text(item: Mapping[str, Any]) -> str:
    """Return an item as JSON that is the same for equal items alone."""
    return _encode_json({name: _canonical_value(value) for name, value in item.items()})


def _canonical_value(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    return {kind: content if kind in _AS_WRITTEN else _CANONICAL[kind](content)}


@lru_cache(_NUMBERS)
def _number(content: str) -> str:
    return parse_number(content).value


_CANONICAL: dict[str, Callable[[Any], Any]] = {
    "N": _number,
    "B": decode_base64,
    "SS": lambda content: sorted(set(content)),
    "BS": lambda content: sorted(set(map(decode_base64, content))),
    "NS": lambda content: sorted(set(map(_number, content))),
    "L": lambda content: [_canonical_value(each) for each in content],
    "M": lambda content: {name: _canonical_value(each) for name, each in content.items()},
}


def same(one: Any, other: Any) -> bool:
    """Return true if two attribute values are equal; a malformed one equals no other."""
    try:
        return _canonical_value(one) == _canonical_value(other)
    except (AttributeError, BadValue, LookupError, TypeError, ValueError):
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
