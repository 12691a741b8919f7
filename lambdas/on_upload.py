"""Handler of EventBridge's `Object Created` events."""

from __future__ import annotations

from typing import Any

from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.on_upload import on_upload
from lambdas.deployment import Deployment
from lambdas.entry import deployment, function, logger


@function(Deployment.ledger_context)
def handler(event: Any, context: LedgerContext) -> dict[str, Any]:
    """Start a run for an uploaded object; return the outcome."""
    settings = deployment()
    done = on_upload(event, context, settings.uploads, settings.executions)
    logger.info("upload", extra=done)
    return done
