"""Handler of the Preflight state."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.contracts.states import PreflightTask
from ddbload.steps.preflight import preflight
from lambdas.deployment import Deployment
from lambdas.entry import function, log_notice, logger


@function(Deployment.step_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Cut the source into chunks: `PreflightTask` to `PreflightResult`, or to its next task."""
    context.notice = log_notice
    result = preflight(PreflightTask.from_json(event), context)
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
