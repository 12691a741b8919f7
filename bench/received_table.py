"""Items received for one table of the sink, and parsers of requests."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from bench.checksum import ItemChecksum

_INSERT = re.compile(r"""INSERT INTO "([^"]+)" VALUE \{((?:'(?:[^']|'')*':\?,?)+)\}""")
_MEMBER = re.compile(r"'((?:[^']|'')*)':\?")
_TABLE = re.compile(
    rb'"TableName": *"([^"]+)"|"RequestItems": *\{ *"([^"]+)"|INSERT INTO \\"([^"\\]+)\\"'
)


class ReceivedTable:
    """Keys of one table, and counters of the items received for it."""

    def __init__(self, name: str, keys: dict[str, str]) -> None:
        self.name = name
        self.keys = keys
        self.clear()

    def clear(self) -> None:
        """Clear the counters."""
        self.requests = 0
        self.checksum = ItemChecksum()

    def add(self, items: list[dict[str, Any]]) -> None:
        """Count one request's items. Raises an error for items that DynamoDB would refuse."""
        if not 1 <= len(items) <= 25:
            raise ValueError(f"{len(items)} items for table {self.name}, not 1 to 25")
        if len({self._key(item) for item in items}) < len(items):
            raise ValueError("a batch contains a key twice")
        for item in items:
            self.checksum.add(item)
        self.requests += 1

    def _key(self, item: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            Decimal(item[name][kind]) if kind == "N" else item[name][kind]
            for name, kind in self.keys.items()
        )

    def counters(self) -> dict[str, Any]:
        """Return the counters."""
        return {
            "items": self.checksum.items,
            "checksum": self.checksum.checksum,
            "requests": self.requests,
        }

    def description(self, status: str, capacity: dict[str, Any]) -> dict[str, Any]:
        """Return the table's description in the form of DescribeTable."""
        kinds = ("HASH", "RANGE")
        return {
            "TableName": self.name,
            "TableStatus": status,
            "TableId": "00000000-0000-0000-0000-000000000000",
            "TableArn": f"arn:aws:dynamodb:us-east-1:123456789012:table/{self.name}",
            "CreationDateTime": 1.7e9,
            **capacity,
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind} for name, kind in self.keys.items()
            ],
            "KeySchema": [
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(self.keys, kinds, strict=False)
            ],
        }


def table_named(body: bytes) -> str:
    """Return the first table in a request, without parsing its items."""
    found = _TABLE.search(body)
    return next(filter(None, found.groups())).decode() if found else ""


def items_of(request: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the table and the items of a request."""
    if "Statements" in request:
        inserts = [_inserted(each) for each in request["Statements"]]
        (table,) = {table for table, _ in inserts}
        return table, [item for _, item in inserts]
    if "Item" in request:
        return request["TableName"], [request["Item"]]
    ((table, requests),) = request["RequestItems"].items()
    return table, [each["PutRequest"]["Item"] for each in requests]


def _inserted(statement: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    found = _INSERT.fullmatch(statement["Statement"])
    if found is None:
        raise ValueError("a statement that is not an INSERT with parameters")
    names = [each[1].replace("''", "'") for each in _MEMBER.finditer(found[2])]
    return found[1], dict(zip(names, statement["Parameters"], strict=True))
