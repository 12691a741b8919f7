"""A small source: imported and reported by the invocation of preflight that cut it.

The steps and their ledger are those of every run. So wherever this ends early (a kill, the
deadline, an error that may pass), the state machine goes on from what the ledger has.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ddbload.context import Context
from ddbload.contracts.results import ExecutionOutput
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import (
    ImportTask,
    PreflightRequest,
    PreflightResult,
    PreflightTask,
    ReportCursor,
    ReportTask,
)
from ddbload.errors import DdbloadError
from ddbload.ledger.remembering_store import RememberingStore
from ddbload.steps.preflight import preflight

SHARE_OF_TIME = 4
"""An import may be expected to take one part in this many of the time that is left."""


def preflight_or_run(
    request: PreflightRequest, context: Context
) -> PreflightResult | PreflightTask | ExecutionOutput:
    """Run preflight; import and report a small source, too. Raises as `preflight`.

    A source is small if it has at most `context.small_bytes` when decompressed, in one chunk, and
    no limit, of which other workers would have to know.
    """
    if not context.small_bytes:
        return preflight(request.state, context)
    # For the caller, too, which announces the end.
    context.store = RememberingStore(context.store)
    result = preflight(request.state, context)
    if isinstance(result, PreflightTask) or not _is_small(result, context):
        return result
    return _finish(result, request.redrives, context) or result


def _finish(result: PreflightResult, redrives: int, context: Context) -> ExecutionOutput | None:
    """Import the chunk, if there is one, and report the run; None if the state machine has to."""
    # A larger source's preflight starts without them.
    from ddbload.steps.import_chunk import import_chunk
    from ddbload.steps.report import report_execution

    for chunk in context.ledger(result.run).find_manifest() or ():
        try:
            # The table was described just now, and Report looks again.
            imported = import_chunk(
                ImportTask(result.run, (chunk,)), replace(context, is_whole_run=True)
            )
        except DdbloadError as error:
            if not error.permanent:
                return None
            # It is in the ledger, and fails the run.
        else:
            if imported.chunks:
                return None
    with suppress(DdbloadError):
        made = report_execution(
            ReportTask(result.run, execution=result.execution), context, redrives=redrives
        )
        return None if isinstance(made, ReportCursor) else made
    return None


def _is_small(result: PreflightResult, context: Context) -> bool:
    if result.cursor is not None or result.chunks > 1:
        return False
    ledger = context.ledger(result.run)
    record = ledger.record()
    if record.loads_nothing or not result.chunks:
        return True
    options = record.payload.options
    if record.payload.source.kind.is_container or options.max_wcu or options.max_cost:
        return False
    (chunk,) = ledger.find_manifest() or ()
    bytes_ = chunk.end - chunk.start
    return (
        bytes_ <= context.small_bytes
        and _seconds(bytes_, record) <= (context.deadline - context.clock()) / SHARE_OF_TIME
    )


def _seconds(size: int, record: RunRecord) -> float:
    """Estimate the longest time that the table takes for `size` bytes of rows.

    A row has a byte for each column at least, and takes a write unit for each KiB that it begins.
    """
    units = size / max(1, len(record.columns)) + size / 1024
    return units / max(1.0, record.capacity or 1.0)
