"""Make a plan: check a source as an import does, and estimate its cost (see docs/plan.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ddbload.aws.table_description import describe_table_with_response, recent_traffic
from ddbload.context import Context
from ddbload.contracts.column_mapping import shown
from ddbload.contracts.options import Options
from ddbload.contracts.payload import ColumnMapping, Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.source import ZSTD
from ddbload.errors import (
    DdbloadError,
    Interrupted,
    NothingWritten,
    TableNotFound,
    TooManyRejects,
    unexpected,
)
from ddbload.ledger.ledger import Ledger, temporary_ledger
from ddbload.plan.plan import Plan
from ddbload.plan.survey import Survey, SurveyJob
from ddbload.plan.table_facts import TableFacts, new_table, table_facts, with_other_settings
from ddbload.reading.open_sources import open_decoded, reopen
from ddbload.reading.parts import PartOutput, read_parts
from ddbload.reading.row_batches import RowBatch, first_rows, iter_row_batches
from ddbload.reading.row_blocks import RunReader, expected_bytes, rare_gc
from ddbload.source.decoding.compression import has_frames
from ddbload.source.decoding.decoded_source import why_uncut
from ddbload.source.decoding.inflate import zlib_library
from ddbload.steps.checks import NO_TABLE
from ddbload.steps.prepare import prepare_run

SURVEY_READ_BYTES = 256 * 1024
"""Bytes read at a time: a compromise of speed and memory."""
_FRAMES_WITHIN_BYTES = 32 * 1024 * 1024
"""Bytes of a Zstandard object that are searched for a second frame: those of pzstd are smaller."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Part of the source to read: a number of rows, or a share of the bytes."""

    rows: int | None = None
    share: float | None = None
    exact: bool = False
    """Read exactly the number of rows, and plan for these, instead of estimating the rest."""


class _PlanTaker:
    """Merges surveys of parts, in order, into the plan's."""

    def __init__(
        self,
        plan: Plan,
        job: SurveyJob,
        watch: Callable[[int, int, int], None],
    ) -> None:
        record, survey = plan.record, plan.survey
        assert record is not None, "the source was checked"  # noqa: S101
        assert survey is not None, "the source was checked"  # noqa: S101
        self._survey, self._job = survey, job
        self._size, self._watch = plan.size or 0, watch
        self._reader = RunReader(record)

    def take(self, summary: Survey, output: PartOutput, start: Cursor) -> bool:  # noqa: ARG002
        """Merge the survey of a part."""
        shift = 0 if self._reader.record.objects is not None else start.line - 1
        self._survey.merge(summary, lines=shift)
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Survey a part here. What was read before an error is counted."""
        part = self._job.begin(self._reader)
        try:
            for batch in batches:
                part.add(batch)
                self._watch(part.kept, self._size, self._survey.rows + part.rows)
        finally:
            self._survey.merge(part)

    def _show(self) -> None:
        self._watch(self._survey.kept, self._size, self._survey.rows)


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
    if record.has_rows:
        job = SurveyJob(tuple(facts.indexes), facts.time_to_live, SURVEY_READ_BYTES)
        read_parts(
            *(record, ledger, context, job),
            _PlanTaker(plan, job, watch),
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

    if record.has_rows:
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
    if record.has_rows:
        rows = iter_row_batches(RunReader(record), ledger, context, piece_bytes=SURVEY_READ_BYTES)
        with closing(rows):
            for batch in islice(rows, 1):
                survey.add(batch)
    plan.record, plan.detected, plan.survey = record, prepared.detected, survey
    plan.size = expected_bytes(record)


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

    An error that the import would fail with becomes the plan's `error`.

    Args:
        payload: Input of the run.
        context: Clients, access policy and clock.
        sample: Part of the source to read; by default all of it.
        prewarm: Write units a second of warm throughput to price.
        watch: Called with bytes read, bytes in all, and rows read.
        begun: Called with the record of what was found, before rows are read.
        processes: Processes that read the source; a sample is read by one.
        make_context: Maker of the context of another process.
        new_keys: Names and types of the keys of a table that is still to be made.

    Raises:
        InvalidPayload: If the payload is not valid.
        Interrupted: If the context asks to stop.
    """
    asked = Payload.from_json(payload)
    plan = Plan(asked, now=context.now(), prewarm=prewarm, new_keys=tuple(new_keys))
    try:
        context.access.check_table(asked.table)
        with temporary_ledger() as ledger, rare_gc():
            try:
                begun(_prepare(plan, ledger, context))
                context = replace(context, notice=plan.notices.append)
                if sample is None:
                    read_all_rows(plan, ledger, context, watch, processes, make_context)
                else:
                    read_sample(plan, ledger, context, sample, watch)
                _check_rejects(plan)
            except DdbloadError:
                if plan.record is None:
                    with suppress(DdbloadError):
                        sample_first_rows(plan, ledger, context)
                raise
    except Interrupted:
        raise
    except DdbloadError as error:
        plan.error, plan.refused = Failure.of(error), error.reading
    except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is kept
        named = unexpected(error, "planning")
        plan.error = Failure.of(named)
    return plan


def _prepare(plan: Plan, ledger: Ledger, context: Context) -> RunRecord:
    """Describe the table, and check the source against it as preflight does."""
    plan.facts = facts = _describe_table(plan, context)
    prepared = prepare_run(
        *("plan", plan.payload, ledger, context), table=facts.table, described=plan.described
    )
    plan.record, plan.detected = prepared.record, prepared.detected
    plan.cells = prepared.notices
    record = prepared.record
    plan.size = expected_bytes(record)
    plan.survey = Survey(record, plan.facts.indexes, expires=plan.facts.time_to_live)
    _look_for_cuts(plan, record, context)
    return record


def _describe_table(plan: Plan, context: Context) -> TableFacts:
    """Describe the table, or one with the new keys if there is none."""
    client, name = context.clients.dynamodb, plan.payload.table
    region = client.meta.region_name
    try:
        table, plan.described = describe_table_with_response(
            *(client, name),
            retry_policy=context.retry_policy,
            suggest=context.access.paths and not plan.new_keys,
        )
    except TableNotFound:
        if not plan.new_keys:
            raise
        table, plan.described = new_table(name, plan.new_keys)
        plan.is_new = True
        return replace(table_facts(table, plan.described, region), unknown=())
    facts = with_other_settings(table_facts(table, plan.described, region), client)
    return replace(facts, traffic=recent_traffic(context.clients, name, plan.now))


def _look_for_cuts(plan: Plan, record: RunRecord, context: Context) -> None:
    """Find out whether a single compressed object can be cut, by its first bytes."""
    if record.objects is not None or not record.wants_index(plan.size or 0):
        return
    source = record.payload.source
    with closing(reopen(record.pinned, context)) as raw:
        file = open_decoded(raw, source, record.pinned)
        if not file.has_seek_points:
            return
        if source.compression == ZSTD:
            looked_at = min(raw.size, _FRAMES_WITHIN_BYTES)
            plan.is_cut = has_frames(raw.stream(0, looked_at, SURVEY_READ_BYTES))
        else:
            plan.is_cut = zlib_library() is not None
    if not plan.is_cut:
        plan.uncut = why_uncut(source.compression)


def _check_rejects(plan: Plan) -> None:
    record, survey = plan.record, plan.survey
    assert record is not None, "the source was checked"  # noqa: S101
    assert survey is not None, "the source was checked"  # noqa: S101
    if plan.complete and 0 < survey.rows == survey.rejected and not survey.filtered:
        first = survey.rejects[0]
        where = "" if first.column is None else f" in {shown(first.column)}"
        raise NothingWritten(
            f"every row would be rejected, so nothing would be written: {first.rows:,}"
            f" {first.cause}{where}; {NothingWritten.advice(first.cause)}"
        )
    limit = record.payload.options.reject_limit
    if limit.exceeded(survey.rejected, survey.rows):
        rows = "rows"
        if limit.percent is not None:
            rows = f"of {survey.rows:,} rows{'' if plan.complete else ' read'}"
        raise TooManyRejects(
            f"{survey.rejected:,} {rows} would be rejected, and max_rejects is {limit}: correct the"
            " file, or allow more (--max-rejects)"
        )
