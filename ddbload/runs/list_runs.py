"""List the newest runs of a ledger or deployed stack, with a bounded number of requests.

The index of starts (`newest_runs`) has the newest runs; the record and the report of those
that are shown are read concurrently. Two listings of a stack's executions show which runs are at
work, and which executions failed before they had a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any

from ddbload.context import Context
from ddbload.contracts.results import DONE, Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import requested_run
from ddbload.errors import LedgerDamaged, RunNotFound
from ddbload.ledger.history import History
from ddbload.ledger.run_objects import newest_runs
from ddbload.parallel import map_in_threads
from ddbload.records import Record
from ddbload.steps.executions import EXECUTION_RUNNING, Execution, Executions
from ddbload.steps.report import SeenRun, read_run

RUN_READERS = 16
"""Number of runs read concurrently."""


class RunSummary(Record):
    """Entry of a list of runs."""

    run: str
    status: str
    """Status of a report, `RUNNING`, or `LedgerDamaged`."""
    began: float | None
    """Seconds since the epoch; None if unknown."""
    seconds: float | None = None
    source: str | None = None
    table: str | None = None
    mode: str | None = None
    rows: RowCounts | None = None
    """Counts of rows; None if the run has no report."""
    uncertain: int = 0
    """Written rows whose item may have existed before, from the last report."""
    retry_of: str | None = None
    """Run whose corrected rejects this run imports."""
    error: str | None = None
    """Name of the error that ended the run."""

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        rows = None if self.rows is None else {"read": self.rows.read, **self.rows.outcomes}
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "rows": rows}


def list_runs(
    context: Context,
    executions: Executions | None,
    limit: int,
    *,
    statuses: Collection[str] = (),
    table: str | None = None,
    source: str | None = None,
) -> list[RunSummary]:
    """List the newest runs, optionally with some statuses, of one table or of one source.

    Args:
        context: Store of the ledger, and clock.
        executions: Executions of the ledger's stack; None for runs on this machine.
        limit: Maximum number of runs.
        statuses: Statuses to list; empty for all.
        table: Name of the table; None for all.
        source: Location of an object or file that the runs imported, alone or with others.

    Without a filter only the returned runs are read. With a filter, runs are read until enough
    match.
    """
    loaded: set[str] | None = None
    if source is not None:
        pages = History(context.store).read_location(source)
        loaded = {page.load.run for page in pages}

    def wanted(found: RunSummary) -> bool:
        is_of_source = loaded is None or found.run in loaded
        is_of_status = not statuses or found.status in statuses
        return is_of_source and is_of_status and table in (None, found.table)

    is_filtered = bool(statuses) or table is not None or loaded is not None
    running = {} if executions is None else executions.newest(1000, EXECUTION_RUNNING)
    runs = newest_runs(context.store, None if is_filtered else limit)
    runs = [each for each in runs if loaded is None or each in loaded]
    summarize = partial(_summarize, context=context, executions=executions, running=running)
    # Read a few runs at a time, so that a filter can stop early.
    each_run = map_in_threads(summarize, runs, RUN_READERS, max(RUN_READERS, limit))
    with closing(each_run) as summaries:
        found = (summary for _, summary in summaries if summary is not None)
        shown = list(islice(filter(wanted, found), limit))
    if executions is not None:
        unrecorded = _without_record(context, executions, limit, set(runs))
        shown += filter(wanted, unrecorded)
    return sorted(shown, key=lambda each: each.began or 0.0, reverse=True)[:limit]


def _summarize(
    run: str, context: Context, executions: Executions | None, running: Mapping[str, str]
) -> RunSummary | None:
    """Summarize a run; None if it has no request.

    `running`: names of the active executions, by ARN.
    """

    def last_execution(last: Report | None) -> Execution | None:
        """Find the run's last execution, unless its report shows that the run is done."""
        if executions is None:
            return None
        arn = context.ledger(run).find_execution() or executions.arn_of(run)
        if arn in running or run in running.values():
            return Execution(arn, EXECUTION_RUNNING, None, None, 0.0)
        if last is not None and last.status in DONE:
            return None
        return executions.find(arn)

    try:
        return _summary(read_run(run, context, last_execution, segments=False))
    except LedgerDamaged as error:
        return RunSummary(run, error.name, None, error=error.name)
    except RunNotFound:
        return None


def _summary(seen: SeenRun) -> RunSummary:
    state, report, payload = seen.state, seen.report, seen.payload
    # Without a report, the row counts would require reading all segments.
    known = state.reported or (state.running and seen.record is not None)
    return RunSummary(
        run=seen.run,
        status=state.status,
        began=seen.began,
        seconds=state.seconds,
        source=None if payload is None else payload.source.uri,
        table=None if payload is None else payload.table,
        mode=None if payload is None else payload.options.mode,
        rows=report.rows if known else None,
        uncertain=report.uncertain if known else 0,
        retry_of=None if payload is None else payload.retry_of,
        error=None if state.error is None else state.error.name,
    )


def _without_record(
    context: Context, executions: Executions, limit: int, known: Collection[str]
) -> Iterator[RunSummary]:
    """Summarize the newest executions without a request: invalid input, or just started."""

    def summarize(named: tuple[str, str]) -> RunSummary | None:
        arn, name = named
        execution = executions.find(arn)
        if execution is None:
            return None
        run = requested_run(execution.input, name)
        seen = read_run(run, context, lambda _: execution, segments=False)
        if run in known or seen.payload is not None:
            return None
        return _of_input(_summary(seen), execution.input)

    newest = [each for each in executions.newest(limit).items() if each[1] not in known]
    for _, found in map_in_threads(summarize, newest, RUN_READERS, limit):
        if found is not None:
            yield found


def _of_input(summary: RunSummary, given: Any) -> RunSummary:
    """Add source and table from an execution's input, which may be invalid."""
    source, table = _member(given, "source"), _member(given, "target", "table")
    bucket, key = _member(source, "bucket"), _member(source, "key") or _member(source, "prefix")
    return replace(
        summary,
        source=f"s3://{bucket}/{key or ''}" if isinstance(bucket, str) else None,
        table=table if isinstance(table, str) else None,
    )


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
