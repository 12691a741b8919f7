"""Handler of the Report state."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from ddbload.context import Context
from ddbload.contracts.results import (
    ALREADY_LOADED,
    CANCELLED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    ExecutionAttempt,
    ExecutionOutput,
)
from ddbload.contracts.run_notice import (
    RUNS_CANCELLED,
    RUNS_FAILED,
    RUNS_SUCCEEDED,
    RUNS_SUCCEEDED_WITH_REJECTS,
)
from ddbload.contracts.states import ReportCursor, ReportRequest
from ddbload.steps.report import report_execution
from ddbload.steps.run_end import announce
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice, logger, metrics


@function(Deployment.ledger_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Report on a run: `ReportRequest` to `ExecutionOutput`, or to the state to continue from."""
    context.notice = log_notice
    request = ReportRequest.from_json(event)
    made = report_execution(request.state, context, redrives=request.redrives)
    if isinstance(made, ReportCursor):
        return {**event["state"], "report": made.to_json()}
    return report_end(made, request.attempt, context)


_METRICS = {
    SUCCEEDED: RUNS_SUCCEEDED,
    ALREADY_LOADED: RUNS_SUCCEEDED,
    SUCCEEDED_WITH_REJECTS: RUNS_SUCCEEDED_WITH_REJECTS,
    CANCELLED: RUNS_CANCELLED,
}


def report_end(
    outcome: ExecutionOutput, attempt: ExecutionAttempt | None, context: Context
) -> dict[str, Any]:
    """Announce, count and log the end of a run's attempt; return it as JSON."""
    metrics.add_metric(_METRICS.get(outcome.status, RUNS_FAILED), MetricUnit.Count, 1)
    logger.info(
        "reported",
        extra={"run": outcome.run, "status": outcome.status, "rows": outcome.rows.to_json()},
    )
    error = announce(outcome, attempt, context)
    if error is not None:
        logger.warning("not announced", extra={"error": error.name, "cause": error.message})
    return outcome.to_json()
