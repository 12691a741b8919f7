"""Estimate the time of an import from a table's capacity, and suggest more capacity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ddbload.aws.table_description import NEW_TABLE_RATE, TABLE_QUOTA, capacity_of
from ddbload.dynamodb.limits import PARTITION_WRITE_UNITS
from ddbload.plan import price
from ddbload.plan.table_facts import TableFacts
from ddbload.plan.warm_up import WarmUp
from ddbload.reading.measure import TableIndex

LONG_SECONDS = 300.0
"""Seconds up to which an import needs no more capacity."""
GOAL_SECONDS = 300.0
"""Seconds that an import should take with more capacity."""

HOT_TABLE = "one partition key of the table"


def hot_index_limit(index: TableIndex) -> str:
    """Name the limit of an index's hottest partition key."""
    return f"one partition key of index {index.name}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of the write speed."""

    what: str
    units: float
    """Write units that it limits."""
    per_second: float
    how: str
    """Origin of the rate, for the plan."""

    @property
    def seconds(self) -> float:
        """Seconds that the write units take under this limit alone."""
        return self.units / self.per_second if self.per_second else math.inf

    @property
    def is_capacity(self) -> bool:
        """True if more capacity would raise the limit."""
        return self.what == "table" or self.what.startswith("index ")

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a plan's `time.limits`."""
        return {
            "what": self.what,
            "units": round(self.units),
            "units_per_second": round(self.per_second, 1),
            "seconds": json_seconds(self.seconds),
            "how": self.how,
        }


def slowest_capacity_limit(limits: Sequence[Limit]) -> Limit | None:
    """Return the slowest limit that more capacity would raise, if any."""
    return next((each for each in limits if each.is_capacity), None)


@dataclass(frozen=True, slots=True)
class Load:
    """Write units of an import."""

    rows: int
    table_units: int
    """Write units of the table, including its local indexes."""
    index_units: tuple[tuple[TableIndex, int], ...]
    """Write units of each global index."""
    hot: tuple[tuple[str, float], ...] = ()
    """Limits by hot partition keys: name and write units of each."""

    @property
    def units(self) -> int:
        """Total write units in one region."""
        return self.table_units + sum(units for _, units in self.index_units)


@dataclass(frozen=True, slots=True)
class Prewarm:
    """Suggestion to raise the capacity before the import."""

    write_units_per_second: int
    command: str
    dollars: float
    how: str
    """Calculation of the dollars."""
    seconds: float
    """Seconds that the import takes with it."""

    def to_json(self) -> dict[str, Any]:
        """Return a plan's `time.prewarm`."""
        seconds, dollars = json_seconds(self.seconds), round(self.dollars, 2)
        return {**asdict(self), "seconds": seconds, "dollars": dollars}


def rank_limits(
    facts: TableFacts, load: Load, *, max_wcu: float | None = None, workers: int = 1
) -> list[Limit]:
    """List all limits of the write speed, the slowest first."""
    capacity = facts.capacity
    limits = [Limit("table", load.table_units, capacity.units, capacity.how)]
    for index, units in load.index_units:
        capacity = capacity_of(
            on_demand=facts.on_demand,
            provisioned=index.write_capacity,
            warm=index.warm_writes,
            maximum=index.most_writes,
            what="the index",
        )
        limits.append(Limit(f"index {index.name}", units, capacity.units, capacity.how))
    limits += [
        Limit(what, units, PARTITION_WRITE_UNITS, "the maximum of any partition key")
        for what, units in load.hot
        if units > PARTITION_WRITE_UNITS
    ]
    if max_wcu is not None:
        limits.append(Limit("max_wcu", load.units, max_wcu, "set by --max-wcu"))
    rows_a_second = 1e6 / price.CPU_SECONDS * workers
    units_a_row = load.units / load.rows if load.rows else 1.0
    limits.append(
        Limit(
            "processors",
            load.units,
            max(1.0, rows_a_second * units_a_row),
            f"{workers} workers, {price.CPU_SECONDS} s of CPU per million rows",
        )
    )
    return sorted(limits, key=lambda limit: -limit.seconds)


def suggest_prewarm(facts: TableFacts, load: Load, limits: Sequence[Limit]) -> Prewarm | None:
    """Suggest more capacity for a long import; None if it would not help, or is not possible."""
    if not limits or limits[0].seconds <= LONG_SECONDS or not limits[0].is_capacity:
        return None
    # Provisioned capacity is for its owner to raise: the plan warns (`provisioned_low`).
    largest = max([load.table_units, *(units for _, units in load.index_units)])
    wanted = min(TABLE_QUOTA, -(-math.ceil(largest / GOAL_SECONDS) // 1000) * 1000)
    if not facts.on_demand or (facts.most_writes is not None and facts.most_writes < wanted):
        return None
    change = warm_up_of(facts, [index for index, units in load.index_units if units], wanted)
    others = [limit.seconds for limit in limits if not limit.is_capacity]
    seconds = max([largest / wanted, *others])
    if seconds > 0.8 * limits[0].seconds:
        return None
    return Prewarm(wanted, change.command, change.dollars, change.how, seconds)


def warm_up_of(facts: TableFacts, indexes: Sequence[TableIndex], wanted: int) -> WarmUp:
    """Make the change of warm throughput for a table and some of its global indexes."""
    now = {index.name: index.warm_writes or NEW_TABLE_RATE for index in indexes}
    return WarmUp(
        facts.table.name,
        wanted,
        facts.warm_writes or NEW_TABLE_RATE,
        {name: units for name, units in now.items() if units < wanted},
        len(facts.replicas) + 1,
    )


def json_seconds(seconds: float) -> float | None:
    """Round seconds; None for infinity, which JSON lacks."""
    return round(seconds, 1) if math.isfinite(seconds) else None
