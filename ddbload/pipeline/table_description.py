"""The target table as DynamoDB describes it, and whether it is still the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_KEY_BYTES
from ddbload.errors import (
    AccessDenied,
    ServiceUnavailable,
    TableNotActive,
    TableNotFound,
    TableReplaced,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.aws.clients import AwsClients


T = TypeVar("T")


def describe_table(
    client: DynamoDBClient,
    name: str,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Table:
    """A table that takes writes. Raises `TableNotFound`, `TableNotActive`, and AWS's errors."""
    return describe_table_with_response(client, name, retry_policy=retry_policy)[0]


def describe_table_with_response(
    client: DynamoDBClient,
    name: str,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> tuple[Table, Mapping[str, Any]]:
    """Describe a table that takes writes; also the whole answer of DescribeTable."""
    absent = (
        f"there is no table {name} in {client.meta.region_name}; ddbload does not create tables"
    )
    return _ask(client, name, lambda told: (_table(name, told), told), absent, retry_policy)


def require_same_table(
    clients: AwsClients,
    table: Table,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> None:
    """Compare a table with the one of its name that there is now.

    Raises `TableReplaced`, `TableNotFound`, `TableNotActive`, and AWS's errors. DynamoDB gives
    each table an id of its own, so a table that still has its id was never replaced meanwhile.
    """

    def check(told: Mapping[str, Any]) -> None:
        if _id(told) != table.id:
            raise TableReplaced(
                f"table {table.name} was deleted and made again while this run wrote to it: the"
                " rows that were written before are gone, and some may be in the new table; start"
                " a new run (another run id)"
            )
        if told["TableStatus"] == "DELETING":
            raise TableNotFound(f"table {table.name} is being deleted")
        _table(table.name, told)

    absent = f"table {table.name} is not there any more"

    def ask() -> None:
        _ask(
            clients.dynamodb,
            table.name,
            check,
            absent,
            retry_policy,
        )

    try:
        ask()
    except AccessDenied:
        # A run may outlast the credentials that it began with, and there may be others by now.
        clients.renew()
        ask()


def _ask(
    client: DynamoDBClient,
    name: str,
    read: Callable[[Mapping[str, Any]], T],
    absent: str,
    retry_policy: RetryPolicy,
) -> T:
    """Call DescribeTable and decode the answer. Raises `TableNotFound`, and AWS's errors.

    `absent`: the message if there is no such table.
    """

    def expected(meant: AwsFailure) -> Exception | None:
        return TableNotFound(absent) if meant.code == "ResourceNotFoundException" else None

    doing = f"describing table {name}"
    is_foreign = False

    def ask() -> T:
        nonlocal is_foreign
        try:
            is_foreign = False
            answer: Any = client.describe_table(TableName=name)
            return read(answer["Table"])
        except (AttributeError, LookupError, TypeError, ValueError):
            # One that was damaged on its way is another one when it is asked for again.
            is_foreign = True
            raise ConnectionError("the answer is not from DynamoDB") from None

    try:
        return call_with_retries(
            ask,
            doing,
            policy=retry_policy,
            expected=expected,
        )
    except ServiceUnavailable:
        if not is_foreign:
            raise
        raise ServiceUnavailable(
            f"{doing}: the answer is none of DynamoDB's; check the endpoint"
        ) from None


def _id(table: Mapping[str, Any]) -> str:
    return str(table.get("TableId") or f"{table['TableArn']} {table['CreationDateTime']}")


def _table(name: str, table: Mapping[str, Any]) -> Table:
    status = table["TableStatus"]
    if status not in ("ACTIVE", "UPDATING"):
        raise TableNotActive(f"table {name} is {status}; wait until it is ACTIVE")
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    indexes = (*table.get("GlobalSecondaryIndexes", ()), *table.get("LocalSecondaryIndexes", ()))
    return Table(
        name=name,
        id=_id(table),
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
            each["AttributeName"], types[each["AttributeName"]], MAX_KEY_BYTES[each["KeyType"]]
        )
        for each in ordered
    )
