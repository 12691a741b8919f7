"""Raise a table's warm throughput before an import (`--prewarm`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.errors import InvalidUsage, PrewarmUnfinished
from ddbload.pipeline.table_capacity import (
    NEW_TABLE_RATE,
    is_on_demand,
    on_demand_maximum,
    other_regions,
    warm_writes,
)
from ddbload.pipeline.table_description import describe_table_with_response
from ddbload.pipeline.warm_up import WarmUp

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

POLL_SECONDS = 5.0
MAX_WARM_UP_SECONDS = 3600.0
"""Seconds to wait for DynamoDB: "The time to complete pre-warming depends on the values you set
and the size of the table or index" ("Understanding DynamoDB warm throughput")."""


def plan_warm_up(table: str, described: Mapping[str, Any], region: str, wanted: int) -> WarmUp:
    """Make the change that a described table needs. Raises `InvalidUsage` if it has no use."""
    if not is_on_demand(described):
        raise InvalidUsage(
            f"--prewarm is for on-demand tables, and {table} has provisioned capacity: raise"
            " that instead (ddbload plan shows the command)"
        )
    targets = [described, *(described.get("GlobalSecondaryIndexes") or ())]
    for target in targets:
        most = on_demand_maximum(target)
        if most is not None and most < wanted:
            what = target.get("IndexName", table)
            raise InvalidUsage(
                f"--prewarm {wanted}: {what} has an on-demand maximum of {most:,} write units"
                " a second, which would still hold: raise that first"
            )
    now = {str(index["IndexName"]): warm_writes(index) or NEW_TABLE_RATE for index in targets[1:]}
    return WarmUp(
        table,
        wanted,
        warm_writes(described) or NEW_TABLE_RATE,
        {name: units for name, units in now.items() if units < wanted},
        1 + len(other_regions(described, region)),
    )


def warm_up(
    client: DynamoDBClient,
    change: WarmUp,
    *,
    policy: RetryPolicy,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Change the warm throughput, and wait until DynamoDB has done so.

    Raises `PrewarmUnfinished` after an hour, `Interrupted` if `policy` gives up, and AWS's errors.
    """
    call_with_retries(
        lambda: client.update_table(**change.request),
        f"raising the warm throughput of table {change.table}",
        policy=policy,
    )
    end = clock() + MAX_WARM_UP_SECONDS
    while True:
        _, described = describe_table_with_response(client, change.table, retry_policy=policy)
        if _is_warm(described, change):
            return
        if clock() >= end:
            raise PrewarmUnfinished(
                f"table {change.table} is not warm after {MAX_WARM_UP_SECONDS / 60:.0f} minutes;"
                " DynamoDB goes on, and the price is due: wait until DescribeTable shows"
                " WarmThroughput ACTIVE, then repeat the command without --prewarm"
            )
        sleep(POLL_SECONDS)


def _is_warm(described: Mapping[str, Any], change: WarmUp) -> bool:
    targets = [described] if change.table_now < change.wanted else []
    targets += [
        index
        for index in described.get("GlobalSecondaryIndexes") or ()
        if index.get("IndexName") in change.indexes
    ]
    return all(
        (warm_writes(each) or 0) >= change.wanted
        and (each.get("WarmThroughput") or {}).get("Status", "ACTIVE") == "ACTIVE"
        for each in targets
    )
