"""Names of the CloudWatch metrics that the functions emit, and alarms and dashboards read.

Each has one dimension: `service`, the stack's name.
"""

from __future__ import annotations

METRICS_NAMESPACE = "ddbload"
SERVICE_DIMENSION = "service"

ROWS_READ, ROWS_WRITTEN, ROWS_REJECTED, ROWS_SUPERSEDED, ROWS_SKIPPED = ROW_METRICS = (
    *("RowsRead", "RowsWritten", "RowsRejected", "RowsSuperseded", "RowsSkipped"),
)
"""Settled rows, by `RowCounts`' fields."""
THROTTLED_REQUESTS = "ThrottledRequests"
CONSUMED_WRITE_UNITS = "ConsumedWriteUnits"
STALLED_INVOCATIONS = "StalledInvocations"
"""Invocations of ImportChunk that settled no row."""
RUNS_SUCCEEDED = "RunsSucceeded"
RUNS_SUCCEEDED_WITH_REJECTS = "RunsSucceededWithRejects"
RUNS_FAILED = "RunsFailed"
RUNS_CANCELLED = "RunsCancelled"
RUN_METRICS = (RUNS_SUCCEEDED, RUNS_SUCCEEDED_WITH_REJECTS, RUNS_FAILED, RUNS_CANCELLED)
