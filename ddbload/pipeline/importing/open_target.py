"""Open the target of a run for the rows of one chunk: a table, a bucket or a queue."""

from __future__ import annotations

from ddbload.contracts.column_mapping import row_writes
from ddbload.contracts.options import BUCKET_KIND, QUEUE_KIND
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import UPDATE
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.chunk_target import ChunkTarget
from ddbload.pipeline.importing.merged_updates import MergedUpdates
from ddbload.pipeline.importing.row_window import PendingRows
from ddbload.write.drivers.engines import transport_for
from ddbload.write.requests import EndpointFeatures, ModeRequests, requests_for, row_order
from ddbload.write.row_write_requests import RowWriteRequests
from ddbload.write.scheduler.outcome_tracker import RowOutcome


def open_target(
    record: RunRecord,
    context: Context,
    pending: PendingRows,
    identical: RowOutcome,
    *,
    batches: bool,
) -> ChunkTarget:
    """Return the target of a run, for the rows of one chunk.

    Args:
        record: The run.
        context: Clients, and what is known of their endpoint.
        pending: Rows until their outcome is known.
        identical: Outcome of a row that finds an equal item in the table.
        batches: Requests to a table may have several rows.
    """
    if record.table.kind == BUCKET_KIND:
        # Imported here: most runs write to a table.
        from ddbload.pipeline.importing.bucket_target import bucket_target

        return bucket_target(record, context, pending)
    if record.table.kind == QUEUE_KIND:
        from ddbload.pipeline.importing.queue_target import queue_target

        return queue_target(record, context, pending)
    return _table_target(record, context, pending, identical, batches=batches)


def _table_target(
    record: RunRecord,
    context: Context,
    pending: PendingRows,
    identical: RowOutcome,
    *,
    batches: bool,
) -> ChunkTarget:
    endpoint = context.endpoint or EndpointFeatures()
    options = record.payload.options
    writes = row_writes(record.payload, record.table)
    requests: ModeRequests = (
        requests_for(options, record.table, identical, endpoint)
        if writes is None
        else RowWriteRequests(
            *(writes, endpoint, identical), same_types=record.payload.source.kind.has_columns
        )
    )
    merged = None
    if options.mode == UPDATE and writes is not None:
        merged = MergedUpdates(pending, writes)
    rows = merged or pending
    return ChunkTarget(
        items=rows.items,
        body=rows.body,
        transport=lambda: transport_for(options, context.clients, requests),
        order=row_order(options),
        is_proven=lambda: options.condition is None or endpoint.proven_condition,
        batch_rows=requests.most_rows if batches else 1,
        merged=merged,
    )
