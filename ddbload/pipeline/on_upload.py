"""Start a run for an uploaded object, once for each object version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddbload.contracts.results import DONE
from ddbload.contracts.upload_rule import Upload, UploadRule
from ddbload.errors import ExecutionExists
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.executions import Executions
from ddbload.pipeline.upload_turns import claim_upload

STARTED = "started"
STARTED_BEFORE = "started before"
LOADED_BEFORE = "loaded before"
NOT_MAPPED = "not mapped"
OF_AN_EXPORT = "part of an export"
OLDER = "older than loaded"


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
