"""Make a plan: check a source as an import does, and estimate the cost (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from ddbload.context import Context
from ddbload.contracts.column_mapping import shown
from ddbload.contracts.options import Options
from ddbload.contracts.payload import ColumnMapping, Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import DdbloadError, Interrupted, NothingWritten, TooManyRejects, unexpected
from ddbload.ledger.ledger import Ledger, temporary_ledger
from ddbload.planning.advice import PlanWarning
from ddbload.planning.capacity import read_table
from ddbload.planning.plan import Plan
from ddbload.planning.survey import Survey, SurveyJob
from ddbload.reading.parts import PartOutput, read_parts
from ddbload.reading.row_batches import RowBatch, first_rows, iter_row_batches
from ddbload.reading.row_blocks import RunReader, expected_bytes, rare_gc
from ddbload.records import Record
from ddbload.steps.checks import NO_TABLE
from ddbload.steps.prepare import prepare_run

SURVEY_READ_BYTES = 256 * 1024
"""Bytes read at a time: a compromise between speed and memory."""

SurveyWatch = Callable[[int, int], None]
"""Callback that receives the bytes and rows read."""


class Sample(Record):
    """Part of the source to read: a number of rows, or a share of the bytes."""

    rows: int | None = None
    share: float | None = None
    exact: bool = False
    """Plan for exactly these rows, as if the source ended there, instead of estimating the rest."""


class _SurveyTaker:
    """Collector that merges the surveys of parts, in order, into one."""

    def __init__(
        self, survey: Survey, record: RunRecord, job: SurveyJob, watch: SurveyWatch
    ) -> None:
        self._survey, self._record, self._job, self._watch = survey, record, job, watch

    def take(self, summary: Survey, output: PartOutput, start: Cursor) -> bool:  # noqa: ARG002
        """Merge the survey of a part."""
        self._survey.merge(summary, lines=0 if self._record.objects is not None else start.line - 1)
        self._watch(self._survey.kept, self._survey.rows)
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Survey a part in this process. Rows read before an error are counted."""
        part = Survey(self._record, self._job.indexes)
        try:
            for batch in batches:
                part.add(batch)
                self._watch(part.kept, self._survey.rows + part.rows)
        finally:
            self._survey.merge(part)


def make_plan(
    payload: Mapping[str, Any],
    context: Context,
    *,
    sample: Sample | None = None,
    prewarm: int | None = None,
    watch: Callable[[int, int, int], None] = lambda _read, _size, _rows: None,
    begun: Callable[[RunRecord], None] = lambda _: None,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
    new_keys: Sequence[tuple[str, str]] = (),
) -> Plan:
    """Check a source as an import does, without writing, and estimate the import.

    An error that would fail the import becomes the plan's `error`.

    Args:
        payload: Input of the run.
        context: Clients, access policy and clock.
        sample: Part of the source to read; None reads all of it.
        prewarm: Warm throughput to price, in write units per second.
        watch: Called with bytes read, bytes in all, and rows read.
        begun: Called with the run's record before rows are read.
        processes: Processes that read the source. A sample is read by one process.
        make_context: Function that makes the context in another process.
        new_keys: Names and types of the keys of a table that does not exist yet.

    Raises:
        InvalidPayload: If the payload is not valid.
        Interrupted: If the context asks to stop.
    """
    asked = Payload.from_json(payload)
    plan = Plan(asked, context.now(), tuple(new_keys), prewarm)
    try:
        context.access.check_table(asked.table)
        with temporary_ledger() as ledger, rare_gc():
            try:
                plan.facts = facts = read_table(context, asked.table, plan.new_keys)
                prepared = prepare_run(
                    "plan",
                    asked,
                    ledger,
                    context,
                    table=facts.table,
                    described=facts.described,
                )
                record, survey = prepared.record, Survey(prepared.record, facts.indexes)
                plan.record, plan.survey, plan.detected = record, survey, prepared.detected
                plan.notices += [PlanWarning("cell_json", each) for each in prepared.notices]
                begun(record)
                context = replace(
                    context,
                    notice=lambda text: plan.notices.append(PlanWarning("incomplete_scan", text)),
                )

                def show(read: int, rows: int) -> None:
                    watch(read, expected_bytes(record), rows)

                if sample is not None:
                    _read_sample(plan, record, survey, ledger, context, sample, show)
                elif record.has_rows:
                    job = SurveyJob(facts.indexes, SURVEY_READ_BYTES)
                    read_parts(
                        record,
                        ledger,
                        context,
                        job,
                        _SurveyTaker(survey, record, job, show),
                        processes=processes,
                        make_context=make_context,
                    )
                plan.complete = plan.complete or sample is None
                _check_rejects(record, survey, complete=plan.complete)
            except DdbloadError:
                if plan.record is None:
                    with suppress(DdbloadError):
                        _sample_first_rows(plan, ledger, context)
                raise
    except Interrupted:
        raise
    except DdbloadError as error:
        plan.error, plan.refused = Failure.of(error), error.reading
    except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is kept
        plan.error = Failure.of(unexpected(error, "planning"))
    return plan


def _read_sample(
    plan: Plan,
    record: RunRecord,
    survey: Survey,
    ledger: Ledger,
    context: Context,
    sample: Sample,
    watch: SurveyWatch,
) -> None:
    size, ended = expected_bytes(record), False
    rows_enough = math.inf if sample.rows is None else sample.rows
    bytes_enough = math.inf if sample.share is None else sample.share * size

    def must_end() -> bool:
        nonlocal ended
        if context.should_stop():
            raise Interrupted("stopped while reading the source")
        enough = survey.rows >= rows_enough or survey.kept >= bytes_enough
        if enough and record.size is None and not sample.exact:
            # Read more of a compressed source until its compression ratio is known.
            enough = survey.expansion is not None and survey.kept < size
        ended = enough
        return ended

    if record.has_rows:
        batches = iter_row_batches(
            RunReader(record), ledger, context, piece_bytes=SURVEY_READ_BYTES, must_end=must_end
        )
        with closing(batches):
            exact = sample.rows if sample.exact else None
            for batch in batches if exact is None else first_rows(batches, exact):
                survey.add(batch)
                watch(survey.kept, survey.rows)
    if sample.exact and survey.rows >= rows_enough:
        plan.first, ended = sample.rows, True
    plan.complete = not ended


def _sample_first_rows(plan: Plan, ledger: Ledger, context: Context) -> None:
    """Add a survey of the source's first rows to a plan whose preflight failed.

    If the source does not fit the table, or the table is missing, its first rows may show why.
    """
    bare = replace(plan.payload, types={}, mapping=ColumnMapping(), where=(), options=Options())
    prepared = prepare_run("plan", bare, ledger, context, table=NO_TABLE)
    survey = Survey(prepared.record, ())
    if prepared.record.has_rows:
        batches = iter_row_batches(
            RunReader(prepared.record), ledger, context, piece_bytes=SURVEY_READ_BYTES
        )
        with closing(batches):
            for batch in islice(batches, 1):
                survey.add(batch)
    plan.record, plan.detected, plan.survey = prepared.record, prepared.detected, survey


def _check_rejects(record: RunRecord, survey: Survey, *, complete: bool) -> None:
    """Raise the error that an import with these rejects would fail with."""
    if complete and 0 < survey.rows == survey.rejected and not survey.filtered:
        first = survey.rejects[0]
        where = "" if first["column"] is None else f" in {shown(first['column'])}"
        raise NothingWritten(
            f"every row would be rejected, so nothing would be written: {first['rows']:,}"
            f" {first['cause']}{where}; {NothingWritten.advice(first['cause'])}"
        )
    limit = record.payload.options.reject_limit
    if limit.exceeded(survey.rejected, survey.rows):
        rows = "rows"
        if limit.percent is not None:
            rows = f"of {survey.rows:,} rows{'' if complete else ' read'}"
        raise TooManyRejects(
            f"{survey.rejected:,} {rows} would be rejected, and max_rejects is {limit}: correct the"
            " file, or allow more (--max-rejects)"
        )
