"""Requests of runs: kept before anything can fail, and started over where a run has no record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import Resume, RunRecord
from ddbload.contracts.run_request import RunRequest
from ddbload.errors import LedgerDamaged
from ddbload.ledger.history import put_start
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context


def keep_request(
    ledger: Ledger, payload: Payload, execution: str | None, context: Context
) -> RunRecord | None:
    """Write what is asked of a run that has no record, and enter it in the index of starts.

    Return the record of a run that has one: it keeps the request it began with. A request that
    failed, or asks for something else, is replaced, and counts from now.
    """
    record = ledger.find_record()
    if record is not None:
        return record
    folder = None if execution is not None else str(Path.cwd())
    request = RunRequest(ledger.run, payload, context.now(), folder)
    found = None
    with suppress(LedgerDamaged):
        found = ledger.find_request()
    if found is None or found.failure is not None or not found.asks(request):
        # First the index, so that every run that has a request is in it.
        put_start(context.store, ledger.run, request.created)
        ledger.put_request(request)
    if execution is not None:
        ledger.put_execution(execution)
    return None


def keep_failure(ledger: Ledger, failure: Failure) -> None:
    """Write why a run ended before it had a record; do nothing once it has one."""
    request = ledger.find_request()
    if request is not None and ledger.find_record() is None:
        ledger.put_request(replace(request, failure=failure))


def resumed_payload(resume: Resume, ledger: Ledger) -> Payload:
    """Make the payload that resumes a run, or starts it over if it has no record.

    Raises `RunNotFound` if nothing was asked of the run.
    """
    record = ledger.find_record()
    if record is None and (request := ledger.find_request()) is not None:
        return request.again(resume.options)
    return resume.payload(record or ledger.record())
