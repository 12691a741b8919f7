"""Compute a plan's figures: keys, item sizes, write units, time, price and warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ddbload.contracts.list_prices import (
    LIST_PRICE_DATE,
    LIST_PRICE_REGION,
    S3_READ,
    STORED_GB_MONTH,
    STORED_GB_MONTH_IA,
)
from ddbload.contracts.options import EDGES, Options
from ddbload.contracts.row_counts import ALL_FILTERED, NO_ROWS
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import PARQUET
from ddbload.contracts.write_price import NOT_BILLED, WritePrice
from ddbload.dynamodb.write_modes import DELETE, UPDATE
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.plan import price
from ddbload.plan.advice import PlanWarning, list_warnings, prewarm_warning
from ddbload.plan.capacity import (
    HOT_TABLE,
    Load,
    Prewarm,
    hot_index_limit,
    rank_limits,
    suggest_prewarm,
)
from ddbload.plan.survey import Survey
from ddbload.plan.table_facts import TableFacts
from ddbload.source.s3_object import RANGE_BYTES

_LEAST_EXPANSION = 1.05
"""Bytes of rows for a stored byte, above which objects are taken for compressed ones."""


def figures(
    record: RunRecord,
    facts: TableFacts,
    survey: Survey,
    scale: float,
    *,
    complete: bool,
    first: int | None = None,
    now: float,
    prewarm: int | None = None,
    chunks: int = 1,
    uncut: str | None = None,
    notices: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the fields of a plan that need record, table and survey.

    Args:
        record: Record of the source.
        facts: The table.
        survey: Statistics of the rows read.
        scale: All rows divided by the rows read.
        complete: True if all rows were read.
        first: Rows that alone are planned for; None for all.
        now: Seconds since the epoch.
        prewarm: Write units a second of warm throughput to price.
        chunks: Estimate of the chunks.
        uncut: Reason why a compressed object is one chunk, if it should not be.
        notices: Warnings of those who read the source, with their codes.
    """
    load = _load(survey, scale)
    options = record.payload.options
    workers = min(record.most_workers or 1, max(1, chunks))
    limits = rank_limits(facts, load, max_wcu=options.max_wcu, workers=workers)
    seconds = limits[0].seconds if load.units else 0.0
    better = suggest_prewarm(facts, load, limits)
    preflight = preflight_work(record, chunks, survey, scale)
    warnings = list_warnings(record, facts, survey, limits, now)
    if prewarm is not None:
        warnings.append(prewarm_warning(facts, prewarm))
    if uncut is not None and survey.bytes * scale > 2 * record.chunk_bytes:
        warnings.append(PlanWarning("one_worker", f"one worker imports the source: {uncut}"))
    warnings += [PlanWarning(code, notice) for notice, code in (notices or {}).items()]
    if complete and not survey.rows:
        warnings.append(
            PlanWarning("all_filtered", ALL_FILTERED)
            if survey.filtered
            else PlanWarning("no_rows", NO_ROWS)
        )
    if first is not None:
        warnings.append(
            PlanWarning(
                "first",
                f"only the first {'row was' if first == 1 else f'{first:,} rows were'} read, and"
                f" the plan is for no more; --sample {first} estimates the rest",
            )
        )
    elif not complete:
        warnings.append(_sample_warning(scale))
    return {
        "keys": _keys(record, survey),
        "items": _items(survey, scale),
        "write_units": {
            "table": round((survey.sizes.units + survey.deletions) * scale),
            "indexes": [
                {
                    "name": each.index.name,
                    "rows": round(each.sizes.count * scale),
                    "units": round(each.sizes.units * scale),
                }
                for each in survey.indexes
            ],
            "total": load.units,
            "regions": len(facts.replicas) + 1,
            "assumed": _assumed(options),
        },
        "time": {
            "seconds": round(seconds, 1) if math.isfinite(seconds) else None,
            "limited_by": limits[0].what if load.units else None,
            "limits": [limit.to_json() for limit in limits if limit.units],
            "preflight_seconds": round(preflight.seconds, 1),
            "prewarm": None if better is None else better.to_json(),
        },
        "price": _price(
            record, facts, survey, load, seconds, workers, chunks, scale, better, preflight
        ),
        "warnings": [each.to_json() for each in warnings],
    }


def is_split(record: RunRecord) -> bool:
    """Tell whether the source is split into byte ranges; compressed and UTF-16 text is not."""
    return record.size is not None


def estimate_chunks(record: RunRecord) -> int:
    """Estimate the number of chunks; for a single object it is exact."""
    if record.objects is None and not is_split(record):
        return 1
    return -(-(expected_bytes(record) - record.data_start.byte) // record.chunk_bytes)


def preflight_work(
    record: RunRecord, chunks: int, survey: Survey, scale: float
) -> price.PreflightWork:
    """Estimate what preflight reads of a source, which depends on how it is scanned."""
    source, options = record.payload.source, record.payload.options
    stored, objects = expected_bytes(record), record.objects or 1
    # Of several objects each may be compressed or not: their text tells.
    is_compressed = record.size is None and (
        record.objects is None or (survey.expansion or 1.0) > _LEAST_EXPANSION
    )
    text = round(survey.bytes * scale) if is_compressed else 0
    whole = price.PreflightWork.whole(stored, objects=objects, text=text)
    is_large = stored / objects > record.chunk_bytes
    if options.scan != EDGES or source.format == PARQUET:
        return whole
    if is_compressed:
        if record.wants_index(stored // objects):
            return whole
        return price.PreflightWork.by_edges(stored, 0, 0, quoted=False, objects=objects)
    return price.PreflightWork.by_edges(
        stored,
        max(0, chunks - 1) if is_large else 0,
        options.row_limit,
        # A window without quotes proves a row end only if it is longer than any row.
        quoted=source.delimited and source.quote is not None,
        objects=objects,
    )


def _load(survey: Survey, scale: float) -> Load:
    local = sum(each.sizes.units for each in survey.indexes if not each.index.is_global)
    units = (survey.sizes.units + survey.deletions + local) * scale
    global_indexes = [each for each in survey.indexes if each.index.is_global]
    hot = [(HOT_TABLE, survey.hot.hot_share * units)]
    hot += [
        (hot_index_limit(each.index), each.hot.hot_share * each.sizes.units * scale)
        for each in global_indexes
    ]
    return Load(
        rows=round((survey.sizes.count + survey.deletions) * scale),
        table_units=round(units),
        index_units=tuple((each.index, round(each.sizes.units * scale)) for each in global_indexes),
        hot=tuple(hot),
    )


def _keys(record: RunRecord, survey: Survey) -> dict[str, Any]:
    keys, hottest = survey.keys, survey.hottest
    repeats = hottest is not None and hottest.rows > 1
    return {
        "attributes": [key.name for key in record.table.keys],
        "rows": keys.rows,
        "distinct": keys.distinct,
        "repeated": keys.repeated,
        "extra_rows": keys.extra_rows,
        "exact": keys.exact,
        "error": round(keys.error, 6),
        "sorted": survey.order.sorted,
        "together": round(survey.order.adjacent_share, 4),
        "partitions": survey.hot.distinct,
        "hottest": {
            "share": round(hottest.share, 6),
            "rows": hottest.rows,
            "error": round(hottest.error, 6),
        }
        if hottest is not None and repeats
        else None,
        "indexes": [
            {
                "name": each.index.name,
                "hottest_share": round(found.share, 6) if found and found.rows > 1 else None,
            }
            for each in survey.indexes
            for found in (each.hot.hottest(),)
        ],
    }


def _items(survey: Survey, scale: float) -> dict[str, Any]:
    sizes = survey.sizes
    mean = sizes.bytes / sizes.count if sizes.count else 0.0
    return {
        "count": round(sizes.count * scale),
        "deleted": round(survey.deletions * scale),
        "bytes": round(sizes.bytes * scale),
        "smallest": sizes.smallest,
        "mean": round(mean, 1),
        "median": sizes.quantile(0.5) if sizes.count else None,
        "p90": sizes.quantile(0.9) if sizes.count else None,
        "p99": sizes.quantile(0.99) if sizes.count else None,
        "largest": sizes.largest if sizes.count else None,
        "too_large": sum(each.rows for each in survey.rejects if each.cause == "item_too_large"),
        "histogram": sizes.histogram(),
    }


def _price(
    record: RunRecord,
    facts: TableFacts,
    survey: Survey,
    load: Load,
    seconds: float,
    workers: int,
    chunks: int,
    scale: float,
    better: Prewarm | None,
    preflight: price.PreflightWork,
) -> dict[str, Any]:
    replicas, infrequent = len(facts.replicas), facts.infrequent
    duration = seconds if math.isfinite(seconds) else 0.0
    write_price = record.write_price
    if write_price is None or write_price.source == NOT_BILLED:
        # The price on demand is of interest for a provisioned table too.
        write_price = WritePrice.of(
            facts.region, on_demand=True, infrequent=infrequent, regions=replicas + 1
        )
    on_demand = price.writes(load.units, write_price)
    table = on_demand
    if not facts.on_demand:
        provisioned = (facts.write_capacity or 0) + sum(
            index.write_capacity or 0 for index in facts.indexes
        )
        table = price.capacity(provisioned, duration, replicas=replicas, infrequent=infrequent)
    lines = [
        table,
        *price.Workload(
            expected_bytes(record),
            max(1, chunks),
            workers,
            duration,
            preflight,
            record.objects or 1,
        ).lines(),
    ]
    reads = 0.0
    if any(name.startswith("s3://") for name in record.payload.source.names):
        requests = max(math.ceil(expected_bytes(record) / RANGE_BYTES), record.objects or 1)
        reads = (requests + preflight.requests) * S3_READ
    stored = STORED_GB_MONTH_IA if infrequent else STORED_GB_MONTH
    entries = sum(
        each.sizes.bytes + price.INDEX_OVERHEAD * each.sizes.count for each in survey.indexes
    )
    stored_bytes = (
        survey.sizes.bytes + price.INDEX_OVERHEAD * survey.sizes.count + entries
    ) * scale
    if record.payload.options.mode == DELETE:
        stored_bytes = 0.0
    return {
        "currency": "USD",
        "region": LIST_PRICE_REGION,
        "prices_of": LIST_PRICE_DATE,
        "write_units": {
            "dollars_per_million": write_price.dollars_per_million,
            "source": write_price.source,
            "text": write_price.text,
        },
        "billing": "on-demand" if facts.on_demand else "provisioned",
        "lines": [
            {"service": line.service, "dollars": _dollars(line.dollars), "how": line.how}
            for line in lines
        ],
        "services": {line.service: _dollars(line.dollars) for line in lines},
        "total": _dollars(sum(line.dollars for line in lines)),
        "by_import": _dollars(table.dollars + reads),
        "if_on_demand": _dollars(on_demand.dollars),
        "prewarm": None if better is None else _dollars(better.dollars),
        "storage_month": _dollars(stored_bytes / 1e9 * stored * (replicas + 1)),
    }


def _dollars(amount: float) -> float:
    return round(amount, 6)


def _assumed(options: Options) -> str:
    text = "assuming new items; replacing an item costs the larger of both"
    if options.mode == UPDATE:
        text = (
            "the least that it can be: an update is billed by the whole item, before or after it,"
            " whichever is larger"
        )
    elif options.mode == DELETE:
        text = "assuming items of up to 1 KB; deleting larger items and index entries costs more"
    if options.condition is not None or options.only_existing:
        text += "; a row whose condition is false is billed, too"
    return text


def _sample_warning(scale: float) -> PlanWarning:
    return PlanWarning(
        "sample",
        f"only the first rows were read: totals are theirs times {scale:,.1f}; duplicate keys,"
        " rejects and errors in later rows are unknown",
    )
