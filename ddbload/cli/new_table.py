"""Tables that do not exist yet: their keys as users type them, and their creation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import DEFAULT_POLICY, call_with_retries
from ddbload.aws.table_description import describe_table_with_response
from ddbload.cli import options
from ddbload.cli.terminal import Output, ask_to_agree
from ddbload.errors import InvalidUsage, TableNotFound

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WAITED: Any = {"Delay": 1, "MaxAttempts": 300}
"""Seconds between two looks at a new table, and their number."""
NewKeys = tuple[tuple[str, str], ...]
"""Name and type of the partition key, followed by those of the sort key, if any."""
create_table_option = options.writing_option(
    metavar="KEYS",
    common=False,
    help="Make the table if it does not exist: on demand, with these keys, such as isbn:S or"
    " id:S,year:N. Asked about; a plan only takes it as made.",
)


def parse_table_keys(
    text: str,
    option: str = "--create-table",
    form: str = "key:S, key:N or key:B",
    kinds: Collection[str] = ("S", "N", "B"),
    default: str = "",
) -> NewKeys:
    """Parse the `KEY:TYPE,SORT:TYPE` of an option. Raises `InvalidUsage`.

    `default`: type of a key that is given without one.
    """
    keys: list[tuple[str, str]] = []
    for part in text.split(","):
        name, colon, kind = part.strip().rpartition(":")
        if not colon:
            name, kind = part, default
        if not name or kind.upper() not in kinds:
            raise InvalidUsage(f"{option}: {part!r} is not of the form {form}")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage(f"{option}: one partition key, and at most one other as sort key")
    return tuple(keys)


def create_table(client: DynamoDBClient, table: str, keys: NewKeys) -> None:
    """Create an on-demand table, and wait until it is active. Raises AWS's errors."""
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    request: Any = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for n, t in keys],
        "KeySchema": [{"AttributeName": key[0], "KeyType": role} for key, role in roles],
    }
    waiter = client.get_waiter("table_exists")
    for doing, call in (
        ("making", lambda: client.create_table(**request)),
        ("waiting for", lambda: waiter.wait(TableName=table, WaiterConfig=_WAITED)),
    ):
        call_with_retries(call, f"{doing} table {table}", policy=DEFAULT_POLICY)


def ensure_table(
    table: str,
    keys: NewKeys,
    client: DynamoDBClient,
    output: Output,
    *,
    yes: bool,
    check: Callable[[], object],
) -> None:
    """Create a table unless it exists with these keys, after `check`; asked about unless `yes`.

    Raises `InvalidUsage` if it exists with other keys, or if the user declines, and AWS's errors.
    """
    shown = ", ".join(f"{name} ({kind})" for name, kind in keys)
    try:
        found, _ = describe_table_with_response(client, table)
    except TableNotFound:
        check()
        made = f"table {table} in {client.meta.region_name}, on demand, with the key {shown}"
        if not yes:
            ask_to_agree(
                f"Make {made}?",
                unasked=f"--create-table makes {made}: without a terminal to ask on, give --yes",
                declined="--create-table was declined: nothing was made or written",
            )
        output.say(f"making {made} ...")
        create_table(client, table, keys)
        return
    if tuple((key.name, key.type) for key in found.keys) != keys:
        there = ", ".join(f"{key.name} ({key.type})" for key in found.keys)
        raise InvalidUsage(
            f"--create-table: table {table} exists, with the key {there} and not {shown}: leave the"
            " option out to load into it, or name another table"
        )
