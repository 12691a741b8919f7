"""Handler of the Preflight state."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.contracts.results import ExecutionOutput
from ddbload.contracts.states import PreflightRequest, PreflightTask, failed_preflight
from ddbload.steps.small_run import preflight_or_run
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice, logger


@function(Deployment.step_context, failed=failed_preflight)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Cut the source into chunks, and import a small one.

    `PreflightRequest` to `PreflightResult`, to its next task, or to `ExecutionOutput`.
    """
    context.notice = log_notice
    request = PreflightRequest.from_json(event)
    result = preflight_or_run(request, context)
    if isinstance(result, ExecutionOutput):
        # Of small sources only.
        from lambdas.report import report_end

        return report_end(result, request.attempt, context)
    if isinstance(result, PreflightTask):
        if result.wait is not None:
            logger.info("waits", extra={"run": result.run, "seconds": result.wait})
        else:
            logger.info("lists", extra={"run": result.run})
        return result.to_json()
    logger.info(
        "cut",
        extra={"run": result.run, "chunks": result.chunks, "whole": result.cursor is None},
    )
    return result.to_json()
