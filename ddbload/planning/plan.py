"""Plan of an import: contents of the source, and cost of importing it (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ddbload.contracts.chunks import group_sizes
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.row_counts import ALL_FILTERED, NO_ROWS
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import AUTO, UNCOMPRESSED
from ddbload.planning import price
from ddbload.planning.advice import PlanWarning, list_warnings
from ddbload.planning.capacity import Limit, TableFacts, json_seconds, rank_limits
from ddbload.planning.survey import Survey
from ddbload.reading.row_blocks import expected_bytes
from ddbload.steps.prepare import DetectedFormat

FINE, REJECTS, FAILS = "FINE", "REJECTS", "FAILS"


@dataclass(slots=True)
class Plan:
    """Plan of an import. Fields stay None if an error stopped the plan before they were known."""

    payload: Payload
    now: float
    new_keys: Sequence[tuple[str, str]] = ()
    """Names and types of the keys for a table that does not exist yet."""
    prewarm: int | None = None
    """Warm throughput requested by `--prewarm`, in write units per second."""
    record: RunRecord | None = None
    facts: TableFacts | None = None
    survey: Survey | None = None
    detected: DetectedFormat | None = None
    """Detected format of the source, with the evidence for it."""
    refused: Mapping[str, Any] | None = None
    """Detected dialect of a source whose first row was refused."""
    complete: bool = False
    """True if all rows were read."""
    first: int | None = None
    """Number of rows that the plan is limited to; None for all rows."""
    error: Failure | None = None
    """Error that would fail the import."""
    notices: list[PlanWarning] = field(default_factory=list)
    """Warnings found while reading."""

    @property
    def status(self) -> str:
        """Status of the plan: FINE, REJECTS or FAILS."""
        if self.error is not None:
            return FAILS
        return REJECTS if self.survey is not None and self.survey.rejected else FINE

    @property
    def is_new(self) -> bool:
        """True if the table does not exist, and the plan is for a new table with `new_keys`."""
        return self.facts is not None and not self.facts.table.id

    @property
    def size(self) -> int | None:
        """Stored size of the source in bytes; None if it was not opened."""
        return None if self.record is None else expected_bytes(self.record)

    @property
    def scale(self) -> float:
        """Estimated number of all rows divided by the number of rows read."""
        record, survey = self.record, self.survey
        is_whole = self.complete or self.first is not None
        if is_whole or survey is None or record is None or not survey.bytes:
            return 1.0
        if record.size is None:
            expansion = survey.expansion or survey.bytes / max(1, survey.kept)
            return max(1.0, expected_bytes(record) * expansion / survey.bytes)
        return max(1.0, (record.size - record.data_start.byte) / survey.bytes)

    @property
    def chunks(self) -> int | None:
        """Estimated number of chunks; None if the source was not opened."""
        if self.record is None:
            return None
        if self._is_cut and self.survey is not None:
            return max(1, math.ceil(self.survey.bytes * self.scale / self.record.chunk_bytes))
        if self.record.objects is None and self.record.size is None:
            # Compressed and UTF-16 text is not split into byte ranges.
            return 1
        text_bytes = expected_bytes(self.record) - self.record.data_start.byte
        return -(-text_bytes // self.record.chunk_bytes)

    @property
    def _is_cut(self) -> bool:
        """True for a compressed object that preflight tries to cut into chunks."""
        record = self.record
        if record is None or record.objects is not None:
            return False
        source = record.payload.source
        is_indexed = source.compression not in (AUTO, UNCOMPRESSED) and source.encoding == "utf-8"
        return is_indexed and record.wants_index(expected_bytes(record))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON. Unknown parts are null or empty lists.

        Costs are left out if an error stopped reading, because they would cover only some of the
        rows.
        """
        record, survey, facts, error = self.record, self.survey, self.facts, self.error
        warnings = []
        if self.detected is not None:
            if (warning := self.detected.header_warning) is not None:
                warnings.append(PlanWarning("header_like_data", warning))
            cells = self.detected.cell_warnings
            warnings += [PlanWarning("cells_like_others", each) for each in cells]
        columns = self._columns()
        costs: dict[str, Any] = dict.fromkeys(("keys", "items", "write_units", "time", "price"))
        ways: list[dict[str, Any]] = []
        if record and survey and facts and (self.complete or error is None):
            limits = rank_limits(
                facts,
                survey,
                self.scale,
                max_wcu=record.payload.options.max_wcu,
                workers=record.workers_for(self.chunks or 1),
            )
            costs = self._costs(record, survey, facts, limits)
            warnings += list_warnings(
                record, facts, survey, limits, now=self.now, prewarm=self.prewarm
            )
            warnings += self._warnings(survey)
            rows = round(survey.rows * self.scale)
            values = sum(each.get("filled", rows) for each in columns)
            ways = price.compare_importers(
                self.payload,
                facts,
                costs["items"]["bytes"] + price.VALUE_BYTES * values + price.ITEM_BYTES * rows,
                costs["price"]["by_import"],
                costs["time"]["seconds"],
            )
        return {
            "status": self.status,
            "source": self._source(),
            "dialect": self._dialect(),
            "table": None if facts is None else facts.to_json(),
            "rows": self._rows(),
            "rejects": [] if survey is None else survey.rejects,
            "columns": columns,
            **costs,
            "warnings": [asdict(each) for each in warnings],
            "alternatives": ways,
            "command": None,
            "error": None if error is None else error.shown(),
        }

    def _costs(
        self, record: RunRecord, survey: Survey, facts: TableFacts, limits: Sequence[Limit]
    ) -> dict[str, Any]:
        """Return the fields of a plan that need record, table and survey."""
        scale, sizes, chunks = self.scale, survey.sizes, self.chunks or 1
        workers = record.workers_for(chunks)
        total = round(sum(each.units for each in limits if each.is_capacity))
        seconds = limits[0].seconds if total else 0.0
        # With --first, plan as if the source ended after these rows.
        stored = expected_bytes(record) if self.first is None else survey.kept
        preflight = price.preflight_work(
            record, stored, chunks, survey.expansion or 1.0, round(survey.bytes * scale)
        )
        work = price.Workload(
            stored,
            chunks,
            len(group_sizes(chunks, workers)) if record.has_places else chunks,
            workers,
            seconds if math.isfinite(seconds) else 0.0,
            preflight,
            record.objects or 1,
        )
        return {
            "keys": _keys(record, survey),
            "items": {
                "count": round(sizes.count * scale),
                "deleted": round(survey.deletions * scale),
                "bytes": round(sizes.bytes * scale),
                "smallest": sizes.smallest,
                "mean": round(sizes.bytes / sizes.count, 1) if sizes.count else 0.0,
                "largest": sizes.largest if sizes.count else None,
                "too_large": sum(
                    each["rows"] for each in survey.rejects if each["cause"] == "item_too_large"
                ),
            },
            "write_units": {
                "table": round((sizes.units + survey.deletions) * scale),
                "indexes": [
                    {
                        "name": each.index.name,
                        "rows": round(each.sizes.count * scale),
                        "units": round(each.sizes.units * scale),
                    }
                    for each in survey.indexes
                ],
                "total": total,
                "regions": len(facts.replicas) + 1,
                "assumed": _assumed(record.payload.options),
            },
            "time": {
                "seconds": json_seconds(seconds),
                "limited_by": limits[0].what if total else None,
                "limits": [limit.to_json() for limit in limits if limit.units],
                "preflight_seconds": round(preflight.seconds, 1),
            },
            "price": price.price_import(record, facts, work, total),
        }

    def _warnings(self, survey: Survey) -> Iterator[PlanWarning]:
        """Yield warnings about unusual properties of the source, and about rows not read."""
        yield from dict.fromkeys(self.notices)
        if self.complete and not survey.rows:
            code, why = ("all_filtered", ALL_FILTERED) if survey.filtered else ("no_rows", NO_ROWS)
            yield PlanWarning(code, why)
        if self.first is not None:
            read = "row was" if self.first == 1 else f"{self.first:,} rows were"
            yield PlanWarning(
                "first",
                f"only the first {read} read, and the plan is for no more; --sample {self.first}"
                " estimates the rest",
            )
        elif not self.complete:
            yield PlanWarning(
                "sample",
                f"only the first rows were read: totals are theirs times {self.scale:,.1f};"
                " duplicate keys, rejects and errors in later rows are unknown",
            )
        if self.new_keys and not self.is_new:
            table = self.payload.table
            yield PlanWarning(
                "table_exists", f"table {table} exists already: no command would make it"
            )

    def _source(self) -> dict[str, Any]:
        record, survey = self.record, self.survey
        return {
            "uri": self.payload.source.uri,
            "objects": None if record is None else record.objects or 1,
            "bytes": self.size,
            "bytes_read": 0
            if survey is None or record is None
            else record.data_start.byte + survey.bytes,
            "complete": self.complete,
            "splits": None
            if record is None
            else record.objects is not None or record.size is not None or self._is_cut,
            "chunks": self.chunks,
        }

    def _dialect(self) -> Mapping[str, Any] | None:
        if self.record is None or self.detected is None:
            # The dialect of a source whose first row was refused, if one was detected.
            return self.refused
        return replace(self.detected, source=self.record.payload.source).to_json()

    def _rows(self) -> dict[str, Any]:
        survey = self.survey
        read = rejected = filtered = 0
        if survey is not None:
            read, rejected, filtered = survey.read, survey.rejected, survey.filtered
        return {
            "read": read,
            "good": read - rejected - filtered,
            "rejected": rejected,
            "filtered": filtered,
            "total": round(read * self.scale),
            "estimated": not self.complete and self.first is None,
        }

    def _columns(self) -> list[dict[str, Any]]:
        record, survey = self.record, self.survey
        if record is None or survey is None:
            return []
        roles = dict(zip((key.name for key in record.table.keys), ("partition", "sort")))  # noqa: B905
        origins: dict[str, str | None] = {}
        types = survey.types
        if record.columns:
            layout = survey.layout
            origins = {
                name: record.columns[origin] if isinstance(origin, int) else None
                for name, origin in zip(layout.attributes, layout.origins, strict=True)
            }
        return [
            {
                "name": name,
                "column": origins.get(name),
                "type": kind,
                "declared": name in record.payload.types,
                "key": roles.get(name),
                **survey.describe(name, kind),
            }
            for name, kind in types.items()
        ]


def _keys(record: RunRecord, survey: Survey) -> dict[str, Any]:
    hot = survey.hot
    hottest = {"share": round(hot.share, 6), "rows": hot.most, "error": round(hot.error, 6)}
    return {
        "attributes": [key.name for key in record.table.keys],
        **survey.keys.to_json(),
        "partitions": hot.distinct,
        "hottest": hottest if hot.most > 1 else None,
        "indexes": [
            {
                "name": each.index.name,
                "hottest_share": round(each.hot.share, 6) if each.hot.most > 1 else None,
            }
            for each in survey.indexes
        ],
    }


def _assumed(options: Options) -> str:
    text = options.write_mode.price
    if options.condition is not None or options.only_existing:
        text += "; a row whose condition is false is billed, too"
    return text
