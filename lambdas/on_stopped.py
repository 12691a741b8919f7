"""Handler of Step Functions' events for executions that failed, timed out or were stopped."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.steps.run_end import conclude_stopped
from lambdas.deployment import Deployment
from lambdas.entry import deployment, function, log_notice
from lambdas.report import report_end


@function(Deployment.ledger_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Conclude the run of an ended execution, unless Report has; return its `ExecutionOutput`."""
    context.notice = log_notice
    concluded = conclude_stopped(event, context, deployment().executions)
    return {} if concluded is None else report_end(*concluded, context)
