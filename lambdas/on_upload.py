"""Handler of the upload queue, whose messages are EventBridge's `Object Created` events."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.errors import DdbloadError
from ddbload.steps.uploads import handle_batch, on_upload
from lambdas.deployment import Deployment
from lambdas.entry import deployment, function, log_failure, logger


@function(Deployment.ledger_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Start runs for a batch of uploads; return the messages to deliver again."""
    settings = deployment()

    def start(uploaded: object) -> dict[str, Any]:
        done = on_upload(uploaded, context, settings.uploads, settings.executions)
        logger.info("upload", extra=done)
        return done

    def failed(message: str, error: DdbloadError) -> None:
        log_failure(error, message_id=message)

    if "Records" not in event:
        # An event that was on its way to the function when the stack got its queue.
        return start(event)
    return handle_batch(event, start, must_end=context.must_end, failed=failed)
