"""Read a source's rows for a plan: all of them, a sample, or the first ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from ddbload.contracts.options import Options
from ddbload.contracts.payload import ColumnMapping
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import (
    Interrupted,
)
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.prepare import prepare_run
from ddbload.pipeline.preflight.table_checks import NO_TABLE
from ddbload.pipeline.reading.row_batches import RowBatch, first_rows, iter_row_batches
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.settle_spans import settle_spans
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.pipeline.reading.span_pool import FinishedOutput
from ddbload.plan.survey import Survey, SurveyJob

if TYPE_CHECKING:
    from ddbload.plan.plan import Plan

SURVEY_READ_BYTES = 256 * 1024
"""Bytes read at a time: a compromise of speed and memory."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Part of the source to read: a number of rows, or a share of the bytes."""

    rows: int | None = None
    share: float | None = None
    exact: bool = False
    """Read exactly the number of rows, and plan for these, instead of estimating the rest."""


class _PlanTaker:
    """Merges surveys of spans, in order, into the plan's."""

    def __init__(
        self,
        plan: Plan,
        job: SurveyJob,
        context: Context,
        watch: Callable[[int, int, int], None],
    ) -> None:
        record, survey = plan.record, plan.survey
        assert record is not None, "the source was checked"  # noqa: S101
        assert survey is not None, "the source was checked"  # noqa: S101
        self._survey, self._job, self._context = survey, job, context
        self._size, self._watch = plan.size or 0, watch
        self._reader = RunReader(record)

    def take(self, summary: Survey, output: FinishedOutput, start: Cursor) -> bool:  # noqa: ARG002
        """Merge the survey of a span."""
        shift = 0 if self._reader.record.objects is not None else start.line - 1
        self._survey.merge(summary, lines=shift)
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Survey a span here. What was read before an error is counted."""
        part = self._job.begin(self._reader)
        try:
            for batch in batches:
                self.check_stop()
                part.add(batch)
                self._watch(part.kept, self._size, self._survey.rows + part.rows)
        finally:
            self._survey.merge(part)

    def check_stop(self) -> None:
        """Raise `Interrupted` if the context asks to stop."""
        if self._context.should_stop():
            raise Interrupted("stopped while reading the source")

    def _show(self) -> None:
        self._watch(self._survey.kept, self._size, self._survey.rows)


def _has_rows(record: RunRecord) -> bool:
    # A delimited file without rows has no columns.
    return bool(record.columns) or not record.payload.source.delimited


def read_all_rows(
    plan: Plan,
    ledger: Ledger,
    context: Context,
    watch: Callable[[int, int, int], None],
    processes: int,
    make_context: Callable[[], Context] | None,
) -> None:
    record, facts = plan.record, plan.facts
    assert record is not None, "the source was checked"  # noqa: S101
    assert facts is not None, "the table was described"  # noqa: S101
    if _has_rows(record):
        job = SurveyJob(tuple(facts.indexes), facts.time_to_live, SURVEY_READ_BYTES)
        settle_spans(
            *(record, ledger, context, job),
            _PlanTaker(plan, job, context, watch),
            processes=processes,
            make_context=make_context,
        )
    plan.complete = True


def read_sample(
    plan: Plan,
    ledger: Ledger,
    context: Context,
    sample: Sample,
    watch: Callable[[int, int, int], None],
) -> None:
    record, survey, size = plan.record, plan.survey, plan.size or 0
    assert record is not None, "the source was checked"  # noqa: S101
    assert survey is not None, "the source was checked"  # noqa: S101
    rows_enough = math.inf if sample.rows is None else sample.rows
    bytes_enough = math.inf if sample.share is None else sample.share * size
    ended = False

    def must_end() -> bool:
        nonlocal ended
        if context.should_stop():
            raise Interrupted("stopped while reading the source")
        enough = survey.rows >= rows_enough or survey.kept >= bytes_enough
        if enough and record.size is None and not sample.exact:
            # Of a compressed source, read on until its expansion is known.
            enough = survey.expansion is not None and survey.kept < expected_bytes(record)
        ended = enough or context.must_end()
        return ended

    if _has_rows(record):
        read = iter_row_batches(
            RunReader(record), ledger, context, piece_bytes=SURVEY_READ_BYTES, must_end=must_end
        )
        with closing(read):
            exact = sample.rows if sample.exact else None
            for batch in read if exact is None else first_rows(read, exact):
                survey.add(batch)
                watch(survey.kept, size, survey.rows)
    if sample.exact and survey.rows >= rows_enough:
        plan.first, ended = sample.rows, True
    plan.complete = not ended


def sample_first_rows(plan: Plan, ledger: Ledger, context: Context) -> None:
    """Add a survey of the source's first rows to a plan whose preflight failed.

    If the source does not fit the table, or the table is missing, the rows may show why.
    """
    bare = replace(plan.payload, types={}, mapping=ColumnMapping(), where=(), options=Options())
    prepared = prepare_run("plan", bare, ledger, context, table=NO_TABLE)
    record = prepared.record
    survey = Survey(record, ())
    if record.columns or not record.payload.source.delimited:
        rows = iter_row_batches(RunReader(record), ledger, context, piece_bytes=SURVEY_READ_BYTES)
        with closing(rows):
            for batch in islice(rows, 1):
                survey.add(batch)
    plan.record, plan.detected, plan.survey = record, prepared.detected, survey
    plan.size = expected_bytes(record)
