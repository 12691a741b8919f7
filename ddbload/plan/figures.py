"""Compute a plan's figures: keys, item sizes, write units, time, price and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from ddbload.contracts.options import EDGES, Options
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.write_price import (
    LIST_PRICE_DATE,
    LIST_PRICE_REGION,
    NOT_BILLED,
    S3_READ,
    STORED_GB_MONTH,
    STORED_GB_MONTH_IA,
    WritePrice,
)
from ddbload.plan import price
from ddbload.plan.capacity import (
    HOT_TABLE,
    Limit,
    Load,
    Prewarm,
    hot_index_limit,
    json_seconds,
    rank_limits,
    suggest_prewarm,
)
from ddbload.plan.survey import Survey
from ddbload.plan.table_facts import TableFacts
from ddbload.reading.row_blocks import expected_bytes
from ddbload.source.s3_object import RANGE_BYTES

_LEAST_EXPANSION = 1.05
"""Bytes of rows for a stored byte, above which objects are taken for compressed ones."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Figures of an import, computed from the rows that were read."""

    record: RunRecord
    facts: TableFacts
    survey: Survey
    scale: float
    """All rows divided by the rows read."""
    chunks: int
    """Estimate of the chunks."""
    load: Load
    limits: Sequence[Limit]
    """Limits of the write speed, the slowest first."""
    workers: int
    preflight: price.PreflightWork
    better: Prewarm | None
    """Suggestion to raise the capacity before the import."""

    @classmethod
    def of(
        cls, record: RunRecord, facts: TableFacts, survey: Survey, scale: float, chunks: int
    ) -> Self:
        """Make the estimate of an import of these rows."""
        load = _load(survey, scale)
        workers = min(record.most_workers or 1, max(1, chunks))
        limits = rank_limits(facts, load, max_wcu=record.payload.options.max_wcu, workers=workers)
        better = suggest_prewarm(facts, load, limits)
        preflight = preflight_work(record, chunks, survey, scale)
        return cls(record, facts, survey, scale, chunks, load, limits, workers, preflight, better)

    @property
    def seconds(self) -> float:
        """Duration of the writes; infinity if they never end."""
        return self.limits[0].seconds if self.load.units else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a plan that need record, table and survey."""
        survey, scale, load, better = self.survey, self.scale, self.load, self.better
        indexes = [
            {
                "name": each.index.name,
                "rows": round(each.sizes.count * scale),
                "units": round(each.sizes.units * scale),
            }
            for each in survey.indexes
        ]
        return {
            "keys": _keys(self.record, survey),
            "items": _items(survey, scale),
            "write_units": {
                "table": round((survey.sizes.units + survey.deletions) * scale),
                "indexes": indexes,
                "total": load.units,
                "regions": len(self.facts.replicas) + 1,
                "assumed": _assumed(self.record.payload.options),
            },
            "time": {
                "seconds": json_seconds(self.seconds),
                "limited_by": self.limits[0].what if load.units else None,
                "limits": [limit.to_json() for limit in self.limits if limit.units],
                "preflight_seconds": round(self.preflight.seconds, 1),
                "prewarm": None if better is None else better.to_json(),
            },
            "price": self._price(),
        }

    def _price(self) -> dict[str, Any]:
        record, facts, survey, scale = self.record, self.facts, self.survey, self.scale
        replicas, infrequent = len(facts.replicas), facts.infrequent
        duration = self.seconds if math.isfinite(self.seconds) else 0.0
        write_price = record.write_price
        if write_price is None or write_price.source == NOT_BILLED:
            # The price on demand is of interest for a provisioned table too.
            write_price = WritePrice.of(
                facts.region, on_demand=True, infrequent=infrequent, regions=replicas + 1
            )
        on_demand = price.writes(self.load.units, write_price)
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
                max(1, self.chunks),
                self.workers,
                duration,
                self.preflight,
                record.objects or 1,
            ).lines(),
        ]
        reads = 0.0
        if any(name.startswith("s3://") for name in record.payload.source.names):
            requests = max(math.ceil(expected_bytes(record) / RANGE_BYTES), record.objects or 1)
            reads = (requests + self.preflight.requests) * S3_READ
        stored = STORED_GB_MONTH_IA if infrequent else STORED_GB_MONTH
        entries = sum(
            each.sizes.bytes + price.INDEX_OVERHEAD * each.sizes.count for each in survey.indexes
        )
        stored_bytes = (
            survey.sizes.bytes + price.INDEX_OVERHEAD * survey.sizes.count + entries
        ) * scale
        if record.mode.deletes:
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
            "prewarm": None if self.better is None else _dollars(self.better.dollars),
            "storage_month": _dollars(stored_bytes / 1e9 * stored * (replicas + 1)),
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
    # Of several objects each may be compressed or not; the expansion of the rows read decides.
    is_compressed = record.size is None and (
        record.objects is None or (survey.expansion or 1.0) > _LEAST_EXPANSION
    )
    text = round(survey.bytes * scale) if is_compressed else 0
    whole = price.PreflightWork.whole(stored, objects=objects, text=text)
    is_large = stored / objects > record.chunk_bytes
    if options.scan != EDGES or source.kind.is_container:
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
        quoted=source.is_quoted,
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
    shown = None
    if hottest is not None and hottest.rows > 1:
        error = round(hottest.error, 6)
        shown = {"share": round(hottest.share, 6), "rows": hottest.rows, "error": error}
    indexes = []
    for each in survey.indexes:
        found = each.hot.hottest()
        share = round(found.share, 6) if found and found.rows > 1 else None
        indexes.append({"name": each.index.name, "hottest_share": share})
    return {
        "attributes": [key.name for key in record.table.keys],
        **asdict(keys),
        "error": round(keys.error, 6),
        "sorted": survey.order.sorted,
        "together": round(survey.order.adjacent_share, 4),
        "partitions": survey.hot.distinct,
        "hottest": shown,
        "indexes": indexes,
    }


def _items(survey: Survey, scale: float) -> dict[str, Any]:
    sizes = survey.sizes
    quantiles = {"median": 0.5, "p90": 0.9, "p99": 0.99, "largest": 1.0}
    return {
        "count": round(sizes.count * scale),
        "deleted": round(survey.deletions * scale),
        "bytes": round(sizes.bytes * scale),
        "smallest": sizes.smallest,
        "mean": round(sizes.bytes / sizes.count, 1) if sizes.count else 0.0,
        **{
            name: sizes.quantile(share) if sizes.count else None
            for name, share in quantiles.items()
        },
        "too_large": sum(each.rows for each in survey.rejects if each.cause == "item_too_large"),
        "histogram": sizes.histogram(),
    }


def _dollars(amount: float) -> float:
    return round(amount, 6)


def _assumed(options: Options) -> str:
    text = options.write_mode.price
    if options.condition is not None or options.only_existing:
        text += "; a row whose condition is false is billed, too"
    return text
