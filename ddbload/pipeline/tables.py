"""The target table: what it is keyed by, and whether a file's columns fit it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.calls import call
from ddbload.aws_http.failures import Meaning
from ddbload.contracts import KeyAttribute, Table
from ddbload.errors import (
    BadHeader,
    ColumnNameTooLong,
    DuplicateColumn,
    EmptyColumnName,
    InvalidPayload,
    KeyColumnMissing,
    KeyTypeMismatch,
    ServiceUnavailable,
    TableNotActive,
    TableNotFound,
    UnknownColumn,
    UnsupportedKeyType,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_NAME_BYTES = 64 * 1024 - 1
"""DynamoDB's limit for the name of an attribute."""
_KEY_BYTES = {"HASH": 2048, "RANGE": 1024}


def describe(
    client: DynamoDBClient,
    name: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
) -> Table:
    """A table that takes writes. Raises `TableNotFound`, `TableNotActive`, and AWS's errors."""

    def absent(meant: Meaning) -> Exception | None:
        if meant.code == "ResourceNotFoundException":
            where = client.meta.region_name
            return TableNotFound(
                f"there is no table {name} in {where}; ddbload does not create tables"
            )
        return None

    doing = f"describing table {name}"

    def ask() -> Table:
        answer: Any = client.describe_table(TableName=name)
        return _table(name, answer["Table"])

    try:
        return call(ask, doing, expected=absent, sleep=sleep, rng=rng)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ServiceUnavailable(
            f"{doing}: the answer is none of DynamoDB's; check the endpoint"
        ) from None


def _table(name: str, table: Mapping[str, Any]) -> Table:
    status = table["TableStatus"]
    if status not in ("ACTIVE", "UPDATING"):
        raise TableNotActive(f"table {name} is {status}; wait until it is ACTIVE")
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    indexes = (*table.get("GlobalSecondaryIndexes", ()), *table.get("LocalSecondaryIndexes", ()))
    found = table.get("TableId") or f"{table.get('TableArn')} {table.get('CreationDateTime')}"
    return Table(
        name=name,
        id=str(found),
        keys=_keys(table["KeySchema"], types),
        index_keys=tuple(key for index in indexes for key in _keys(index["KeySchema"], types)),
    )


def _keys(
    schema: Sequence[Mapping[str, str]], types: Mapping[str, str]
) -> tuple[KeyAttribute, ...]:
    # The partition key first, as AWS sends it, whatever the order here.
    ordered = sorted(schema, key=lambda each: each["KeyType"] != "HASH")
    return tuple(
        KeyAttribute(
            each["AttributeName"], types[each["AttributeName"]], _KEY_BYTES[each["KeyType"]]
        )
        for each in ordered
    )


def check_names(columns: Sequence[str]) -> None:
    """Raise when a column's name can be no attribute's, or stands twice."""
    seen: dict[str, int] = {}
    for place, name in enumerate(columns, 1):
        if not name:
            raise EmptyColumnName(
                f"column {place} has no name; name all columns with --columns, and say --header"
                " if the first row is to be skipped"
            )
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise BadHeader(f"the name of column {place} is no text that UTF-8 can hold") from None
        if size > MAX_NAME_BYTES:
            raise ColumnNameTooLong(f"the name of column {place} is longer than an attribute's")
        if name in seen:
            raise DuplicateColumn(
                f"columns {seen[name]} and {place} have the same name; one would overwrite the"
                " other: name all columns with --columns, and say --header"
            )
        seen[name] = place


def column_types(
    columns: Sequence[str], declared: Mapping[str, str], table: Table
) -> tuple[str, ...]:
    """Each column's type: declared, or as the table's keys and indexes want it, or S.

    Raises `UnknownColumn`, `KeyColumnMissing`, `KeyTypeMismatch` and `UnsupportedKeyType`.
    """
    known = set(columns)
    for name in declared:
        if name not in known:
            raise UnknownColumn(
                f"a type is declared for {_shown(name)}, which is {_missing(name, columns)}"
            )
    types = dict(declared)
    for key in table.keys:
        if key.name not in known:
            raise KeyColumnMissing(
                f"table {table.name} is keyed by {_shown(key.name)}, which is"
                f" {_missing(key.name, columns)}"
            )
    for key in (*table.keys, *table.index_keys):
        if key.name not in known:
            continue
        if key.type not in ("S", "N"):
            raise UnsupportedKeyType(
                f"{_shown(key.name)} is a key of type {key.type} in table {table.name}; from text"
                " ddbload makes keys of type S and N"
            )
        wanted = types.setdefault(key.name, key.type)
        if wanted != key.type:
            raise KeyTypeMismatch(
                f"{_shown(key.name)} is declared {wanted}, and is a key of type {key.type} in table"
                f" {table.name} or one of its indexes"
            )
    return tuple(types.get(name, "S") for name in columns)


def check_position(name: str | None, columns: Sequence[str], table: Table) -> None:
    """Raise `InvalidPayload` where positions cannot be kept in an attribute of that name."""
    if name is None:
        return
    use = (
        f"the position attribute ('options.position_attribute', --position-attribute) is"
        f" {_shown(name)}, which"
    )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidPayload(f"{use} is longer than an attribute's name may be")
    if name in columns:
        raise InvalidPayload(f"{use} is a column of the file: name an attribute of its own")
    keys = [key for key in (*table.keys, *table.index_keys) if key.name == name]
    if keys:
        raise InvalidPayload(
            f"{use} is a key attribute of table {table.name} or of one of its indexes: name an"
            " attribute of its own"
        )


def _missing(name: str, columns: Sequence[str]) -> str:
    # The names are not told: where a file lacks its header they are a row.
    told = f"none of the file's {len(columns)} columns"
    alike = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
    if alike:
        return f"{told}; {_shown(alike[0])} is one, and names are compared exactly"
    return f"{told}: check the delimiter, and whether the file has a header"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")
