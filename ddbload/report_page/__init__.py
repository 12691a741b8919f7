"""Draw the page of a run from its ledger, and write it beside the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddbload.context import Context
from ddbload.contracts.results import Report
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import DdbloadError, unexpected
from ddbload.ledger.counted_chunks import CountedChunks
from ddbload.ledger.ledger import Ledger

if TYPE_CHECKING:
    from ddbload.report_page.reject_causes import RejectTally

PAGE_SECONDS = 60.0
"""Seconds that must be left for `report.html` to be written: drawing it, and two tries."""
PAGE_ATTEMPTS = 2


def run_page(report: Report, context: Context, *, show_rows: bool = False) -> str:
    """Draw the page of a run anew, with the status of this report; `report.html` stays as it is.

    Raises errors of reading the ledger. With `show_rows`, rejected rows are not masked.
    """
    ledger = context.ledger(report.run)
    record = ledger.find_record()
    if record is None:
        return _draw_page(report, None, ledger, context, CountedChunks(None), None)
    found = CountedChunks(ledger.find_manifest(), keeps=True)
    tally = reject_tally(record, show_rows=show_rows)
    # The report says it if rejects are damaged: the page shows what can be read.
    found.add_all(ledger, tally.add)
    return _draw_page(report, record, ledger, context, found, tally)


def reject_tally(record: RunRecord, *, show_rows: bool = False) -> RejectTally:
    # Imported here: OnUpload and others that read reports do not need it.
    from ddbload.report_page.reject_causes import RejectTally

    return RejectTally(record, show_rows=show_rows)


def put_page(
    report: Report,
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    found: CountedChunks,
    tally: RejectTally,
) -> None:
    """Write `report.html` if there is time. Its failure is a notice, and never fails the run."""
    failure: DdbloadError | None = None
    try:
        if context.clock() + PAGE_SECONDS < context.deadline:
            page = _draw_page(report, record, ledger, context, found, tally)
            ledger.put_page(page, report, attempts=PAGE_ATTEMPTS)
    except DdbloadError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - nothing about the page may fail a run
        failure = unexpected(error, "drawing the page")
    if failure is not None and context.notice is not None:
        context.notice(f"report.html was not written: {failure.name}: {failure.message}")


def _draw_page(
    report: Report,
    record: RunRecord | None,
    ledger: Ledger,
    context: Context,
    found: CountedChunks,
    tally: RejectTally | None,
) -> str:
    from ddbload.report_page.page import draw_page
    from ddbload.report_page.run_facts import RunFacts

    facts = RunFacts(
        report=report,
        record=record,
        ledger=context.store.uri(""),
        deployed=ledger.find_execution() is not None,
        now=context.now(),
        control=ledger.find_control(),
        chunks=() if found.chains is None else found.chunks or (),
        chains=found.chains or (),
        left_out=found.sums.segments if found.chains is None else 0,
        rejects=tally,
    )
    return draw_page(facts)
