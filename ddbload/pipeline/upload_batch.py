"""Start runs for a batch of messages from the upload queue.

The queue delivers at least once, in no order. A message is deleted from it unless its id is in the
answer; then it is delivered again after the queue's visibility timeout, and is a dead letter after
the queue's maxReceiveCount. Source: AWS Lambda Developer Guide, "Handling errors for an SQS event
source in Lambda".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ddbload.errors import DdbloadError, InvalidPayload, ServiceUnavailable, unexpected


def handle_batch(
    batch: dict[str, Any],
    start: Callable[[object], object],
    *,
    must_end: Callable[[], bool],
    failed: Callable[[str, DdbloadError], None],
) -> dict[str, Any]:
    """Call `start` with the event of each message, and return Lambda's answer for the batch.

    The answer names the messages to deliver again: those for which `start` raised an error, which
    `failed` is told, and those not begun when `must_end` became true. Without that limit a function
    that AWS throttles would be killed, and all its messages delivered again. A message that is not
    an event is treated like any other failure: the queue alone decides what is a dead letter.
    """
    again = []
    for record in batch["Records"]:
        message = record["messageId"]
        try:
            if must_end():
                raise ServiceUnavailable("the function's time is over; the queue delivers it again")
            start(_event(record["body"]))
        except DdbloadError as error:
            failed(message, error)
        except Exception as error:  # noqa: BLE001 - the other messages of the batch go on
            failed(message, unexpected(error, "starting a run for an upload"))
        else:
            continue
        again.append({"itemIdentifier": message})
    return {"batchItemFailures": again}


def _event(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidPayload("the message is not JSON, so it is not an upload's event") from None
