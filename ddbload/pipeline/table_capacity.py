"""Determine the write capacity of a table, and the number of workers that it keeps busy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy
from ddbload.contracts.write_price import WritePrice
from ddbload.dynamodb.limits import PARTITION_WRITE_UNITS
from ddbload.pipeline.table_description import describe_table_with_response

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NEW_TABLE_RATE = 4000
"""Write units a second that a new on-demand table accepts."""
NEW_TABLE_READS = 12_000
"""Read units a second that a new on-demand table accepts."""
TABLE_QUOTA = 40_000
"""Write units a second of a table, by AWS's default quota."""
STANDARD_IA = "STANDARD_INFREQUENT_ACCESS"
UNITS_PER_WORKER = PARTITION_WRITE_UNITS
"""Write units a second for which `workers: auto` adds a worker.

One worker could send many times as many. But a partition accepts this many, and workers on
different parts of a source spread their writes over partitions.
"""


@dataclass(frozen=True, slots=True)
class WriteCapacity:
    """Write units a second that a table or an index accepts at once."""

    units: float
    how: str
    """Origin of the number, for people."""

    def share(self, percent: float) -> float:
        """Return a percentage of the capacity, and at least one unit a second."""
        return max(1.0, self.units * percent / 100)


def is_on_demand(described: Mapping[str, Any]) -> bool:
    """Tell whether a table bills requests. `described`: the `Table` of DescribeTable."""
    billing = described.get("BillingModeSummary", {}).get("BillingMode")
    provisioned = described.get("ProvisionedThroughput", {}).get("WriteCapacityUnits")
    return billing == "PAY_PER_REQUEST" or (billing is None and not provisioned)


def table_class_of(described: Mapping[str, Any]) -> str:
    """Return the class of a described table."""
    return str(described.get("TableClassSummary", {}).get("TableClass") or "STANDARD")


def other_regions(described: Mapping[str, Any], region: str) -> tuple[str, ...]:
    """List the regions of a global table's other replicas."""
    replicas = described.get("Replicas") or ()
    names = (str(each["RegionName"]) for each in replicas if each.get("RegionName"))
    return tuple(name for name in names if name != region)


def provisioned_writes(described: Mapping[str, Any]) -> int:
    """Return the provisioned write units a second of a described table or index."""
    return int(described.get("ProvisionedThroughput", {}).get("WriteCapacityUnits") or 0)


def warm_writes(described: Mapping[str, Any]) -> int | None:
    """Return the write units of a table's or index's warm throughput; None if unknown."""
    found = (described.get("WarmThroughput") or {}).get("WriteUnitsPerSecond")
    return int(found) if found else None


def on_demand_maximum(described: Mapping[str, Any]) -> int | None:
    """Return the on-demand maximum of a table or index in write units; None without one."""
    found = (described.get("OnDemandThroughput") or {}).get("MaxWriteRequestUnits")
    # -1 means no limit.
    return int(found) if found and int(found) > 0 else None


def read_capacity(described: Mapping[str, Any]) -> int:
    """Return the read units a second that a described table accepts at once."""
    provisioned = described.get("ProvisionedThroughput", {}).get("ReadCapacityUnits")
    if not is_on_demand(described):
        return int(provisioned or 0)
    warm = (described.get("WarmThroughput") or {}).get("ReadUnitsPerSecond")
    most = (described.get("OnDemandThroughput") or {}).get("MaxReadRequestUnits")
    found = int(warm or NEW_TABLE_READS)
    return min(found, int(most)) if most and int(most) > 0 else found


def capacity_of(
    *,
    on_demand: bool,
    provisioned: int | None,
    warm: int | None,
    maximum: int | None,
    what: str = "the table",
) -> WriteCapacity:
    """Determine the write capacity of a table or an index from its settings."""
    if not on_demand:
        return WriteCapacity(float(provisioned or 0), f"provisioned for {what}")
    if warm is not None:
        found = WriteCapacity(float(warm), f"warm throughput of {what}")
    else:
        found = WriteCapacity(float(NEW_TABLE_RATE), "assumed, as for a new on-demand table")
    if maximum is not None and maximum < found.units:
        return WriteCapacity(float(maximum), f"on-demand maximum of {what}")
    return found


def write_capacity(described: Mapping[str, Any]) -> WriteCapacity:
    """Determine a table's write capacity. `described`: the `Table` of DescribeTable."""
    return capacity_of(
        on_demand=is_on_demand(described),
        provisioned=provisioned_writes(described),
        warm=warm_writes(described),
        maximum=on_demand_maximum(described),
    )


def table_write_capacity(
    client: DynamoDBClient, name: str, *, retry_policy: RetryPolicy = DEFAULT_POLICY
) -> WriteCapacity:
    """Describe a table and determine its write capacity. Raises as `describe_table`."""
    _, described = describe_table_with_response(client, name, retry_policy=retry_policy)
    return write_capacity(described)


def write_price(
    described: Mapping[str, Any], region: str, *, given: float | None = None
) -> WritePrice:
    """Choose the price of a described table's write units, as `WritePrice.of`."""
    return WritePrice.of(
        region,
        on_demand=is_on_demand(described),
        infrequent=table_class_of(described) == STANDARD_IA,
        regions=1 + len(other_regions(described, region)),
        given=given,
    )


def choose_workers(
    capacity: float, max_wcu: float | None = None, concurrency: int | None = None
) -> int:
    """Choose the number of workers of `workers: auto`, before the chunks are counted.

    One worker for each 1,000 write units a second that the run may use: the table's capacity or
    the lower `max_wcu`. Never more than `concurrency`, the functions that may run at once.
    """
    units = capacity if max_wcu is None else min(capacity, max_wcu)
    wanted = max(1, math.ceil(units / UNITS_PER_WORKER))
    return wanted if concurrency is None else max(1, min(wanted, concurrency))
