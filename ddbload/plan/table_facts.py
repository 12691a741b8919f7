"""Read a table's settings that matter for an import: capacity, indexes, streams, backups.

Only DescribeTable is required. A setting that cannot be read, because a permission is missing or an
emulator lacks the call, is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible
from ddbload.aws.table_description import (
    STANDARD_IA,
    WriteCapacity,
    WriteTraffic,
    capacity_of,
    is_on_demand,
    on_demand_maximum,
    other_regions,
    provisioned_writes,
    recovery_if_known,
    table_class_of,
    warm_writes,
)
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_KEY_BYTES
from ddbload.reading.measure import TableIndex

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Settings of a table; None means unknown."""

    table: Table
    region: str
    on_demand: bool
    write_capacity: int | None
    """Provisioned write units a second."""
    warm_writes: int | None
    """Warm throughput: write units a second that it accepts at once."""
    most_writes: int | None
    """Maximum write units a second of an on-demand table."""
    table_class: str
    items: int | None
    """Number of items; DynamoDB updates it every six hours."""
    bytes: int | None
    indexes: tuple[TableIndex, ...]
    stream: str | None
    """View type of its stream; None without a stream."""
    replicas: tuple[str, ...]
    """Other regions of a global table."""
    deletion_protection: bool
    recovery: bool | None
    """True if point-in-time recovery is on."""
    time_to_live: str | None
    """Attribute that items expire by; None without one, or if unknown."""
    unknown: tuple[str, ...] = ()
    """Settings that could not be read: `recovery`, `time_to_live`."""
    vector_indexes: tuple[str, ...] = ()
    traffic: WriteTraffic | None = None
    """Write units of the last hour; None if unknown or nothing."""

    @property
    def capacity(self) -> WriteCapacity:
        """Write units a second that the table accepts at once."""
        return capacity_of(
            on_demand=self.on_demand,
            provisioned=self.write_capacity,
            warm=self.warm_writes,
            maximum=self.most_writes,
        )

    @property
    def infrequent(self) -> bool:
        """True if its table class is Standard-IA."""
        return self.table_class == STANDARD_IA

    def to_json(self) -> dict[str, Any]:
        """Return a plan's `table`."""
        keys = zip(self.table.keys, ("partition", "sort"), strict=False)
        return {
            "name": self.table.name,
            "region": self.region,
            "keys": [{"name": key.name, "type": key.type, "role": role} for key, role in keys],
            "billing": "on-demand" if self.on_demand else "provisioned",
            "write_capacity": self.write_capacity,
            "warm_writes": self.warm_writes,
            "most_writes": self.most_writes,
            "class": self.table_class,
            "items": self.items,
            "bytes": self.bytes,
            "indexes": [
                {
                    "name": index.name,
                    "global": index.is_global,
                    "keys": list(index.keys),
                    "projection": index.projection,
                    "write_capacity": index.write_capacity,
                    "warm_writes": index.warm_writes,
                }
                for index in self.indexes
            ],
            "vector_indexes": list(self.vector_indexes),
            "stream": self.stream,
            "replicas": list(self.replicas),
            "deletion_protection": self.deletion_protection,
            "recovery": self.recovery,
            "time_to_live": self.time_to_live,
            "unknown": list(self.unknown),
        }


def new_table(name: str, keys: Sequence[tuple[str, str]]) -> tuple[Table, Mapping[str, Any]]:
    """Return a new on-demand table with keys of these names and types, and its description."""
    attributes = tuple(
        KeyAttribute(key, kind, MAX_KEY_BYTES[role])
        for (key, kind), role in zip(keys, ("HASH", "RANGE"), strict=False)
    )
    described = {
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "ItemCount": 0,
        "TableSizeBytes": 0,
    }
    return Table(name=name, id="", keys=attributes), described


def table_facts(table: Table, described: Mapping[str, Any], region: str) -> TableFacts:
    """Extract the settings from `described`, the `Table` of a DescribeTable response."""
    on_demand = is_on_demand(described)
    stream = described.get("StreamSpecification") or {}
    return TableFacts(
        table=table,
        region=region,
        on_demand=on_demand,
        write_capacity=None if on_demand else provisioned_writes(described),
        warm_writes=warm_writes(described),
        most_writes=on_demand_maximum(described) if on_demand else None,
        table_class=table_class_of(described),
        items=described.get("ItemCount"),
        bytes=described.get("TableSizeBytes"),
        indexes=table_indexes(table, described, on_demand=on_demand),
        stream=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
        replicas=other_regions(described, region),
        deletion_protection=bool(described.get("DeletionProtectionEnabled")),
        recovery=None,
        time_to_live=None,
        unknown=("recovery", "time_to_live"),
        vector_indexes=tuple(
            str(each["IndexName"]) for each in described.get("VectorIndexes") or ()
        ),
    )


def with_other_settings(facts: TableFacts, client: DynamoDBClient) -> TableFacts:
    """Add the settings that DescribeTable does not return; errors leave them unknown."""

    def time_to_live() -> tuple[str | None]:
        answer: Any = client.describe_time_to_live(TableName=facts.table.name)
        described = answer["TimeToLiveDescription"]
        is_on = described.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
        return (described.get("AttributeName") if is_on else None,)

    recovery = recovery_if_known(client, facts.table.name)
    expires = call_if_possible(time_to_live, "reading time to live")
    unknown = {"recovery": recovery, "time_to_live": expires}
    return replace(
        facts,
        recovery=recovery,
        time_to_live=None if expires is None else expires[0],
        unknown=tuple(name for name, found in unknown.items() if found is None),
    )


def table_indexes(
    table: Table, described: Mapping[str, Any], *, on_demand: bool
) -> tuple[TableIndex, ...]:
    """List the table's secondary indexes, global ones first."""
    keys = [key.name for key in table.keys]
    found: list[TableIndex] = []
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        for index in described.get(kind) or ():
            is_global = kind.startswith("Global")
            parts = _names(index["KeySchema"], "HASH")
            sort = _names(index["KeySchema"], "RANGE")
            projection = index.get("Projection", {})
            held = projection.get("ProjectionType", "ALL")
            more = projection.get("NonKeyAttributes") or () if held == "INCLUDE" else ()
            own = is_global and not on_demand
            found.append(
                TableIndex(
                    name=str(index["IndexName"]),
                    is_global=is_global,
                    partition=parts,
                    sort=sort,
                    projection=held,
                    projected=None if held == "ALL" else frozenset([*keys, *parts, *sort, *more]),
                    write_capacity=provisioned_writes(index) if own else None,
                    warm_writes=warm_writes(index) if is_global else None,
                    most_writes=on_demand_maximum(index) if is_global and on_demand else None,
                )
            )
    return tuple(found)


def _names(schema: Any, kind: str) -> tuple[str, ...]:
    return tuple(str(each["AttributeName"]) for each in schema if each["KeyType"] == kind)
