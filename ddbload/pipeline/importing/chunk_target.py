"""The target as the import of a chunk sees it: requests, their limits, and what sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.column_mapping import row_writes
from ddbload.contracts.run_record import RunRecord
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.row_window import PendingRows
from ddbload.write.drivers.engines import transport_for
from ddbload.write.requests import EndpointFeatures, ModeRequests, requests_for, row_order
from ddbload.write.row_write_requests import RowWriteRequests
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.scheduler.request_limits import BATCH_WRITE, RequestLimits


@dataclass(frozen=True, slots=True)
class ChunkTarget:
    """What the import of a chunk needs to know of the target."""

    items: Callable[[Sequence[int]], Sequence[Any]]
    """Makes the rows with these handles, as the transport's answers need them."""
    body: Callable[[Sequence[int]], Any]
    """Makes what the event loop's transport takes for a request that writes these rows."""
    transport: Callable[[], Any]
    """Makes the transport of the run's engine."""
    order: RowOrder
    """Order in which rows of one key are written."""
    is_proven: Callable[[], bool] = lambda: True
    """Until it returns true, one request is in flight at a time."""
    batch_rows: int | None = None
    """Most rows of a request; None: as many as the service takes."""
    request_limits: RequestLimits = BATCH_WRITE
    keeps_duplicates: bool = False
    """A row that is sent twice is there twice."""
    follow_ups: Callable[[], int] = lambda: 0
    """Counts the requests that were sent beside those of the scheduler."""


def table_target(
    record: RunRecord,
    context: Context,
    pending: PendingRows,
    identical: RowOutcome,
    *,
    batches: bool,
) -> ChunkTarget:
    """Return the table of a run, for the rows of one chunk.

    Args:
        record: The run.
        context: Clients, and what is known of their endpoint.
        pending: Rows until their outcome is known.
        identical: Outcome of a row that finds an equal item in the table.
        batches: Requests to a table may have several rows.
    """
    endpoint = context.endpoint or EndpointFeatures()
    options = record.payload.options
    writes = row_writes(record.payload, record.table)
    requests: ModeRequests = (
        requests_for(options, record.table, identical, endpoint)
        if writes is None
        else RowWriteRequests(
            *(writes, endpoint, identical), same_types=record.payload.source.delimited
        )
    )
    return ChunkTarget(
        items=pending.items,
        body=pending.body,
        transport=lambda: transport_for(options, context.clients, requests),
        order=row_order(options),
        is_proven=lambda: options.condition is None or endpoint.proven_condition,
        batch_rows=requests.most_rows if batches else 1,
    )
