"""Handler of the Report state."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.contracts.results import ExecutionAttempt, ExecutionOutput
from ddbload.contracts.states import ReportCursor, ReportRequest, failed_report
from ddbload.steps.report import report_execution
from ddbload.steps.run_end import announce
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice, logger


@function(Deployment.ledger_context, failed=failed_report)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Report on a run: `ReportRequest` to `ExecutionOutput`, or to the state to continue from."""
    context.notice = log_notice
    request = ReportRequest.from_json(event)
    made = report_execution(request.state, context, redrives=request.redrives)
    if isinstance(made, ReportCursor):
        return {**event["state"], "report": made.to_json()}
    return report_end(made, request.attempt, context)


def report_end(
    outcome: ExecutionOutput, attempt: ExecutionAttempt | None, context: Context
) -> dict[str, Any]:
    """Log and announce the end of a run's attempt; return it as JSON."""
    logger.info(
        "reported",
        extra={"run": outcome.run, "status": outcome.status, "rows": outcome.rows.to_json()},
    )
    error = announce(outcome, attempt, context)
    if error is not None:
        logger.warning("not announced", extra={"error": error.name, "cause": error.message})
    return outcome.to_json()
