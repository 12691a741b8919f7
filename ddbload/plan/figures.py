"""What all rows come to: keys, sizes, write units, time, price, warnings, as a plan tells them."""

from __future__ import annotations

import math
from typing import Any

from ddbload.contracts.payload import DEFAULT_WORKERS
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import DELETE
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.plan import price
from ddbload.plan.advice import PlanWarning, warnings_of
from ddbload.plan.capacity import HOT_TABLE, Load, Prewarm, hot_index, limits_of, prewarm
from ddbload.plan.survey import Survey
from ddbload.plan.table_facts import TableFacts
from ddbload.source.s3_object import RANGE_BYTES


def figures(
    record: RunRecord,
    facts: TableFacts,
    survey: Survey,
    scale: float,
    *,
    complete: bool,
    now: float,
) -> dict[str, Any]:
    """The fields of a plan that need all three.

    `scale`: all rows for each that was read. `now`: seconds since the epoch.
    """
    load = _load(survey, scale)
    options = record.payload.options
    workers = min(DEFAULT_WORKERS, max(1, chunks_of(record)))
    limits = limits_of(facts, load, max_wcu=options.max_wcu, workers=workers)
    seconds = limits[0].seconds if load.units else 0.0
    better = prewarm(facts, load, limits)
    warned = warnings_of(record, facts, survey, limits, now)
    if not complete:
        warned.append(_sampled(scale))
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
            "assumed": _assumed(options.mode),
        },
        "time": {
            "seconds": round(seconds, 1) if math.isfinite(seconds) else None,
            "limited_by": limits[0].what if load.units else None,
            "limits": [limit.to_json() for limit in limits if limit.units],
            "prewarm": None if better is None else better.to_json(),
        },
        "price": _price(record, facts, survey, load, seconds, workers, scale, better),
        "warnings": [each.to_json() for each in warned],
    }


def splits(record: RunRecord) -> bool:
    """Whether an object is cut into byte ranges: not what is compressed, or of wide characters."""
    return record.size is not None


def chunks_of(record: RunRecord) -> int:
    """How many chunks its import has; of several objects about."""
    if record.objects is None and not splits(record):
        return 1
    return -(-(expected_bytes(record) - record.data_start.byte) // record.chunk_bytes)


def _load(survey: Survey, scale: float) -> Load:
    local = sum(each.sizes.units for each in survey.indexes if not each.index.is_global)
    units = (survey.sizes.units + survey.deletions + local) * scale
    across = [each for each in survey.indexes if each.index.is_global]
    hot = [(HOT_TABLE, survey.hot.standing_out * units)]
    hot += [
        (hot_index(each.index), each.hot.standing_out * each.sizes.units * scale) for each in across
    ]
    return Load(
        rows=round((survey.sizes.count + survey.deletions) * scale),
        table_units=round(units),
        index_units=tuple((each.index, round(each.sizes.units * scale)) for each in across),
        hot=tuple(hot),
    )


def _keys(record: RunRecord, survey: Survey) -> dict[str, Any]:
    keys, hottest = survey.keys, survey.hottest
    stands_out = hottest is not None and hottest.rows > 1
    return {
        "attributes": [key.name for key in record.table.keys],
        "rows": keys.rows,
        "distinct": keys.distinct,
        "repeated": keys.repeated,
        "extra_rows": keys.extra_rows,
        "exact": keys.exact,
        "error": round(keys.error, 6),
        "sorted": survey.order.sorted,
        "together": round(survey.order.together, 4),
        "partitions": survey.hot.distinct,
        "hottest": {
            "share": round(hottest.share, 6),
            "rows": hottest.rows,
            "error": round(hottest.error, 6),
        }
        if hottest is not None and stands_out
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
    scale: float,
    better: Prewarm | None,
) -> dict[str, Any]:
    replicas, infrequent = len(facts.replicas), facts.infrequent
    lasts = seconds if math.isfinite(seconds) else 0.0
    on_demand = price.writes(load.units, replicas=replicas, infrequent=infrequent)
    own = on_demand
    if not facts.on_demand:
        provisioned = (facts.write_capacity or 0) + sum(
            index.write_capacity or 0 for index in facts.indexes
        )
        own = price.capacity(provisioned, lasts, replicas=replicas, infrequent=infrequent)
    lines = [
        own,
        *price.Workload(
            expected_bytes(record),
            max(1, chunks_of(record)),
            workers,
            lasts,
            record.objects or 1,
        ).lines(),
    ]
    reads = 0.0
    if record.payload.source.bucket is not None:
        requests = max(math.ceil(expected_bytes(record) / RANGE_BYTES), record.objects or 1)
        reads = 2 * requests * price.S3_READ
    stored = price.STORED_GB_MONTH_IA if infrequent else price.STORED_GB_MONTH
    entries = sum(
        each.sizes.bytes + price.INDEX_OVERHEAD * each.sizes.count for each in survey.indexes
    )
    held = (survey.sizes.bytes + price.INDEX_OVERHEAD * survey.sizes.count + entries) * scale
    if record.payload.options.mode == DELETE:
        held = 0.0
    return {
        "currency": "USD",
        "region": price.REGION,
        "prices_of": price.PRICES_OF,
        "billing": "on-demand" if facts.on_demand else "provisioned",
        "lines": [
            {"service": line.service, "dollars": _dollars(line.dollars), "how": line.how}
            for line in lines
        ],
        "services": {line.service: _dollars(line.dollars) for line in lines},
        "total": _dollars(sum(line.dollars for line in lines)),
        "by_import": _dollars(own.dollars + reads),
        "if_on_demand": _dollars(on_demand.dollars),
        "prewarm": None if better is None else _dollars(better.dollars),
        "storage_month": _dollars(held / 1e9 * stored * (replicas + 1)),
    }


def _dollars(amount: float) -> float:
    return round(amount, 6)


def _assumed(mode: str) -> str:
    if mode == DELETE:
        return "each deletes an item of up to 1 KB; larger ones, and their index entries, cost more"
    return "each row is written once, as a new item; replacing one costs the larger of both"


def _sampled(scale: float) -> PlanWarning:
    return PlanWarning(
        "sample",
        f"not all rows were read: the figures for all are those of the first, times {scale:,.1f};"
        " keys that come twice, rejects and errors further on are not known",
    )
