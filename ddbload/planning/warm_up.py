"""Price a higher warm throughput of a table, and set it (`--prewarm`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.aws.table_description import (
    describe_table_with_response,
    is_on_demand,
    on_demand_maximum,
    other_regions,
    warm_writes,
)
from ddbload.contracts.run_record import LIST_PRICE_REGION, WARM_UNIT, amount_text
from ddbload.dynamodb.limits import NEW_TABLE_RATE
from ddbload.errors import InvalidUsage, PrewarmUnfinished
from ddbload.records import Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

POLL_SECONDS = 5.0
MAX_WARM_UP_SECONDS = 3600.0
"""Seconds to wait for DynamoDB.

"The time to complete pre-warming depends on the values you set and the size of the table or index"
("Understanding DynamoDB warm throughput").
"""


class WarmUp(Record):
    """Increase of the warm throughput of a table and its global indexes."""

    table: str
    wanted: int
    """Requested warm throughput, in write units per second."""
    slower: Mapping[str | None, int]
    """Present warm throughput of each index, and of the table (None), that is below `wanted`."""
    regions: int = 1
    """Regions of a global table. All replicas are warmed."""

    @property
    def more(self) -> int:
        """Write units per second that are added, in one region."""
        return sum(self.wanted - now for now in self.slower.values())

    @property
    def dollars(self) -> float:
        """Price of the increase in all regions."""
        return self.more * self.regions * WARM_UNIT

    @property
    def how(self) -> str:
        """Calculation of the price, as text."""
        times = f" x {self.regions} regions" if self.regions > 1 else ""
        return (
            f"{self.more:,} more write units{times} x ${WARM_UNIT:.5f}, once; it cannot be reverted"
        )

    @property
    def question(self) -> str:
        """Question with the price, for the user to confirm."""
        return (
            f"Raise the warm throughput of table {self.table}"
            f"{' and its indexes' if any(self.slower) else ''} to {self.wanted:,} write units a"
            f" second for about {amount_text(self.dollars)} ({self.how}; {LIST_PRICE_REGION} list"
            " price)?"
        )

    @property
    def request(self) -> dict[str, Any]:
        """Parameters of UpdateTable."""
        warm = {"WriteUnitsPerSecond": self.wanted}
        indexes = [name for name in self.slower if name is not None]
        request: dict[str, Any] = {"TableName": self.table}
        if None in self.slower:
            request["WarmThroughput"] = warm
        if indexes:
            request["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": name, "WarmThroughput": warm}} for name in indexes
            ]
        return request


def plan_warm_up(table: str, described: Mapping[str, Any], region: str, wanted: int) -> WarmUp:
    """Return the increase of a described table's warm throughput to `wanted` write units.

    Raises `InvalidUsage` if the table has provisioned capacity, or an on-demand maximum below
    `wanted`.
    """
    if not is_on_demand(described):
        raise InvalidUsage(
            f"--prewarm is for on-demand tables, and {table} has provisioned capacity: raise"
            " that instead (ddbload plan shows the capacity)"
        )
    targets = _warm_targets(described)
    for name, target in targets.items():
        most = on_demand_maximum(target)
        if most is not None and most < wanted:
            raise InvalidUsage(
                f"--prewarm {wanted}: {name or table} has an on-demand maximum of {most:,} write"
                " units a second, which would still hold: raise that first"
            )
    now = {name: warm_writes(target) or NEW_TABLE_RATE for name, target in targets.items()}
    slower = {name: units for name, units in now.items() if units < wanted}
    return WarmUp(table, wanted, slower, 1 + len(other_regions(described, region)))


def warm_up(
    client: DynamoDBClient,
    change: WarmUp,
    *,
    policy: RetryPolicy,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Raise the warm throughput, and wait until DynamoDB has done so.

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
        if all(
            (warm_writes(each) or 0) >= change.wanted
            and (each.get("WarmThroughput") or {}).get("Status", "ACTIVE") == "ACTIVE"
            for name, each in _warm_targets(described).items()
            if name in change.slower
        ):
            return
        if clock() >= end:
            raise PrewarmUnfinished(
                f"table {change.table} is not warm after {MAX_WARM_UP_SECONDS / 60:.0f} minutes;"
                " DynamoDB goes on, and the price is due: wait until DescribeTable shows"
                " WarmThroughput ACTIVE, then repeat the command without --prewarm"
            )
        sleep(POLL_SECONDS)


def _warm_targets(described: Mapping[str, Any]) -> dict[str | None, Mapping[str, Any]]:
    """Return the descriptions of a table (key None) and of its global indexes by name."""
    indexes = described.get("GlobalSecondaryIndexes") or ()
    return {None: described, **{str(each["IndexName"]): each for each in indexes}}
