"""Requests of runs: kept before anything can fail, and started over where a run has no record."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ddbload.context import Context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import Resume, RunRecord
from ddbload.contracts.states import RunRequest
from ddbload.errors import DdbloadError, LedgerDamaged, RunUnderWay
from ddbload.ledger.history import put_start
from ddbload.ledger.ledger import Ledger

_ONE_START = 3600.0
"""Seconds within which a request that did not fail is replaced without counting as a new start."""

RECORD_SECONDS = 60.0
"""Seconds after its claim for which a run may begin, although its ledger has no record yet."""


def keep_request(
    ledger: Ledger, payload: Payload, execution: str | None, context: Context
) -> RunRecord | None:
    """Write what is asked of a run that has no record, and enter it in the index of starts.

    Return the record of a run that has one: it keeps the request it began with. A request that
    failed is replaced, and counts from now; so is one that asks for something else.
    """
    record = ledger.find_record()
    if record is not None:
        return record
    folder = None if execution is not None else str(Path.cwd())
    request = RunRequest(ledger.run, payload, context.now(), folder)
    found = None
    with suppress(LedgerDamaged):
        found = ledger.find_request()
    if found is not None and found.failure is None and request.created - found.created < _ONE_START:
        # The command asks first, and again once it has copied its input and chosen an engine.
        request = replace(request, created=found.created)
    else:
        # First the index, so that every run that has a request is in it.
        put_start(context.store, ledger.run, request.created)
    if request != found:
        ledger.put_request(request)
    if execution is not None:
        ledger.put_execution(execution)
    return None


def keep_failure(ledger: Ledger, failure: Failure) -> None:
    """Write why a run ended before it had a record; do nothing once it has one."""
    request = ledger.find_request()
    if request is not None and request.failure is None and ledger.find_record() is None:
        ledger.put_request(replace(request, failure=failure))


def may_begin(ledger: Ledger, claimed: float, context: Context) -> bool:
    """Tell whether a run without a record, which claimed what it shall write, may still begin."""
    request = ledger.find_request()
    has_failed = request is not None and request.failure is not None
    return not has_failed and context.now() - claimed < RECORD_SECONDS


@contextmanager
def kept_failure(ledger: Ledger, context: Context) -> Generator[None]:
    """Keep the error of a run that ends before it has a record, and pass it on.

    That another process works on the run says nothing about it.
    """
    try:
        yield
    except RunUnderWay:
        raise
    except DdbloadError as error:
        # A ledger that cannot be written has been named by the error.
        with suppress(DdbloadError):
            keep_failure(ledger, Failure.of(error, at=context.now()))
        raise


def resumed_payload(resume: Resume, ledger: Ledger) -> Payload:
    """Make the payload that resumes a run, or starts it over if it has no record.

    Raises `RunNotFound` if nothing was asked of the run.
    """
    record = ledger.find_record()
    if record is None and (request := ledger.find_request()) is not None:
        return request.again(resume.options)
    return resume.payload(record or ledger.record())
