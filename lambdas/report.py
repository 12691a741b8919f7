"""Handler of the Report state."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from ddbload.contracts.results import SUCCEEDED, SUCCEEDED_WITH_REJECTS
from ddbload.contracts.states import ReportTask
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.report import report_execution
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice, logger, metrics

_METRICS = {SUCCEEDED: "RunsSucceeded", SUCCEEDED_WITH_REJECTS: "RunsSucceededWithRejects"}


@function(Deployment.ledger_context)
def handler(event: Any, context: LedgerContext) -> dict[str, Any]:
    """Report on a run: `ReportTask` to `ExecutionOutput`."""
    context.notice = log_notice
    outcome = report_execution(ReportTask.from_json(event), context)
    metrics.add_metric(_METRICS.get(outcome.status, "RunsFailed"), MetricUnit.Count, 1)
    logger.info(
        "reported",
        extra={"run": outcome.run, "status": outcome.status, "rows": outcome.rows.to_json()},
    )
    return outcome.to_json()
