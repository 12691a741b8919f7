"""Plan of an import: what a source holds, and what importing it costs (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.row_counts import ALL_FILTERED, NO_ROWS
from ddbload.contracts.run_record import RunRecord
from ddbload.plan.advice import PlanWarning, list_warnings, prewarm_warning
from ddbload.plan.attribute_profiles import ColumnProfile
from ddbload.plan.figures import Estimate, estimate_chunks, is_split
from ddbload.plan.price import ITEM_BYTES, VALUE_BYTES, compare_importers
from ddbload.plan.survey import MAX_PROFILES, Survey
from ddbload.plan.table_facts import TableFacts
from ddbload.reading.row_blocks import expected_bytes
from ddbload.steps.prepare import FIRST_ROW_LIKE_DATA, NO_HEADER_ADVICE, DetectedFormat

FINE, REJECTS, FAILS = "FINE", "REJECTS", "FAILS"


@dataclass(slots=True)
class Plan:
    """Plan of an import, as far as it could be made."""

    payload: Payload
    record: RunRecord | None = None
    facts: TableFacts | None = None
    survey: Survey | None = None
    detected: DetectedFormat | None = None
    """Detected format of the source, with its certainty."""
    refused: Mapping[str, Any] | None = None
    """Reading of a source whose first row was refused."""
    size: int | None = None
    complete: bool = False
    """True if all rows were read."""
    first: int | None = None
    """Rows that alone are planned for; None for all."""
    error: Failure | None = None
    """Error that the import would fail with."""
    now: float = 0.0
    prewarm: int | None = None
    """Write units a second that `--prewarm` asks for."""
    is_cut: bool = False
    """True for a compressed object that preflight cuts into chunks."""
    uncut: str | None = None
    """Reason why a compressed object that should be cut is not."""
    cells: tuple[str, ...] = ()
    """Decisions about the cells of columns."""
    notices: list[str] = field(default_factory=list)
    """Warnings of readers of the rows."""
    new_keys: tuple[tuple[str, str], ...] = ()
    """Names and types of the keys that a missing table would be given."""
    is_new: bool = False
    """True if the table does not exist, and the plan is for one with `new_keys`."""
    described: Mapping[str, Any] = field(default_factory=dict)
    """The table's description by DescribeTable."""

    @property
    def status(self) -> str:
        """Status: FINE, REJECTS or FAILS."""
        if self.error is not None:
            return FAILS
        return REJECTS if self.survey is not None and self.survey.rejected else FINE

    @property
    def scale(self) -> float:
        """Estimate of all rows divided by the rows read."""
        record, survey = self.record, self.survey
        if (
            self.complete
            or self.first is not None
            or survey is None
            or record is None
            or not survey.bytes
        ):
            return 1.0
        if record.size is None:
            expansion = survey.expansion or survey.bytes / max(1, survey.kept)
            return max(1.0, expected_bytes(record) * expansion / survey.bytes)
        return max(1.0, (record.size - record.data_start.byte) / survey.bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON; parts that are unknown are null or empty lists.

        There are no costs if an error stopped reading, because they would cover only some rows.
        """
        estimate = self._estimate() if self.complete or self.error is None else None
        columns, error = self._columns(), self.error
        costs = dict.fromkeys(("keys", "items", "write_units", "time", "price"))
        if estimate is not None:
            costs |= estimate.to_json()
        return {
            "status": self.status,
            "source": self._source(),
            "dialect": self._dialect(),
            "table": None if self.facts is None else self.facts.to_json(),
            "rows": self._rows(),
            "rejects": [asdict(each) for each in self.survey.rejects] if self.survey else [],
            "columns": columns,
            **costs,
            "warnings": [asdict(each) for each in self._warnings(estimate)],
            "alternatives": []
            if estimate is None
            else self._alternatives(estimate, columns, costs),
            "command": None,
            "create_table": None,
            "error": None if error is None else {"name": error.name, "message": error.message},
        }

    def _estimate(self) -> Estimate | None:
        """Estimate the import; None if the source was not read."""
        record, survey, facts = self.record, self.survey, self.facts
        if record is None or survey is None or facts is None:
            return None
        if self.first is not None:
            # As if the source ended with the rows that are planned for.
            size = None if record.size is None else record.data_start.byte + survey.bytes
            stored = "size" if record.objects is None else "bytes"
            record = replace(record, size=size, pinned={**record.pinned, stored: survey.kept})
        return Estimate.of(record, facts, survey, self.scale, self.chunks or 1)

    def _warnings(self, estimate: Estimate | None) -> Iterator[PlanWarning]:
        header = None if self.detected is None else self.detected.header
        if header is not None and header.looks_like_data:
            message = f"{FIRST_ROW_LIKE_DATA}: {header.why}. {NO_HEADER_ADVICE}"
            yield PlanWarning("header_like_data", message)
        if estimate is None:
            return
        record, facts, survey = estimate.record, estimate.facts, estimate.survey
        yield from list_warnings(record, facts, survey, estimate.limits, self.now)
        if self.prewarm is not None:
            yield prewarm_warning(facts, self.prewarm)
        if self.uncut is not None and survey.bytes * self.scale > 2 * record.chunk_bytes:
            yield PlanWarning("one_worker", f"one worker imports the source: {self.uncut}")
        yield from (PlanWarning("cell_json", each) for each in self.cells)
        yield from (PlanWarning("incomplete_scan", each) for each in dict.fromkeys(self.notices))
        if self.complete and not survey.rows:
            if survey.filtered:
                yield PlanWarning("all_filtered", ALL_FILTERED)
            else:
                yield PlanWarning("no_rows", NO_ROWS)
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
            message = f"table {self.payload.table} exists already: no command would make it"
            yield PlanWarning("table_exists", message)

    def _alternatives(
        self, estimate: Estimate, columns: list[dict[str, Any]], costs: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Compare the import with AWS's own importers."""
        rows = round(estimate.survey.rows * self.scale)
        values = sum(each.get("filled", rows) for each in columns)
        return compare_importers(
            estimate.record.payload.source.format,
            in_s3=self.payload.source.uri.startswith("s3://"),
            is_new=self.is_new,
            replicas=len(estimate.facts.replicas),
            only_puts=self.payload.options.write_mode.replaces,
            json_bytes=costs["items"]["bytes"] + VALUE_BYTES * values + ITEM_BYTES * rows,
            dollars=costs["price"]["by_import"],
            seconds=costs["time"]["seconds"],
        )

    def _source(self) -> dict[str, Any]:
        record = self.record
        return {
            "uri": self.payload.source.uri,
            "objects": None if record is None else record.objects or 1,
            "bytes": self.size,
            "bytes_read": 0
            if self.survey is None or record is None
            else record.data_start.byte + self.survey.bytes,
            "complete": self.complete,
            "splits": None
            if record is None
            else record.objects is not None or is_split(record) or self.is_cut,
            "chunks": self.chunks,
        }

    @property
    def chunks(self) -> int | None:
        """Estimate of the import's chunks; None if the source was not opened."""
        if self.record is None:
            return None
        if self.is_cut and self.survey is not None:
            return max(1, math.ceil(self.survey.bytes * self.scale / self.record.chunk_bytes))
        return estimate_chunks(self.record)

    def _dialect(self) -> Mapping[str, Any] | None:
        if self.record is None:
            # The reading of a source whose first row was refused, if it was read at all.
            return self.refused
        found = self.detected or DetectedFormat(self.record.payload.source)
        return replace(found, source=self.record.payload.source).to_json()

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

        def column(name: str, kind: str, origin: str | None) -> dict[str, Any]:
            return {
                "name": name,
                "column": origin,
                "type": kind,
                "declared": name in record.payload.types,
                "key": roles.get(name),
            }

        if not record.columns:
            return [
                {**column(name, profile.type, None), **profile.to_json(survey.sizes.count)}
                for name, profile in survey.documents.attributes.items()
            ]
        layout = survey.layout
        profiles = survey.columns or dict.fromkeys(
            layout.attributes[:MAX_PROFILES], ColumnProfile()
        )
        return [
            {
                **column(name, kind, record.columns[origin] if isinstance(origin, int) else None),
                **(profiles[name].to_json() if name in profiles else {}),
            }
            for name, kind, origin in zip(
                layout.attributes, record.types, layout.origins, strict=True
            )
        ]
