"""Warnings of a plan: risks of an import that its user should know in advance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddbload.aws.table_description import turn_recovery_on
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.write_price import LIST_PRICE_REGION, RECOVERY_GB_MONTH, amount_text
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.plan import hot_partitions
from ddbload.plan.capacity import (
    HOT_TABLE,
    LONG_SECONDS,
    Limit,
    hot_index_limit,
    slowest_capacity_limit,
    warm_up_of,
)
from ddbload.plan.survey import Survey
from ddbload.plan.table_facts import TableFacts

ADJACENT_SHARE = 0.5
"""Share of rows that follow one of the same partition key, above which a plan warns."""
COLLECTION_BYTES = 10 * 1024**3
"""DynamoDB's limit for all items of a partition key in a table with a local index."""
MILLISECONDS = 1e11
"""Smallest number taken for milliseconds; as seconds it is 3,000 years away."""
_PERMISSIONS = {
    "recovery": "dynamodb:DescribeContinuousBackups",
    "time_to_live": "dynamodb:DescribeTimeToLive",
}


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """Warning of a plan."""

    code: str
    """Stable name; docs/plan.md lists them all."""
    message: str


def list_warnings(
    record: RunRecord, facts: TableFacts, survey: Survey, limits: Sequence[Limit], now: float
) -> list[PlanWarning]:
    """List all warnings, the most serious first."""
    return [
        *_table(record, facts, survey),
        *_traffic(record, facts),
        *_capacity(facts, limits),
        *_keys(record, survey, limits),
        *_indexes(record, survey, limits),
        *_time_to_live(record, facts, survey, now),
        *_unknown(facts),
    ]


def _table(record: RunRecord, facts: TableFacts, survey: Survey) -> Iterator[PlanWarning]:
    name, mode = facts.table.name, record.mode
    if facts.recovery is False:
        gigabytes = (facts.bytes or 0) / 1e9
        yield PlanWarning(
            "recovery_off",
            "point-in-time recovery is off, so the table's present state cannot be restored."
            f" {turn_recovery_on(name)}"
            f" (${RECOVERY_GB_MONTH:.2f} a GB and month; the table has {gigabytes:,.1f} GB)",
        )
    if facts.items and mode.effect:
        yield PlanWarning(
            "table_not_empty",
            f"the table has about {facts.items:,} items (DynamoDB counts every six hours), and a"
            f" row {mode.effect} the item with the same key; the price depends on the larger of"
            " both",
        )
    if facts.items and facts.bytes and mode.updates:
        average = -(-facts.bytes // facts.items)
        units = -(-average // WRITE_UNIT_BYTES)
        yield PlanWarning(
            "update_of_items",
            f"the table has about {facts.items:,} items of {average:,} bytes on average (DynamoDB"
            " counts every six hours), and an update is billed by the whole item: expect about"
            f" {units:,} write units for each row whose item is there, and index entries besides",
        )
    if facts.stream is not None:
        yield PlanWarning(
            "stream_on",
            f"the table has a stream ({facts.stream}): its readers, such as a function, get"
            f" {survey.sizes.count:,} changes as fast as they are written",
        )
    if facts.replicas:
        yield PlanWarning(
            "global_table",
            f"the table is replicated to {', '.join(facts.replicas)}: each write is billed there"
            " as well, which the price includes; their capacity must suffice, too",
        )
    if facts.region != LIST_PRICE_REGION:
        yield PlanWarning(
            "other_region",
            f"the table is in {facts.region}, but prices are those of {LIST_PRICE_REGION}",
        )


def _traffic(record: RunRecord, facts: TableFacts) -> Iterator[PlanWarning]:
    if facts.traffic is not None and record.payload.options.max_wcu is None:
        yield PlanWarning("other_traffic", facts.traffic.warning(facts.table.name))
    for name in facts.vector_indexes:
        yield PlanWarning(
            "vector_index",
            f"writes to the vector index {name} are metered in bytes (VectorWriteRequestBytes),"
            " apart from write units: ddbload cannot price them, and units, dollars and max_cost"
            " leave them out",
        )


def prewarm_warning(facts: TableFacts, wanted: int) -> PlanWarning:
    """Price what `--prewarm` of an import would do to the table."""
    code, name = "prewarm", facts.table.name
    if not facts.on_demand:
        return PlanWarning(
            code, f"--prewarm {wanted} is for on-demand tables, and {name} is provisioned"
        )
    change = warm_up_of(facts, [each for each in facts.indexes if each.is_global], wanted)
    if not change.more:
        return PlanWarning(code, f"--prewarm {wanted}: table {name} is as warm already")
    return PlanWarning(
        code,
        f"--prewarm {wanted} would cost about {amount_text(change.dollars)}, which the price"
        f" leaves out: {change.how}",
    )


def _capacity(facts: TableFacts, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    slowest = slowest_capacity_limit(limits)
    if slowest is None or facts.on_demand or slowest.seconds <= LONG_SECONDS:
        return
    duration = (
        f"for {slowest.seconds / 60:,.0f} minutes" if math.isfinite(slowest.seconds) else "forever"
    )
    yield PlanWarning(
        "provisioned_low",
        f"{slowest.per_second:,.0f} write capacity units are provisioned for the {slowest.what}:"
        f" the import uses all of them {duration}, and leaves none for others; raise the"
        " capacity first, or limit the import with --max-wcu",
    )


def _keys(record: RunRecord, survey: Survey, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    keys, table = survey.keys, record.table
    mode = record.mode
    about = "" if keys.exact else "about "
    if keys.extra_rows and (mode.updates or record.payload.options.condition is not None):
        yield PlanWarning(
            "duplicate_keys",
            f"keys with several rows: {about}{keys.repeated:,} ({about}{keys.extra_rows:,} rows"
            " more than keys). Rows of a key are written in the order of the file within a chunk,"
            " and in any order across chunks",
        )
    elif keys.extra_rows and mode.replaces:
        yield PlanWarning(
            "duplicate_keys",
            f"keys with several rows: {about}{keys.repeated:,} ({about}{keys.extra_rows:,} rows"
            " more than keys). One row of each key stays, and not necessarily the last one:"
            " --mode last-wins keeps the last",
        )
    share = _limiting_share(survey.hot, HOT_TABLE, limits)
    if share is not None and len(table.keys) > 1:
        yield PlanWarning(
            "hot_key",
            f"one partition key ({table.keys[0].name}) has {share:.0%} of the rows, and"
            " accepts at most 1,000 write units a second",
        )
    if (
        survey.order.adjacent_share > ADJACENT_SHARE
        and survey.rows >= hot_partitions.FEW_ROWS
        and len(table.keys) > 1
    ):
        yield PlanWarning(
            "keys_together",
            f"rows of the same partition key are adjacent ({survey.order.adjacent_share:.0%} follow"
            " one of the same key), so few partitions are written at a time; shuffled rows load"
            " faster",
        )
    local = [each for each in survey.indexes if not each.index.is_global]
    hottest = survey.hottest
    if local and hottest and hottest.share * survey.sizes.bytes > COLLECTION_BYTES / 2:
        yield PlanWarning(
            "large_collection",
            "the table has a local index, which limits all items of a partition key to 10 GB in"
            " total, and the largest partition key comes close",
        )


def _indexes(record: RunRecord, survey: Survey, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    if record.mode.deletes:
        return
    known = survey.types.keys()
    # The item may have what an update lacks.
    updates = record.mode.updates
    for each in survey.indexes:
        name, missing = each.index.name, [key for key in each.index.keys if key not in known]
        if updates and missing:
            continue
        if known and missing and not survey.documents.truncated:
            yield PlanWarning(
                "index_without_column",
                f"index {name} gets no entries: the rows have no attribute {missing[0]!r}",
            )
            continue
        absent = survey.sizes.count - each.sizes.count
        if absent and not updates:
            yield PlanWarning(
                "index_lacks_rows",
                f"index {name} gets entries for {each.sizes.count:,} of {survey.sizes.count:,}"
                " rows: the others lack an attribute of its key",
            )
        share = _limiting_share(each.hot, hot_index_limit(each.index), limits)
        if share is not None and each.index.is_global:
            partition = ", ".join(each.index.partition)
            yield PlanWarning(
                "hot_index_key",
                f"in index {name} one partition key ({partition}) has {share:.0%} of the rows: it"
                " accepts at most 1,000 write units a second, and slows writes to the table",
            )


def _limiting_share(
    keys: hot_partitions.HeavyHitters, what: str, limits: Sequence[Limit]
) -> float | None:
    """Return the hottest key's share of the rows if it limits the speed more than capacity."""
    hottest = keys.hottest()
    limit = next((each for each in limits if each.what == what), None)
    slowest = slowest_capacity_limit(limits)
    if hottest is None or limit is None or (slowest and slowest.seconds >= limit.seconds):
        return None
    return hottest.share


def _time_to_live(
    record: RunRecord, facts: TableFacts, survey: Survey, now: float
) -> Iterator[PlanWarning]:
    name = facts.time_to_live
    if name is None or record.mode.deletes:
        return
    kind = survey.types.get(name)
    if kind is None:
        return
    if kind not in ("N", "epoch"):
        yield PlanWarning(
            "time_to_live_type",
            f"items expire by {name!r}, which must be a number of seconds, but is {kind} here, so"
            f" they will not expire; declare its type ({name}=epoch also reads dates and"
            " milliseconds)",
        )
        return
    low, high = survey.range_of(name)
    if kind == "N" and high >= MILLISECONDS:
        yield PlanWarning(
            "time_to_live_milliseconds",
            f"items expire by {name!r}, which looks like milliseconds, so they will not expire"
            f" for thousands of years; declare {name}=epoch",
        )
    elif low < now:
        yield PlanWarning(
            "time_to_live_past",
            f"items expire by {name!r}, and some have expired: DynamoDB deletes them soon after"
            " they are written",
        )
    else:
        yield PlanWarning("time_to_live_on", f"items expire by {name!r}")


def _unknown(facts: TableFacts) -> Iterator[PlanWarning]:
    for what in facts.unknown:
        yield PlanWarning(
            f"{what}_unknown",
            f"{'point-in-time recovery' if what == 'recovery' else 'time to live'}: unknown,"
            f" because {_PERMISSIONS[what]} failed",
        )
