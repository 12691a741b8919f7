"""Start a run for an uploaded object, once for each object version.

The upload queue delivers at least once, in no order. A message is deleted from it unless its id is
in the answer for its batch; then it is delivered again after the queue's visibility timeout, and is
a dead letter after the queue's maxReceiveCount. Source: AWS Lambda Developer Guide, "Handling
errors for an SQS event source in Lambda".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddbload.context import LedgerContext
from ddbload.contracts.results import DONE
from ddbload.contracts.upload_rule import Upload, UploadRule
from ddbload.errors import (
    DdbloadError,
    ExecutionExists,
    InvalidPayload,
    ServiceUnavailable,
    unexpected,
)
from ddbload.ledger.ledger import Ledger
from ddbload.steps.executions import Executions
from ddbload.steps.upload_turns import claim_upload

STARTED = "started"
STARTED_BEFORE = "started before"
LOADED_BEFORE = "loaded before"
NOT_MAPPED = "not mapped"
OF_AN_EXPORT = "part of an export"
OLDER = "older than loaded"


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
    for record in _records(batch):
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


def _records(batch: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a batch. Raises `InvalidPayload` if it is not one of SQS's."""
    records = batch["Records"]
    if not isinstance(records, list) or not all(
        isinstance(each, Mapping) and isinstance(each.get("messageId"), str) for each in records
    ):
        raise InvalidPayload("the event is not a batch of messages, as SQS sends them")
    return records


def _event(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidPayload("the message is not JSON, so it is not an upload's event") from None


def on_upload(
    event: object, context: LedgerContext, rules: Sequence[UploadRule], executions: Executions
) -> dict[str, Any]:
    """Start a run for an upload, unless its object version started one before.

    The ledger tells whether the version started a run. The execution's name only prevents two
    runs of simultaneous deliveries. A failed run is not started again: `resume` continues it.
    An upload that is older than another that got a run starts none. Returns the outcome, the run's
    id and the execution's ARN.
    """
    upload = Upload.of(event)
    covering = [rule for rule in rules if rule.covers(upload)]
    if not covering or upload.key.endswith("/"):
        # A key that ends in a slash is a folder made by the S3 console.
        return {"outcome": NOT_MAPPED, "run": None, "execution": None}
    rule = max(covering, key=lambda each: (each.bucket is not None, len(each.prefix)))
    payload = rule.payload(upload)
    if payload is None:
        return {"outcome": OF_AN_EXPORT, "run": None, "execution": None}
    ledger = context.ledger(upload.run)
    if ledger.find_record() is not None:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    if claim_upload(upload, context) is not None:
        return {"outcome": OLDER, "run": upload.run, "execution": None}
    try:
        started = executions.start(upload.run, payload)
    except ExecutionExists:
        return {"outcome": STARTED_BEFORE, "run": upload.run, "execution": None}
    return {"outcome": STARTED, "run": upload.run, "execution": started}


def _outcome(ledger: Ledger) -> str:
    report = ledger.find_report()
    loaded = report is not None and report.status in DONE
    return LOADED_BEFORE if loaded else STARTED_BEFORE
