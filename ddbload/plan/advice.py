"""What somebody should know before an import begins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import DELETE, PUT
from ddbload.plan import hot_partitions, price
from ddbload.plan.capacity import HOT_TABLE, LONG_SECONDS, Limit, hot_index, of_capacity
from ddbload.plan.survey import Survey
from ddbload.plan.table_facts import TableFacts

TOGETHER = 0.5
COLLECTION_BYTES = 10 * 1024**3
"""Of all items of one partition key, where there is a local index."""
MILLISECONDS = 1e11
"""No time in seconds is as late as this for the next 3,000 years."""
_PERMISSIONS = {
    "recovery": "dynamodb:DescribeContinuousBackups",
    "time_to_live": "dynamodb:DescribeTimeToLive",
}


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """A warning."""

    code: str
    """For programs: docs/plan.md lists them."""
    message: str

    def to_json(self) -> dict[str, Any]:
        """An entry of a plan's `warnings`."""
        return {"code": self.code, "message": self.message}


def warnings_of(
    record: RunRecord, facts: TableFacts, survey: Survey, limits: Sequence[Limit], now: float
) -> list[PlanWarning]:
    """All of them, the gravest first."""
    return [
        *_table(record, facts, survey),
        *_capacity(facts, limits),
        *_keys(record, survey, limits),
        *_indexes(record, survey, limits),
        *_time_to_live(record, facts, survey, now),
        *_unknown(facts),
    ]


def _table(record: RunRecord, facts: TableFacts, survey: Survey) -> Iterator[PlanWarning]:
    name, mode = facts.table.name, record.payload.options.mode
    if facts.recovery is False:
        gigabytes = (facts.bytes or 0) / 1e9
        yield PlanWarning(
            "recovery_off",
            "point-in-time recovery is off, so nothing brings the table back as it is now. To"
            f" turn it on: aws dynamodb update-continuous-backups --table-name {name}"
            " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true"
            f" (${price.RECOVERY_GB_MONTH:.2f} a GB and month; the table has {gigabytes:,.1f} GB)",
        )
    if facts.items and mode in (PUT, DELETE):
        what = "deletes" if mode == DELETE else "replaces"
        yield PlanWarning(
            "table_not_empty",
            f"the table has about {facts.items:,} items (DynamoDB counts every six hours), and a"
            f" row {what} the item of the same key; what that costs depends on both",
        )
    if facts.stream is not None:
        yield PlanWarning(
            "stream_on",
            f"the table has a stream ({facts.stream}): whatever reads it, such as a function,"
            f" gets {survey.sizes.count:,} changes as fast as they are written",
        )
    if facts.replicas:
        yield PlanWarning(
            "global_table",
            f"the table is replicated to {', '.join(facts.replicas)}: each write is billed there,"
            " too, and the price has it; their capacity must suffice as well",
        )
    if facts.region != price.REGION:
        yield PlanWarning(
            "other_region",
            f"the table is in {facts.region}, and the prices are those of {price.REGION}",
        )


def _capacity(facts: TableFacts, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    slowest = of_capacity(limits)
    if slowest is None or facts.on_demand or slowest.seconds <= LONG_SECONDS:
        return
    minutes = f"{slowest.seconds / 60:,.0f} minutes" if math.isfinite(slowest.seconds) else "ever"
    yield PlanWarning(
        "provisioned_low",
        f"{slowest.per_second:,.0f} write capacity units are provisioned for the {slowest.what}:"
        f" the import takes {minutes} of all of them, and leaves none for others; raise"
        " the capacity first, or hold the import back with --max-wcu",
    )


def _keys(record: RunRecord, survey: Survey, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    keys, table = survey.keys, record.table
    if keys.extra_rows and record.payload.options.mode == PUT:
        about = "" if keys.exact else "about "
        yield PlanWarning(
            "duplicate_keys",
            f"keys that come more than once: {about}{keys.repeated:,}, with"
            f" {about}{keys.extra_rows:,} rows too many. Of each one row stays, and not surely the"
            " last: --mode last-wins sees to that",
        )
    told = _hot(survey.hot, HOT_TABLE, limits)
    if told is not None and len(table.keys) > 1:
        yield PlanWarning(
            "hot_key",
            f"one partition key ({table.keys[0].name}) has {told:.0%} of the rows, and takes"
            " 1,000 write units a second at most",
        )
    if (
        survey.order.together > TOGETHER
        and survey.rows >= hot_partitions.FEW_ROWS
        and len(table.keys) > 1
    ):
        yield PlanWarning(
            "keys_together",
            f"rows of one partition key stand together ({survey.order.together:.0%} follow one of"
            " the same): at any time few partitions are written; shuffled rows load faster",
        )
    local = [each for each in survey.indexes if not each.index.is_global]
    hottest = survey.hottest
    if local and hottest and hottest.share * survey.sizes.bytes > COLLECTION_BYTES / 2:
        yield PlanWarning(
            "large_collection",
            "the table has a local index, so all items of one partition key together may have"
            " 10 GB, and the largest comes near that",
        )


def _indexes(record: RunRecord, survey: Survey, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    if record.payload.options.mode == DELETE:
        return
    known = survey.types.keys()
    for each in survey.indexes:
        name, missing = each.index.name, [key for key in each.index.keys if key not in known]
        if known and missing and not survey.members.more:
            yield PlanWarning(
                "index_without_column",
                f"index {name} gets none of the rows: there is no attribute {missing[0]!r}",
            )
            continue
        absent = survey.sizes.count - each.sizes.count
        if absent:
            yield PlanWarning(
                "index_lacks_rows",
                f"index {name} gets {each.sizes.count:,} of {survey.sizes.count:,} rows: the"
                " others lack a part of its key",
            )
        told = _hot(each.hot, hot_index(each.index), limits)
        if told is not None and each.index.is_global:
            partition = ", ".join(each.index.partition)
            yield PlanWarning(
                "hot_index_key",
                f"in index {name} one partition key ({partition}) has {told:.0%} of the rows: it"
                " takes 1,000 write units a second at most, and holds up writing the table",
            )


def _hot(keys: hot_partitions.HeavyHitters, what: str, limits: Sequence[Limit]) -> float | None:
    """The share of the hottest key, where that holds up more than capacity does."""
    hottest = keys.hottest()
    limit = next((each for each in limits if each.what == what), None)
    slowest = of_capacity(limits)
    if hottest is None or limit is None or (slowest and slowest.seconds >= limit.seconds):
        return None
    return hottest.share


def _time_to_live(
    record: RunRecord, facts: TableFacts, survey: Survey, now: float
) -> Iterator[PlanWarning]:
    name = facts.time_to_live
    if name is None or record.payload.options.mode == DELETE:
        return
    kind = survey.types.get(name)
    if kind is None:
        return
    if kind not in ("N", "epoch"):
        yield PlanWarning(
            "time_to_live_type",
            f"items expire by {name!r}, which must be a number of seconds, and is {kind} here: they"
            f" will not expire; declare its type ({name}=epoch reads dates and milliseconds, too)",
        )
        return
    low, high = survey.range_of(name)
    if kind == "N" and high >= MILLISECONDS:
        yield PlanWarning(
            "time_to_live_milliseconds",
            f"items expire by {name!r}, which looks like milliseconds: they will not expire for"
            f" thousands of years; declare {name}=epoch",
        )
    elif low < now:
        yield PlanWarning(
            "time_to_live_past",
            f"items expire by {name!r}, and some are in the past: DynamoDB deletes them soon after"
            " they are written",
        )
    else:
        yield PlanWarning("time_to_live_on", f"items expire by {name!r}")


def _unknown(facts: TableFacts) -> Iterator[PlanWarning]:
    for what in facts.unknown:
        yield PlanWarning(
            f"{what}_unknown",
            f"{'point-in-time recovery' if what == 'recovery' else 'time to live'}: on or off"
            f" could not be asked ({_PERMISSIONS[what]})",
        )
