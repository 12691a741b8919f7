"""Events and metrics that tell how runs go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from ddbload.contracts.messages import SPARSE, JsonObjectReader, Message
from ddbload.contracts.row_counts import OUTCOMES, RowCounts
from ddbload.contracts.run_record import LoadedBefore

EVENT_SOURCE = "ddbload"
"""Source of ddbload's events."""
RUN_COMPLETED = "ddbload.run.completed"
"""Detail type of `RunCompleted`."""

# Names of the CloudWatch metrics that the functions emit, and alarms and dashboards read.
METRICS_NAMESPACE = "ddbload"
SERVICE_DIMENSION = "service"
"""The one dimension of each metric: the stack's name."""
ROW_METRICS = tuple(f"Rows{name.capitalize()}" for name in ("read", *OUTCOMES))
"""Settled rows, by `RowCounts`' fields."""
ROWS_READ, ROWS_REJECTED = "RowsRead", "RowsRejected"
THROTTLED_REQUESTS = "ThrottledRequests"
CONSUMED_WRITE_UNITS = "ConsumedWriteUnits"
STALLED_INVOCATIONS = "StalledInvocations"
"""Invocations of ImportChunk that settled no row."""
RUNS_SUCCEEDED = "RunsSucceeded"
RUNS_SUCCEEDED_WITH_REJECTS = "RunsSucceededWithRejects"
RUNS_FAILED = "RunsFailed"
RUNS_CANCELLED = "RunsCancelled"
RUN_METRICS = (RUNS_SUCCEEDED, RUNS_SUCCEEDED_WITH_REJECTS, RUNS_FAILED, RUNS_CANCELLED)


@dataclass(frozen=True, slots=True)
class RunCompleted(Message):
    """Detail of the event `ddbload.run.completed`. It has names and counts, and no row data."""

    run: str
    status: str
    """One of `results.STATUSES`."""
    table: str | None
    """None if the run never began; so is `source`."""
    source: str | None
    """Location of the source, such as s3://bucket/key."""
    rows: RowCounts
    uncertain: int
    """Written rows whose item may have been there before: an attempt was killed, or a request got
    no answer."""
    chunks: int
    chunks_done: int
    rejects: str | None
    """Folder of the rejects in the ledger; None without rejects."""
    error: str | None
    """Name of the error; its message may name a column, and is in the report."""
    execution: str | None
    """ARN of the execution. With `redrives` it tells the attempts of a run apart."""
    redrives: int
    """Number of times that the execution was redriven before."""
    loaded_before: Annotated[LoadedBefore | None, SPARSE] = None
    """Objects that the run left out, because the table had loaded them."""


@dataclass(frozen=True, slots=True)
class StoppedExecution:
    """Step Functions' event "Execution Status Change" for an execution that has ended."""

    arn: str
    redrives: int | None
    """Number of times that the execution was redriven before it ended; None if not told."""

    @classmethod
    def of(cls, event: object) -> Self:
        """Read EventBridge's event. Unknown fields are allowed: the event belongs to AWS."""
        detail = JsonObjectReader(event, "event").nested("detail")
        return cls(detail.text("executionArn"), detail.optional_whole("redriveCount"))
