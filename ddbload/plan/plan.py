"""Everything an import would meet, found out without writing anything (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ddbload.contracts.payload import ColumnMapping, Options, Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import (
    DdbloadError,
    Interrupted,
    NothingWritten,
    TooManyRejects,
    unexpected,
)
from ddbload.ledger.ledger import Ledger, temporary_ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.detect_format import DetectedFormat
from ddbload.pipeline.preflight.prepare import prepare_run
from ddbload.pipeline.preflight.table_checks import NO_TABLE
from ddbload.pipeline.reading.row_batches import iter_row_batches
from ddbload.pipeline.reading.row_blocks import RunReader, rare_gc
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.pipeline.table_description import describe_table_with_response
from ddbload.plan.column_profile import ColumnProfile
from ddbload.plan.figures import chunks_of, figures, splits
from ddbload.plan.survey import MOST_COLUMNS, Survey
from ddbload.plan.table_facts import TableFacts, ask_more, facts_of

PIECE_BYTES = 256 * 1024
"""How much is read together: enough for speed, little enough for memory."""

FINE, REJECTS, FAILS = "FINE", "REJECTS", "FAILS"


@dataclass(frozen=True, slots=True)
class Sample:
    """How much is to be read: rows from the first on, or a share of the bytes."""

    rows: int | None = None
    share: float | None = None


@dataclass(slots=True)
class Plan:
    """What was found, as far as it could be."""

    payload: Payload
    record: RunRecord | None = None
    facts: TableFacts | None = None
    survey: Survey | None = None
    resolved: DetectedFormat | None = None
    """How the source is read, and how sure that is."""
    size: int | None = None
    complete: bool = False
    """Whether all rows were read."""
    error: Failure | None = None
    """What the import would fail of."""
    now: float = 0.0

    @property
    def status(self) -> str:
        """FINE, REJECTS or FAILS."""
        if self.error is not None:
            return FAILS
        return REJECTS if self.survey is not None and self.survey.rejected else FINE

    @property
    def scale(self) -> float:
        """All rows for each that was read, about."""
        record, survey = self.record, self.survey
        if self.complete or survey is None or record is None or not survey.bytes:
            return 1.0
        if record.size is None:
            expansion = survey.expansion or survey.bytes / max(1, survey.kept)
            return max(1.0, expected_bytes(record) * expansion / survey.bytes)
        return max(1.0, (record.size - record.data_start.byte) / survey.bytes)

    def to_json(self) -> dict[str, Any]:
        """The plan's object. Parts that could not be found out are null, or empty lists.

        Of rows that an error ends before their end no costs are told: they would mean nothing.
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
            "error": None,
        }
        whole = self.complete or self.error is None
        if whole and self.record is not None and self.facts is not None and self.survey is not None:
            value.update(
                figures(
                    self.record,
                    self.facts,
                    self.survey,
                    self.scale,
                    complete=self.complete,
                    now=self.now,
                )
            )
        if self.error is not None:
            value["error"] = {"name": self.error.name, "message": self.error.message}
        return value

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
            "splits": None if record is None else record.objects is not None or splits(record),
            "chunks": None if record is None else chunks_of(record),
        }

    def _dialect(self) -> dict[str, Any] | None:
        if self.record is None:
            return None
        source, found = self.record.payload.source, self.resolved
        guessed = found is not None and found.why is not None
        value: dict[str, Any] = {
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "escape": source.escape,
            "comment": source.comment,
            "header": source.header,
        }
        if not source.delimited:
            # Lines of JSON have none of these.
            value = {**dict.fromkeys(value), "format": source.format}
        return {
            **value,
            "skip_lines": source.skip_lines,
            "encoding": source.encoding,
            "compression": source.compression,
            "sure": found.sure if found is not None and guessed else 1.0,
            "why": found.why if found is not None and guessed else "as it was asked for",
        }

    def _rows(self) -> dict[str, Any]:
        survey = self.survey
        read, rejected = (0, 0) if survey is None else (survey.rows, survey.rejected)
        return {
            "read": read,
            "good": read - rejected,
            "rejected": rejected,
            "total": round(read * self.scale),
            "estimated": not self.complete,
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
                {**column(name, member.type, None), **member.to_json(survey.sizes.count)}
                for name, member in survey.members.known.items()
            ]
        layout = survey.layout
        looked = survey.evidence or dict.fromkeys(layout.attributes[:MOST_COLUMNS], ColumnProfile())
        return [
            {
                **column(name, kind, record.columns[origin] if isinstance(origin, int) else None),
                **(looked[name].to_json() if name in looked else {}),
            }
            for name, kind, origin in zip(
                layout.attributes, record.types, layout.origins, strict=True
            )
        ]


def make_plan(
    payload: Mapping[str, Any],
    context: Context,
    *,
    sample: Sample | None = None,
    watch: Callable[[int, int, int], None] = lambda _read, _size, _rows: None,
) -> Plan:
    """Read and check everything; write nothing.

    What the import would fail of is in the plan's `error`, with all that was found before.
    `watch` is told of bytes read, of how many, and of rows. Raises `InvalidPayload`, and
    `Interrupted` when it was stopped.
    """
    asked = Payload.from_json(payload)
    plan = Plan(asked, now=context.now())
    try:
        context.access.check_table(asked.table)
        with temporary_ledger() as ledger, rare_gc():
            try:
                _read_all_rows(plan, ledger, context, sample or Sample(), watch)
            except DdbloadError:
                if plan.record is None:
                    with suppress(DdbloadError):
                        _sample_first_rows(plan, ledger, context)
                raise
    except Interrupted:
        raise
    except DdbloadError as error:
        plan.error = Failure(error.name, error.message)
    except Exception as error:  # noqa: BLE001 - its text may hold row data: its place may not
        named = unexpected(error, "planning")
        plan.error = Failure(named.name, named.message)
    return plan


def _read_all_rows(
    plan: Plan,
    ledger: Ledger,
    context: Context,
    sample: Sample,
    watch: Callable[[int, int, int], None],
) -> None:
    client, asked = context.clients.dynamodb, plan.payload
    table, answer = describe_table_with_response(
        client, asked.table, retry_policy=context.retry_policy
    )
    facts = facts_of(table, answer, client.meta.region_name)
    more = ask_more(client, asked.table)
    plan.facts = replace(
        facts,
        recovery=more.recovery,
        time_to_live=more.time_to_live,
        unknown=tuple(more.unknown),
    )
    prepared = prepare_run("plan", asked, ledger, context, table=table)
    plan.record, plan.resolved = prepared.record, prepared.detected
    record = prepared.record
    plan.size = expected_bytes(record)
    survey = Survey(record, plan.facts.indexes, expires=plan.facts.time_to_live)
    plan.survey = survey
    rows_enough = math.inf if sample.rows is None else sample.rows
    bytes_enough = math.inf if sample.share is None else sample.share * plan.size
    ended = False

    def must_end() -> bool:
        nonlocal ended
        if context.should_stop():
            raise Interrupted("stopped while reading; nothing was written")
        enough = survey.rows >= rows_enough or survey.kept >= bytes_enough
        if enough and record.size is None:
            # Of what is compressed, as much as tells how it expands; or the little that is left.
            enough = survey.expansion is not None and survey.kept < expected_bytes(record)
        ended = enough or context.must_end()
        return ended

    # A file without any row has no columns to read by.
    if record.columns or not record.payload.source.delimited:
        for walked in iter_row_batches(
            RunReader(record), ledger, context, piece_bytes=PIECE_BYTES, must_end=must_end
        ):
            survey.add(walked)
            watch(survey.kept, plan.size, survey.rows)
    plan.complete = not ended
    if plan.complete and 0 < survey.rows == survey.rejected:
        raise NothingWritten(
            "every row would be rejected, so nothing would be written; most often the delimiter, a"
            " type or the key's column is not the file's"
        )
    limit = record.payload.options.max_rejects
    if survey.rejected > limit:
        raise TooManyRejects(
            f"{survey.rejected:,} rows would be rejected, and {limit:,} may be (max_rejects): mend"
            " the file, or allow more (--max-rejects)"
        )


def _sample_first_rows(plan: Plan, ledger: Ledger, context: Context) -> None:
    """See what the source's first rows are like, where it does not fit the table, or there is none.

    That may well tell why.
    """
    bare = replace(plan.payload, types={}, mapping=ColumnMapping(), options=Options())
    prepared = prepare_run("plan", bare, ledger, context, table=NO_TABLE)
    record = prepared.record
    survey = Survey(record, ())
    if record.columns or not record.payload.source.delimited:
        rows = iter_row_batches(RunReader(record), ledger, context, piece_bytes=PIECE_BYTES)
        with closing(rows):
            for walked in islice(rows, 1):
                survey.add(walked)
    plan.record, plan.resolved, plan.survey = record, prepared.detected, survey
    plan.size = expected_bytes(record)
