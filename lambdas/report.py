"""Handler of the Report state."""

from __future__ import annotations

from typing import Any

from ddbload.context import LedgerContext
from ddbload.contracts.states import ReportCursor, ReportRequest
from ddbload.pipeline.report import report_execution
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice
from lambdas.run_end import report_end


@function(Deployment.ledger_context)
def handler(event: Any, context: LedgerContext) -> dict[str, Any]:
    """Report on a run: `ReportRequest` to `ExecutionOutput`, or to the state to continue from."""
    context.notice = log_notice
    request = ReportRequest.from_json(event)
    made = report_execution(
        request.state, context, redrives=request.redrives, continues=request.continues
    )
    if isinstance(made, ReportCursor):
        return {**event["state"], "report": made.to_json()}
    return report_end(made, request.attempt, context)
