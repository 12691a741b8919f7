"""Start an execution for each uploaded object, and let uploads of one key take turns.

The upload queue delivers at least once, in no order. A message is deleted from it unless its id is
in the answer for its batch; then it is delivered again after the queue's visibility timeout, and is
a dead letter after the queue's maxReceiveCount. Source: AWS Lambda Developer Guide, "Handling
errors for an SQS event source in Lambda".

Uploads to one key are loaded one after another, in the order in which they were made. S3's events
come in any order and more than once, and executions start in any order. So the order is kept in the
ledger's store. `claim_upload` enters each upload that gets a run, and refuses one that is older
than another. `wait_for_turn` lets a run begin when the runs of older uploads have ended, and
refuses it if a newer one began meanwhile. Of two runs that want to begin, the second sees the first
(`change_state`); an older one is seen running, or sees that it is too late.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ddbload.context import Context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import DONE
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import Upload, UploadClaim, UploadOrder, UploadRule, is_sequencer
from ddbload.errors import (
    DdbloadError,
    ExecutionExists,
    InvalidPayload,
    ServiceUnavailable,
    UploadSuperseded,
    unexpected,
)
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.store import Store, change_state
from ddbload.steps.executions import Executions

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

    The answer names the messages to deliver again: those for which `start` raised an error, passed
    to `failed`, and those not begun when `must_end` became true. Without that limit a function that
    AWS throttles would be killed, and all its messages delivered again. A message that is not an
    event is treated like any other failure: the queue alone decides what is a dead letter.
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
    event: object, context: Context, rules: Sequence[UploadRule], executions: Executions
) -> dict[str, Any]:
    """Start a run for an upload, unless its object version started one before.

    The ledger shows whether the version started a run. The execution's name only prevents two
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
    is_new, newer = claim_upload(upload, context)
    # A run has no record before its upload was claimed.
    if not is_new and ledger.find_record() is not None:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    if newer is not None:
        return {"outcome": OLDER, "run": upload.run, "execution": None}
    try:
        started = executions.start(upload.run, payload)
    except ExecutionExists:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    return {"outcome": STARTED, "run": upload.run, "execution": started}


def _outcome(ledger: Ledger) -> str:
    report = ledger.find_report()
    loaded = report is not None and report.status in DONE
    return LOADED_BEFORE if loaded else STARTED_BEFORE


# Turns of one key.


FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5, 300
"""Seconds until a waiting run looks again; doubled each time. An execution's history has room for
2,700 looks, which is nine days."""
CLAIM_SECONDS = 120.0
"""Seconds after its claim for which a run may start although Step Functions does not know it."""


def claim_upload(upload: Upload, context: Context) -> tuple[bool, UploadClaim | None]:
    """Enter an upload that shall be loaded.

    Returns true if it was entered now, and the newer upload that makes it too late, if any. An
    upload that was entered before stays. Without a sequencer uploads have no order.
    """
    if upload.sequencer is None or not is_sequencer(upload.sequencer):
        return False, None
    is_new = False
    claim = UploadClaim(upload.sequencer, upload.run, context.now())
    newer: UploadClaim | None = None

    def change(order: UploadOrder) -> UploadOrder | None:
        nonlocal is_new, newer
        is_new, newer = False, None
        if order.has(claim.run) and order.begun_after(claim) is None:
            return None
        newest = max(order.claims, key=lambda each: each.rank, default=claim)
        is_new = newest.rank <= claim.rank
        if is_new:
            return replace(order, waiting=(*order.waiting, claim))
        newer = newest
        return None

    _change(context.store, upload.bucket, upload.key, change)
    return is_new, newer


def wait_for_turn(
    task: PreflightTask, payload: Payload, run: str, context: Context
) -> PreflightTask | None:
    """Let a run of an upload begin to load, or return its task with the seconds to wait.

    Raises `UploadSuperseded` if a newer upload of the key has begun. A run that is forced, and one
    of a source that was not uploaded, does not wait.
    """
    source = payload.source
    if source.sequencer is None or source.key is None or payload.force:
        return None
    if not is_sequencer(source.sequencer):
        raise InvalidPayload("'source.sequencer' must be a hexadecimal number, as S3 gives it")
    bucket, key = source.bucket or "", source.key
    claim = UploadClaim(source.sequencer, run, context.now())
    must_wait = False

    def change(order: UploadOrder) -> UploadOrder | None:
        nonlocal must_wait
        must_wait = False
        newer = order.begun_after(claim)
        if newer is not None:
            raise UploadSuperseded(
                f"a newer upload of s3://{bucket}/{key} was loaded, or is being loaded, by run"
                f" {newer.run}: this older version is not loaded over it ('run.force' in a payload"
                " would do so)"
            )
        if order.loaded is not None and order.loaded.run == run:
            is_known = order.execution == task.execution
            return None if is_known else order.with_loaded(claim, task.execution)
        must_wait = task.execution is not None and _is_older_alive(
            order, claim, task.execution, context
        )
        return None if must_wait else order.with_loaded(claim, task.execution)

    _change(context.store, bucket, key, change)
    if not must_wait:
        return None
    wait = FIRST_WAIT_SECONDS if task.wait is None else 2 * task.wait
    return replace(task, wait=min(wait, LONGEST_WAIT_SECONDS))


def _is_older_alive(
    order: UploadOrder, claim: UploadClaim, execution: str, context: Context
) -> bool:
    """Return whether the run of an older upload is at work, or may still start."""
    executions = Executions.beside(
        execution, context.clients.stepfunctions, retry_policy=context.retry_policy
    )
    if order.execution is not None:
        loading = executions.find(order.execution)
        if loading is not None and loading.running:
            return True
    for older in order.waiting:
        if older.rank >= claim.rank or older.run == claim.run:
            continue
        found = executions.find(executions.arn_of(older.run))
        if found is None and context.now() - older.at < CLAIM_SECONDS:
            return True
        if found is not None and found.running:
            return True
    return False


def _change(
    store: Store, bucket: str, key: str, change: Callable[[UploadOrder], UploadOrder | None]
) -> None:
    """Replace the state of a key by what `change` makes of it, unless it returns None."""
    name = f"uploads/{hashlib.sha256(f'{bucket}/{key}'.encode()).hexdigest()[:40]}.json"

    first = UploadOrder(bucket, key)
    advice = "delete it, unless an upload of its key is being loaded"
    change_state(store, name, UploadOrder, lambda order: change(order or first), advice=advice)
