"""Warnings of a plan: risks of an import that its user should know beforehand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from ddbload.aws.table_description import TABLE_QUOTA, turn_recovery_on
from ddbload.contracts.run_record import (
    LIST_PRICE_REGION,
    RECOVERY_GB_MONTH,
    RunRecord,
    amount_text,
)
from ddbload.errors import InvalidUsage
from ddbload.planning.capacity import Limit, TableFacts
from ddbload.planning.survey import Survey
from ddbload.planning.warm_up import plan_warm_up
from ddbload.records import Record

LONG_SECONDS = 300.0
"""Duration of an import, in seconds, above which a plan suggests more capacity."""
MILLISECONDS = 1e11
"""Smallest number taken for milliseconds; as seconds it would be 3,000 years away."""
_SECONDS = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]+)?")
"""Text of a point in time: seconds or milliseconds since the epoch."""
_UNKNOWN = {
    "recovery": "point-in-time recovery: unknown, because dynamodb:"
    "DescribeContinuousBackups failed",
    "time_to_live": "time to live: unknown, because dynamodb:DescribeTimeToLive failed",
}


class PlanWarning(Record):
    """Warning of a plan: a stable code, and a text for the user."""

    code: str
    """Stable name of the warning; docs/plan.md lists all of them."""
    message: str


def list_warnings(
    record: RunRecord,
    facts: TableFacts,
    survey: Survey,
    limits: Sequence[Limit],
    *,
    now: float,
    prewarm: int | None = None,
) -> Iterator[PlanWarning]:
    """List all warnings, the most serious first.

    Args:
        record: Record of the run.
        facts: Settings of the table.
        survey: Statistics of the source's rows.
        limits: Limits of the write speed, the slowest first.
        now: Seconds since the epoch.
        prewarm: Write units per second requested by `--prewarm`.
    """
    yield from _table(record, facts, survey)
    yield from _capacity(facts, limits, prewarm)
    yield from _keys(record, survey, limits)
    yield from _time_to_live(record, facts, survey, now)
    for each in facts.unknown:
        yield PlanWarning(f"{each}_unknown", _UNKNOWN[each])


def _table(record: RunRecord, facts: TableFacts, survey: Survey) -> Iterator[PlanWarning]:
    name, options, table = facts.table.name, record.payload.options, facts.to_json()
    items, size = table["items"] or 0, table["bytes"] or 0
    if facts.recovery is False:
        yield PlanWarning(
            "recovery_off",
            "point-in-time recovery is off, so the table's present state cannot be restored."
            f" {turn_recovery_on(name)}"
            f" (${RECOVERY_GB_MONTH:.2f} a GB and month; the table has {size / 1e9:,.1f} GB)",
        )
    if items and record.mode.effect:
        yield PlanWarning(
            "table_not_empty",
            f"the table has about {items:,} items of {size // items:,} bytes on average (DynamoDB"
            f" counts every six hours), and a row {record.mode.effect} the item with the same"
            " key; the price depends on the larger of both",
        )
    if table["stream"] is not None:
        yield PlanWarning(
            "stream_on",
            f"the table has a stream ({table['stream']}): its readers, such as a function, get"
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
    if facts.traffic is not None and options.max_wcu is None:
        yield PlanWarning("other_traffic", facts.traffic.warning(name))
    for index in table["vector_indexes"]:
        yield PlanWarning(
            "vector_index",
            f"writes to the vector index {index} are metered in bytes (VectorWriteRequestBytes),"
            " apart from write units: ddbload cannot price them, and units, dollars and max_cost"
            " leave them out",
        )


def _capacity(
    facts: TableFacts, limits: Sequence[Limit], prewarm: int | None
) -> Iterator[PlanWarning]:
    """Warn about a slow table, and price a higher warm throughput if requested or useful."""
    name, slowest = facts.table.name, next(each for each in limits if each.is_capacity)
    if slowest.seconds > LONG_SECONDS and not facts.on_demand:
        forever = not math.isfinite(slowest.seconds)
        yield PlanWarning(
            "provisioned_low",
            f"{slowest.per_second:,.0f} write capacity units are provisioned for the"
            f" {slowest.what}: the import uses all of them"
            f" {'forever' if forever else f'for {slowest.seconds / 60:,.0f} minutes'}, and leaves"
            " none for others; raise the capacity first, or limit the import with --max-wcu",
        )
    limited = facts.on_demand and limits[0] is slowest and slowest.seconds > LONG_SECONDS
    wanted = min(TABLE_QUOTA, -(-math.ceil(slowest.units / LONG_SECONDS) // 1000) * 1000)
    if prewarm is not None or (limited and wanted > 1.25 * slowest.per_second):
        try:
            change = plan_warm_up(name, facts.described, facts.region, prewarm or wanted)
            cost = f"would cost about {amount_text(change.dollars)}, which the price leaves out"
            yield PlanWarning("prewarm", f"--prewarm {change.wanted} {cost}: {change.how}")
        except InvalidUsage as error:
            if prewarm is not None:
                yield PlanWarning("prewarm", error.message)


def _keys(record: RunRecord, survey: Survey, limits: Sequence[Limit]) -> Iterator[PlanWarning]:
    keys, options = survey.keys.to_json(), record.payload.options
    about = "" if keys["exact"] else "about "
    in_order = record.mode.updates or options.condition is not None
    which = (
        "Rows of a key are written in the order of the file within a chunk, and in any order"
        " across chunks"
        if in_order
        else "One row of each key stays, and not necessarily the last one: --mode last-wins keeps"
        " the last"
    )
    if keys["extra_rows"] and (in_order or record.mode.replaces):
        yield PlanWarning(
            "duplicate_keys",
            f"keys with several rows: {about}{keys['repeated']:,} ({about}{keys['extra_rows']:,}"
            f" rows more than keys). {which}",
        )
    for limit in takewhile(lambda each: not each.is_capacity, limits):
        share = 0.0 if limit.hot is None else limit.hot.share
        index = limit.what.partition(" index ")[2]
        if index:
            yield PlanWarning(
                "hot_index_key",
                f"in index {index} one partition key has {share:.0%} of the rows: it accepts at"
                " most 1,000 write units a second, and slows writes to the table",
            )
        elif limit.hot is not None and len(record.table.keys) > 1:
            yield PlanWarning(
                "hot_key",
                f"one partition key ({record.table.keys[0].name}) has {share:.0%} of the rows, and"
                " accepts at most 1,000 write units a second",
            )
    mode = record.mode
    for each in () if mode.deletes or mode.updates else survey.indexes:
        if each.sizes.count < survey.sizes.count:
            yield PlanWarning(
                "index_lacks_rows",
                f"index {each.index.name} gets entries for {each.sizes.count:,} of"
                f" {survey.sizes.count:,} rows: the others lack an attribute of its key"
                f" ({', '.join(each.index.keys)})",
            )


def _time_to_live(
    record: RunRecord, facts: TableFacts, survey: Survey, now: float
) -> Iterator[PlanWarning]:
    """Warn about the time-to-live attribute, judged by its type and first values."""
    name = facts.time_to_live
    kind = None if name is None else survey.types.get(name)
    if name is None or kind is None or record.mode.deletes:
        return
    examples = survey.describe(name, kind).get("examples", ())
    value = next((float(each) for each in examples if _SECONDS.fullmatch(each)), now)
    code, why = "on", ""
    if kind.partition(":")[0] not in ("N", "epoch"):
        code = "type"
        why = (
            f", which must be a number of seconds, but is {kind} here, so they will not expire;"
            f" declare its type ({name}=epoch also reads dates and milliseconds)"
        )
    elif kind == "N" and value >= MILLISECONDS:
        code = "milliseconds"
        why = (
            ", which looks like milliseconds, so they will not expire for thousands of years;"
            f" declare {name}=epoch"
        )
    elif value < now:
        code, why = "past", ", and some have expired: DynamoDB deletes them after they are written"
    yield PlanWarning(f"time_to_live_{code}", f"items expire by {name!r}{why}")
