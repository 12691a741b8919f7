"""Plan of an import: what a source holds, and what importing it costs (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import PUT
from ddbload.pipeline.preflight.detect_format import DetectedFormat
from ddbload.pipeline.preflight.prepare import FIRST_ROW_LIKE_DATA, NO_HEADER_ADVICE
from ddbload.plan.advice import PlanWarning
from ddbload.plan.attribute_profiles import ColumnProfile
from ddbload.plan.figures import estimate_chunks, figures, is_split
from ddbload.plan.price import ComparedImport, alternatives, reads_as_it_is
from ddbload.plan.survey import MAX_PROFILES, Survey
from ddbload.plan.table_facts import TableFacts
from ddbload.reading.source_objects import expected_bytes

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
        value: dict[str, Any] = {
            "status": self.status,
            "source": self._source(),
            "dialect": self._dialect(),
            "table": None if self.facts is None else self.facts.to_json(),
            "rows": self._rows(),
            "rejects": [each.to_json() for each in self.survey.rejects] if self.survey else [],
            "columns": self._columns(),
            "keys": None,
            "items": None,
            "write_units": None,
            "time": None,
            "price": None,
            "warnings": [],
            "alternatives": [],
            "command": None,
            "create_table": None,
            "error": None,
        }
        whole = self.complete or self.error is None
        if whole and self.record is not None and self.facts is not None and self.survey is not None:
            value.update(
                figures(
                    self._counted_record(self.record, self.survey),
                    self.facts,
                    self.survey,
                    self.scale,
                    complete=self.complete,
                    first=self.first,
                    now=self.now,
                    prewarm=self.prewarm,
                    chunks=self.chunks or 1,
                    uncut=self.uncut,
                    notices={
                        **dict.fromkeys(self.cells, "cell_json"),
                        **dict.fromkeys(self.notices, "incomplete_scan"),
                    },
                )
            )
            value["alternatives"] = self._alternatives(value)
            if self.new_keys and not self.is_new:
                message = f"table {self.payload.table} exists already: no command would make it"
                value["warnings"].append(PlanWarning("table_exists", message).to_json())
        header = None if self.detected is None else self.detected.header
        if header is not None and header.looks_like_data:
            message = f"{FIRST_ROW_LIKE_DATA}: {header.why}. {NO_HEADER_ADVICE}"
            warning = PlanWarning("header_like_data", message)
            value["warnings"] = [warning.to_json(), *value["warnings"]]
        if self.error is not None:
            value["error"] = {"name": self.error.name, "message": self.error.message}
        return value

    def _counted_record(self, record: RunRecord, survey: Survey) -> RunRecord:
        """Return the record of the source as if it ended with the rows that are planned for."""
        if self.first is None:
            return record
        size = None if record.size is None else record.data_start.byte + survey.bytes
        stored = "size" if record.objects is None else "bytes"
        return replace(record, size=size, pinned={**record.pinned, stored: survey.kept})

    def _alternatives(self, value: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Compare the import with AWS's own importers. `value`: the plan with its price."""
        record, survey, facts = self.record, self.survey, self.facts
        assert record is not None, "the source was checked"  # noqa: S101
        assert survey is not None, "the source was checked"  # noqa: S101
        source, rows = record.payload.source, round(survey.rows * self.scale)
        found = alternatives(
            ComparedImport(
                is_new=self.is_new,
                in_s3=self.payload.source.uri.startswith("s3://"),
                as_it_is=reads_as_it_is(record, value["columns"]),
                only_puts=record.payload.options.mode == PUT,
                replicas=len(facts.replicas) if facts is not None else 0,
                text_bytes=round(survey.bytes * self.scale),
                item_bytes=value["items"]["bytes"],
                values=sum(each.get("filled", rows) for each in value["columns"]),
                rows=rows,
                format=source.format,
                import_dollars=value["price"]["by_import"],
                stack_dollars=value["price"]["total"],
                seconds=value["time"]["seconds"],
            )
        )
        return [each.to_json() for each in found]

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
