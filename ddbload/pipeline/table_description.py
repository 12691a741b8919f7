"""Describe the table that a run writes to, and check that it is still the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    """Describe a table. Raises `TableNotFound`, `TableNotActive`, and AWS's errors."""
    return describe_table_with_response(client, name, retry_policy=retry_policy)[0]


def describe_table_with_response(
    client: DynamoDBClient,
    name: str,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
    suggest: bool = False,
) -> tuple[Table, Mapping[str, Any]]:
    """Describe a table, and return the whole answer of DescribeTable too.

    With `suggest`, the error of a missing table names the most similar one, which takes a request
    that deployed functions may not send.
    """
    absent = (
        f"there is no table {name} in {client.meta.region_name}; ddbload does not create tables"
    )
    try:
        return _ask(
            client, name, lambda answer: (_table(name, answer), answer), absent, retry_policy
        )
    except TableNotFound:
        if not suggest:
            raise
        raise TableNotFound(f"{absent}{_suggestion(client, name)}") from None


def _suggestion(client: DynamoDBClient, name: str) -> str:
    """Say which table was likely meant; or else to look in another region."""
    from ddbload.contracts.nearest_names import did_you_mean

    names: list[str] = []
    # The credentials may not allow it.
    with suppress(Exception):
        names = client.list_tables()["TableNames"]
    return did_you_mean(name, names) or (
        f" (ddbload plan SOURCE {name} --create-table KEY:TYPE prints the command that does);"
        " --region names another region"
    )


def require_same_table(
    clients: AwsClients,
    table: Table,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> None:
    """Check that the table of this name still has the same id.

    DynamoDB gives each table a new id, so a table with the same id was not replaced. Raises
    `TableReplaced`, `TableNotFound`, `TableNotActive`, and AWS's errors.
    """

    def check(description: Mapping[str, Any]) -> None:
        if _id(description) != table.id:
            raise TableReplaced(
                f"table {table.name} was deleted and made again while this run wrote to it: the"
                " rows that were written before are gone, and some may be in the new table; start"
                " a new run (another run id)"
            )
        if description["TableStatus"] == "DELETING":
            raise TableNotFound(f"table {table.name} is being deleted")
        _table(table.name, description)

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
        # Credentials may have expired since the client was made; newer ones may exist.
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

    def expected(failure: AwsFailure) -> Exception | None:
        return TableNotFound(absent) if failure.code == "ResourceNotFoundException" else None

    doing = f"describing table {name}"
    is_foreign = False

    def ask() -> T:
        nonlocal is_foreign
        try:
            is_foreign = False
            answer: Any = client.describe_table(TableName=name)
            return read(answer["Table"])
        except (AttributeError, LookupError, TypeError, ValueError):
            # A damaged answer is read again.
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
            f"{doing}: the answer is not from DynamoDB; check the endpoint"
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
    # Partition key first.
    ordered = sorted(schema, key=lambda each: each["KeyType"] != "HASH")
    return tuple(
        KeyAttribute(
            each["AttributeName"], types[each["AttributeName"]], MAX_KEY_BYTES[each["KeyType"]]
        )
        for each in ordered
    )
