"""Read a table's settings, and derive the limits of the write speed.

Only DescribeTable is required. A setting that cannot be read, because a permission is missing or an
emulator lacks the call, is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ddbload.aws import table_description
from ddbload.aws.retry import call_if_possible
from ddbload.aws.table_description import WriteTraffic
from ddbload.context import Context
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_KEY_BYTES, PARTITION_WRITE_UNITS
from ddbload.errors import TableNotFound
from ddbload.planning.key_counts import HeavyHitters
from ddbload.planning.survey import Survey, TableIndex
from ddbload.records import Record

CPU_SECONDS = 5
"""CPU seconds per million narrow rows, measured by `make bench`."""


class TableFacts(Record):
    """Settings of a table; None means unknown."""

    table: Table
    """Table; its id is empty if the table does not exist yet."""
    described: Mapping[str, Any]
    """The `Table` of DescribeTable."""
    region: str
    indexes: tuple[TableIndex, ...] = ()
    recovery: bool | None = None
    """True if point-in-time recovery is on."""
    time_to_live: str | None = None
    """Name of the time-to-live attribute; None if there is none or it is unknown."""
    unknown: tuple[str, ...] = ()
    """Names of the settings that could not be read: `recovery`, `time_to_live`."""
    traffic: WriteTraffic | None = None
    """Write units consumed in the last hour; None if unknown or zero."""

    @property
    def on_demand(self) -> bool:
        """True if the table's billing mode is on-demand."""
        return table_description.is_on_demand(self.described)

    @property
    def infrequent(self) -> bool:
        """True if the table class is Standard-IA."""
        return table_description.table_class_of(self.described) == table_description.STANDARD_IA

    @property
    def replicas(self) -> tuple[str, ...]:
        """Other regions of a global table."""
        return table_description.other_regions(self.described, self.region)

    def to_json(self) -> dict[str, Any]:
        """Return the `table` object of a plan."""
        described, on_demand = self.described, self.on_demand
        keys = zip(self.table.keys, ("partition", "sort"), strict=False)
        stream = described.get("StreamSpecification") or {}
        provisioned = table_description.provisioned_writes(described)
        return {
            "name": self.table.name,
            "region": self.region,
            "keys": [{"name": key.name, "type": key.type, "role": role} for key, role in keys],
            "billing": "on-demand" if on_demand else "provisioned",
            "write_capacity": None if on_demand else provisioned,
            "warm_writes": table_description.warm_writes(described),
            "most_writes": table_description.on_demand_maximum(described) if on_demand else None,
            "class": table_description.table_class_of(described),
            "items": described.get("ItemCount"),
            "bytes": described.get("TableSizeBytes"),
            "indexes": [
                {
                    "name": each.name,
                    "global": each.is_global,
                    "keys": list(each.keys),
                    "projection": each.projection,
                }
                for each in self.indexes
            ],
            "vector_indexes": [each["IndexName"] for each in described.get("VectorIndexes") or ()],
            "stream": stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
            "replicas": list(self.replicas),
            "deletion_protection": bool(described.get("DeletionProtectionEnabled")),
            "recovery": self.recovery,
            "time_to_live": self.time_to_live,
            "unknown": list(self.unknown),
        }


def read_table(context: Context, name: str, new_keys: Sequence[tuple[str, str]] = ()) -> TableFacts:
    """Describe a table and read its other settings, which stay unknown if they cannot be read.

    With `new_keys` (names and types of keys), a missing table is planned as a new on-demand one.
    Raises `TableNotFound` and other errors of DescribeTable.
    """
    client = context.clients.dynamodb
    region = client.meta.region_name
    try:
        table, described = table_description.describe_table_with_response(
            client,
            name,
            retry_policy=context.retry_policy,
            suggest=context.access.paths and not new_keys,
        )
    except TableNotFound:
        if not new_keys:
            raise
        keys = tuple(
            KeyAttribute(key, kind, MAX_KEY_BYTES[role])
            for (key, kind), role in zip(new_keys, ("HASH", "RANGE"), strict=False)
        )
        billing = {"BillingMode": "PAY_PER_REQUEST"}
        described = {"BillingModeSummary": billing, "ItemCount": 0, "TableSizeBytes": 0}
        return TableFacts(Table(name=name, id="", keys=keys), described, region)

    def time_to_live() -> tuple[str | None]:
        answer: Any = client.describe_time_to_live(TableName=name)
        described = answer["TimeToLiveDescription"]
        is_on = described.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
        return (described.get("AttributeName") if is_on else None,)

    recovery = table_description.recovery_if_known(client, name)
    expires = call_if_possible(time_to_live, "reading time to live")
    unknown = {"recovery": recovery, "time_to_live": expires}
    return TableFacts(
        table,
        described,
        region,
        table_indexes(table, described),
        recovery=recovery,
        time_to_live=None if expires is None else expires[0],
        unknown=tuple(setting for setting, found in unknown.items() if found is None),
        traffic=table_description.recent_traffic(context.clients, name, context.now()),
    )


def table_indexes(table: Table, described: Mapping[str, Any]) -> tuple[TableIndex, ...]:
    """List the table's secondary indexes, global ones first."""

    def names(index: Mapping[str, Any], kind: str) -> tuple[str, ...]:
        schema = index["KeySchema"]
        return tuple(str(each["AttributeName"]) for each in schema if each["KeyType"] == kind)

    keys = [key.name for key in table.keys]
    found: list[TableIndex] = []
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        for index in described.get(kind) or ():
            parts, sort = names(index, "HASH"), names(index, "RANGE")
            projection = index.get("Projection", {})
            held = projection.get("ProjectionType", "ALL")
            more = projection.get("NonKeyAttributes") or () if held == "INCLUDE" else ()
            found.append(
                TableIndex(
                    name=str(index["IndexName"]),
                    is_global=kind.startswith("Global"),
                    partition=parts,
                    sort=sort,
                    projection=held,
                    projected=None if held == "ALL" else frozenset([*keys, *parts, *sort, *more]),
                    described=index,
                )
            )
    return tuple(found)


class Limit(Record):
    """Limit of the write speed, such as the table's capacity or a hot partition."""

    what: str
    units: float
    """Write units that are subject to this limit."""
    per_second: float
    how: str
    """Explanation of the rate, for the plan."""
    hot: HeavyHitters | None = None
    """Counter of partition keys, if the limit is that of the most frequent one."""

    @property
    def seconds(self) -> float:
        """Seconds to write the units if this were the only limit."""
        return self.units / self.per_second if self.per_second else math.inf

    @property
    def is_capacity(self) -> bool:
        """True if more capacity would raise the limit."""
        return self.what == "table" or self.what.startswith("index ")

    def to_json(self) -> dict[str, Any]:
        """Return an entry of a plan's `time.limits`."""
        return {
            "what": self.what,
            "units": round(self.units),
            "units_per_second": round(self.per_second, 1),
            "seconds": json_seconds(self.seconds),
            "how": self.how,
        }


def rank_limits(
    facts: TableFacts,
    survey: Survey,
    scale: float = 1.0,
    *,
    max_wcu: float | None = None,
    workers: int = 1,
) -> list[Limit]:
    """List all limits of the write speed, the slowest first.

    Args:
        facts: Settings of the table.
        survey: Statistics of the rows read.
        scale: Number of all rows divided by the number of rows read.
        max_wcu: The run's limit, in write units per second.
        workers: Number of workers.
    """
    own = survey.sizes.units + survey.deletions
    own += sum(each.sizes.units for each in survey.indexes if not each.index.is_global)
    writers = [("table", "the table", facts.described, own, survey.hot)]
    for index in survey.indexes:
        if index.index.is_global:
            name, described = index.index.name, index.index.described
            writers.append((f"index {name}", "the index", described, index.sizes.units, index.hot))
    limits, hot_limits, total = [], [], 0
    for name, what, described, found, hot in writers:
        capacity = table_description.write_capacity(described, what, on_demand=facts.on_demand)
        units, share = round(found * scale), hot.hot_share
        total += units
        limits.append(Limit(name, units, capacity.units, capacity.how))
        if share * units > PARTITION_WRITE_UNITS:
            hot_name = f"one partition key of {'the table' if name == 'table' else name}"
            how = "the maximum of any partition key"
            hot_limits.append(Limit(hot_name, share * units, PARTITION_WRITE_UNITS, how, hot))
    limits += hot_limits
    if max_wcu is not None:
        limits.append(Limit("max_wcu", total, max_wcu, "set by --max-wcu"))
    rows = round((survey.sizes.count + survey.deletions) * scale)
    rate = 1e6 / CPU_SECONDS * workers * (total / rows if rows else 1.0)
    how = f"{workers} workers, {CPU_SECONDS} s of CPU per million rows"
    limits.append(Limit("processors", total, max(1.0, rate), how))
    return sorted(limits, key=lambda limit: -limit.seconds)


def json_seconds(seconds: float) -> float | None:
    """Round seconds; None for infinity, which JSON cannot represent."""
    return round(seconds, 1) if math.isfinite(seconds) else None
