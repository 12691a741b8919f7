"""Handler of the Report state."""

from __future__ import annotations

from typing import Any

from ddbload.contracts.states import ReportTask
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.report import report_execution
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice
from lambdas.run_end import report_end


@function(Deployment.ledger_context)
def handler(event: Any, context: LedgerContext) -> dict[str, Any]:
    """Report on a run: `ReportTask` to `ExecutionOutput`."""
    context.notice = log_notice
    task = ReportTask.from_json(event)
    return report_end(report_execution(task, context), task.execution, context)
