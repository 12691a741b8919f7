"""Handler of the Preflight state."""

from __future__ import annotations

from typing import Any

from ddbload.contracts.states import PreflightTask
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.preflight import preflight
from lambdas.deployment import Deployment
from lambdas.entry import function, logger


@function(Deployment.step_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Cut the source into chunks: `PreflightTask` to `PreflightResult`."""
    context.notice = _log_notice
    result = preflight(PreflightTask.from_json(event), context)
    logger.info(
        "cut",
        extra={"run": result.run, "chunks": result.chunks, "whole": result.cursor is None},
    )
    return result.to_json()


def _log_notice(notice: str) -> None:
    logger.warning("notice", extra={"notice": notice})
