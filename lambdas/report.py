"""The Report state."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from ddbload.contracts import ReportTask
from ddbload.pipeline.context import Context
from ddbload.pipeline.report import SUCCEEDED, conclude
from lambdas.entry import function, logger, metrics


@function
def handler(event: Any, context: Context) -> dict[str, Any]:
    """From the state to the execution's outcome: `ReportTask` to `Outcome`."""
    outcome = conclude(ReportTask.from_json(event), context)
    ended = "RunsSucceeded" if outcome.status == SUCCEEDED else "RunsFailed"
    metrics.add_metric(ended, MetricUnit.Count, 1)
    logger.info(
        "reported",
        extra={"run": outcome.run, "status": outcome.status, "rows": outcome.rows.to_json()},
    )
    return outcome.to_json()
