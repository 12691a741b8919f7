"""The state of a run on this machine, as seen by another process: its status, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddbload.contracts.results import DONE, INTERRUPTED, Heartbeat, Report
from ddbload.contracts.run_record import RunRecord
from ddbload.ledger.ledger import last_report
from ddbload.pipeline.context import Context
from ddbload.pipeline.report import as_last_told, reconcile
from ddbload.runs.heartbeats import RUNNING as BEATING
from ddbload.runs.heartbeats import is_alive

RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A run's state at one moment."""

    status: str
    """`RUNNING`, or what the last attempt came to: `INTERRUPTED` where it left no report."""
    running: bool
    """A process or execution works on the run."""
    done: bool
    """Nothing is left to do."""
    reached: Report
    """Progress: what the ledger proves, or what a living run last reported."""
    heartbeat: Heartbeat | None
    """Heartbeat of the process that works on the run, or that died."""


def live_heartbeat(run: str, context: Context) -> Heartbeat | None:
    """The heartbeat of the process that works on a run; None when none does."""
    found = context.ledger(run).find_heartbeat()
    return found if found is not None and is_alive(found, context.now()) else None


def run_standing(record: RunRecord, context: Context) -> RunStanding:
    """The state of a run that has a record. Writes nothing."""
    ledger = context.ledger(record.run)
    # The heartbeat first: what a run that ends meanwhile has reported is then seen.
    heartbeat = ledger.find_heartbeat()
    now = context.now()
    last = last_report(ledger)
    found = reconcile(record, ledger, now - record.created)
    if heartbeat is not None and is_alive(heartbeat, now):
        if heartbeat.rows.read >= found.rows.read:
            # It knows of rows whose segments are still to be written.
            found = replace(found, rows=heartbeat.rows, bytes=heartbeat.bytes, size=heartbeat.size)
        return RunStanding(RUNNING, True, False, replace(found, error=None), heartbeat)
    if last is not None:
        found = as_last_told(replace(found, seconds=last.seconds), last)
    was_done = last is not None and last.status in DONE
    if last is not None and was_done and found.status in DONE:
        return RunStanding(last.status, False, True, found, None)
    killed = heartbeat is not None and heartbeat.state == BEATING
    if last is None or killed:
        return RunStanding(INTERRUPTED, False, False, found, heartbeat if killed else None)
    # What a report says, somebody may have lost of the ledger since.
    return RunStanding(found.status if was_done else last.status, False, False, found, None)
