"""How long writing takes at a table's present capacity, and how to give it more first."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.pipeline.reading.measure import TableIndex
from ddbload.plan import price
from ddbload.plan.table_facts import TableFacts

NEW_TABLE = 4000
"""Write units a second that an on-demand table takes from its first second on."""
QUOTA = 40_000
"""Write units a second that an account's tables may have each, unless the quota was raised."""
PARTITION = 1000
"""Write units a second of one partition key value."""
LONG_SECONDS = 300.0
"""A shorter import needs no other capacity."""
GOAL_SECONDS = 300.0
"""How long it is to take with more."""


HOT_TABLE = "one partition key of the table"


def hot_index(index: TableIndex) -> str:
    """The name of the limit that an index's hottest partition key is."""
    return f"one partition key of index {index.name}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that holds writing up."""

    what: str
    units: float
    """Of write units, that have to go through it."""
    per_second: float
    how: str
    """Where the rate is from."""

    @property
    def seconds(self) -> float:
        """How long that takes by itself."""
        return self.units / self.per_second if self.per_second else math.inf

    def to_json(self) -> dict[str, Any]:
        """An entry of a plan's `time.limits`."""
        return {
            "what": self.what,
            "units": round(self.units),
            "units_per_second": round(self.per_second, 1),
            "seconds": _json_seconds(self.seconds),
            "how": self.how,
        }


def of_capacity(limits: Sequence[Limit]) -> Limit | None:
    """The slowest of those that more capacity would mend; None where there are none."""
    return next(
        (each for each in limits if each.what == "table" or each.what.startswith("index ")), None
    )


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be written."""

    rows: int
    table_units: int
    """The table's own, those of its local indexes included."""
    index_units: tuple[tuple[TableIndex, int], ...]
    """Of each global index."""
    hot: tuple[tuple[str, float], ...] = ()
    """Where one partition key takes more than its share: what of, and its write units."""

    @property
    def units(self) -> int:
        """All together, in one region."""
        return self.table_units + sum(units for _, units in self.index_units)


@dataclass(frozen=True, slots=True)
class Prewarm:
    """More capacity before the import."""

    write_units: int
    command: str
    dollars: float
    dollars_how: str
    seconds: float
    """How long the import takes then."""
    back: str | None = None
    """The command that takes it back."""

    def to_json(self) -> dict[str, Any]:
        """A plan's `time.prewarm`."""
        return {
            "write_units_per_second": self.write_units,
            "command": self.command,
            "dollars": round(self.dollars, 2),
            "how": self.dollars_how,
            "seconds": _json_seconds(self.seconds),
            "command_afterwards": self.back,
        }


def limits_of(
    facts: TableFacts, load: Load, *, max_wcu: float | None = None, workers: int = 1
) -> list[Limit]:
    """All that holds writing up, the slowest first."""
    rate, how = _rate(
        facts, facts.write_capacity, facts.warm_writes, facts.most_writes, "the table"
    )
    limits = [Limit("table", load.table_units, rate, how)]
    for index, units in load.index_units:
        rate, how = _rate(
            facts, index.write_capacity, index.warm_writes, index.most_writes, "the index"
        )
        limits.append(Limit(f"index {index.name}", units, rate, how))
    limits += [
        Limit(what, units, PARTITION, "what any partition key takes")
        for what, units in load.hot
        if units > PARTITION
    ]
    if max_wcu is not None:
        limits.append(Limit("max_wcu", load.units, max_wcu, "the limit that was asked for"))
    rows_a_second = 1e6 / price.CPU_SECONDS * workers
    units_a_row = load.units / load.rows if load.rows else 1.0
    limits.append(
        Limit(
            "processors",
            load.units,
            max(1.0, rows_a_second * units_a_row),
            f"{workers} of them, {price.CPU_SECONDS} s for a million rows",
        )
    )
    return sorted(limits, key=lambda limit: -limit.seconds)


def _rate(
    facts: TableFacts, provisioned: int | None, warm: int | None, most: int | None, what: str
) -> tuple[float, str]:
    if not facts.on_demand:
        return float(provisioned or 0), f"what {what} has provisioned"
    rate, how = (
        (float(warm), f"what {what} is warm for")
        if warm is not None
        else (float(NEW_TABLE), "assumed: what a new on-demand table takes")
    )
    if most is not None and most < rate:
        return float(most), f"the limit that {what} is set to"
    return rate, how


def prewarm(facts: TableFacts, load: Load, limits: Sequence[Limit]) -> Prewarm | None:
    """How to make a long import shorter; None where that is not worth it, or not possible."""
    if not limits or limits[0].seconds <= LONG_SECONDS:
        return None
    if limits[0].what != "table" and not limits[0].what.startswith("index "):
        return None
    largest = max([load.table_units, *(units for _, units in load.index_units)])
    step = 1000 if facts.on_demand else 100
    wanted = min(QUOTA, -(-math.ceil(largest / GOAL_SECONDS) // step) * step)
    made = _warm(facts, load, wanted) if facts.on_demand else _provision(facts, load, wanted)
    if made is None:
        return None
    others = [
        limit for limit in limits if limit.what != "table" and not limit.what.startswith("index ")
    ]
    seconds = max([largest / wanted, *(limit.seconds for limit in others)])
    if seconds > 0.8 * limits[0].seconds:
        return None
    return Prewarm(wanted, made[0], made[1], made[2], seconds, made[3])


Made = tuple[str, float, str, str | None]


def _warm(facts: TableFacts, load: Load, wanted: int) -> Made | None:
    if facts.most_writes is not None and facts.most_writes < wanted:
        return None
    table_now = facts.warm_writes or NEW_TABLE
    more = max(0, wanted - table_now)
    updates = []
    for index, units in load.index_units:
        now = index.warm_writes or NEW_TABLE
        if units and now < wanted:
            more += wanted - now
            warm = {"WriteUnitsPerSecond": wanted}
            updates.append({"Update": {"IndexName": index.name, "WarmThroughput": warm}})
    command = [*_update(facts)]
    if wanted > table_now:
        command += ["--warm-throughput", f"WriteUnitsPerSecond={wanted}"]
    if updates:
        command += ["--global-secondary-index-updates", json.dumps(updates)]
    regions = len(facts.replicas) + 1
    times = f" x {regions} regions" if regions > 1 else ""
    how = (
        f"{more:,} write units more{times} x ${price.WARM_UNIT:.5f}, once; it cannot be taken back"
    )
    return shlex.join(command), more * regions * price.WARM_UNIT, how, None


def _provision(facts: TableFacts, load: Load, wanted: int) -> Made | None:
    now = facts.write_capacity or 0
    reads = facts.read_capacity or 1
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    more = max(0, wanted - now)
    for index, units in load.index_units:
        has = index.write_capacity or 0
        if units and has < wanted:
            more += wanted - has
            for updates, writes in ((before, wanted), (after, max(1, has))):
                given = {
                    "ReadCapacityUnits": index.read_capacity or 1,
                    "WriteCapacityUnits": writes,
                }
                updates.append(
                    {"Update": {"IndexName": index.name, "ProvisionedThroughput": given}}
                )
    command, back = [*_update(facts)], [*_update(facts)]
    if wanted > now:
        command += _throughput(reads, wanted)
        back += _throughput(reads, max(1, now))
    if before:
        command += ["--global-secondary-index-updates", json.dumps(before)]
        back += ["--global-secondary-index-updates", json.dumps(after)]
    regions = len(facts.replicas) + 1
    hour = price.CAPACITY_HOUR_IA if facts.infrequent else price.CAPACITY_HOUR
    times = f" x {regions} regions" if regions > 1 else ""
    how = f"{more:,} write capacity units more{times} x ${hour:.5f} for each hour that it stays"
    return shlex.join(command), more * regions * hour, how, shlex.join(back)


def _update(facts: TableFacts) -> list[str]:
    return ["aws", "dynamodb", "update-table", "--table-name", facts.table.name]


def _throughput(reads: int, writes: int) -> list[str]:
    return [
        "--provisioned-throughput",
        f"ReadCapacityUnits={reads},WriteCapacityUnits={writes}",
    ]


def _json_seconds(seconds: float) -> float | None:
    return round(seconds, 1) if math.isfinite(seconds) else None
