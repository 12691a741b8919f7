"""Load the uploads to one key one after another, in the order in which they were made.

S3's events come in any order and more than once, and executions start when they like. So the order
is kept in the ledger's store. `claim_upload` enters each upload that gets a run, and refuses one
that is older than another. `wait_for_turn` lets a run begin when the runs of older uploads have
ended, and refuses it if a newer one began meanwhile. Of two runs that want to begin, the second
sees the first (`ledger.shared_state`); an older one is seen running, or sees that it is too late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from ddbload.context import LedgerContext
from ddbload.contracts.payload import Payload
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import Upload, UploadClaim, UploadOrder, is_sequencer
from ddbload.errors import InvalidPayload, UploadSuperseded
from ddbload.ledger.shared_state import change_state
from ddbload.ledger.store import Store
from ddbload.steps.executions import Executions

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5, 300
"""Seconds until a waiting run looks again; doubled each time. An execution's history has room for
2,700 looks, which is nine days."""
CLAIM_SECONDS = 120.0
"""Seconds after its claim for which a run may start although Step Functions does not know it."""


def claim_upload(upload: Upload, context: LedgerContext) -> UploadClaim | None:
    """Enter an upload that shall be loaded; return the newer one that makes it too late, if any.

    An upload that was entered before stays. Without a sequencer uploads have no order.
    """
    if upload.sequencer is None or not is_sequencer(upload.sequencer):
        return None
    claim = UploadClaim(upload.sequencer, upload.run, context.now())
    newer: UploadClaim | None = None

    def change(order: UploadOrder) -> UploadOrder | None:
        nonlocal newer
        newer = None
        if order.has(claim.run) and order.begun_after(claim) is None:
            return None
        newer = order.newer_than(claim)
        return order.with_claim(claim) if newer is None else None

    _change(context.store, upload.bucket, upload.key, change)
    return newer


def wait_for_turn(
    task: PreflightTask, payload: Payload, run: str, context: LedgerContext
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
            return (
                None
                if order.execution == task.execution
                else order.with_loaded(claim, task.execution)
            )
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
    order: UploadOrder, claim: UploadClaim, execution: str, context: LedgerContext
) -> bool:
    """Tell whether the run of an older upload is at work, or may still start."""
    executions = Executions.beside(
        execution, context.clients.stepfunctions, retry_policy=context.retry_policy
    )
    if order.execution is not None:
        loading = executions.find(order.execution)
        if loading is not None and loading.running:
            return True
    for older in order.ahead_of(claim):
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
    folder = f"uploads/{hashlib.sha256(f'{bucket}/{key}'.encode()).hexdigest()[:40]}/"

    def change_known(order: UploadOrder | None) -> UploadOrder | None:
        return change(UploadOrder(bucket, key) if order is None else order)

    change_state(
        store, folder, UploadOrder, change_known, unless="an upload of its key is being loaded"
    )
