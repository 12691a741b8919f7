"""The demo's table: its keys as they are typed, and how it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddbload.errors import InvalidUsage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "demo"

Keys = tuple[tuple[str, str], ...]
"""Name and type of the partition key, and of the sort key if there is one."""


def keys_of(text: str) -> Keys:
    """`isbn:S`, or `word:S,year:N`. Raises `InvalidUsage`."""
    keys = []
    for part in text.split(","):
        name, colon, kind = part.rpartition(":")
        if not colon:
            name, kind = part, "S"
        if not name or kind.upper() not in ("S", "N"):
            raise InvalidUsage(f"--table-key: {part!r} is not of the form column:S or column:N")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage("--table-key: one partition key, and at most one other as sort key")
    return tuple(keys)


def create(client: DynamoDBClient, keys: Keys) -> None:
    """Make the table, and wait until it takes writes."""
    attributes: Any = [{"AttributeName": name, "AttributeType": kind} for name, kind in keys]
    schema: Any = [
        {"AttributeName": name, "KeyType": role}
        for (name, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=attributes,
        KeySchema=schema,
    )
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})
