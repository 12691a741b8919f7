"""Write a run that is done into the history, and refuse to load a version twice.

The history knows what was loaded. What is being loaded by a run that shall load it once, is known
by its claim: `once/<table>/<table id>/<kind>/<source>/<number>.json`. Numbers count down, and each
is written once, so of two runs that begin at the same time one finds the claim of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ddbload.contracts.load_record import (
    LoadClaim,
    LoadRecord,
    ObjectVersion,
    load_folder,
    location_hash,
)
from ddbload.contracts.results import DONE, FAILED, Report
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import DELETE, PLAN
from ddbload.errors import AlreadyLoaded
from ddbload.ledger.history import History
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import EXTRA_LISTING_FIELDS, iter_objects
from ddbload.ledger.shared_state import change_state
from ddbload.pipeline.context import LedgerContext

RECORD_SECONDS = 60.0
"""Seconds after its claim for which a run may begin, although its ledger has no record yet."""


def write_history(
    record: RunRecord, report: Report, ledger: Ledger, context: LedgerContext
) -> None:
    """Write the object versions that a run has loaded, if it is done and wrote to the table.

    Written before the report, so that a run which is reported as done is in the history. Writing
    it again changes nothing.
    """
    if report.status not in DONE or record.payload.options.mode == PLAN:
        return
    load = LoadRecord(
        run=record.run,
        table=record.table.name,
        table_id=record.table.id,
        mode=record.payload.options.mode,
        status=report.status,
        at=record.created + report.seconds,
        source=record.payload.source.uri,
        objects=record.objects or 1,
    )
    History(context.store).put(load, object_versions(record, ledger))


def object_versions(record: RunRecord, ledger: Ledger) -> Iterator[ObjectVersion]:
    """Return the object versions that a run reads, each once."""
    last = None
    for pinned in iter_objects(record, ledger, 0):
        # A Parquet file is listed once for each of its row groups.
        own = {name: value for name, value in pinned.items() if name not in EXTRA_LISTING_FIELDS}
        if own != last:
            yield ObjectVersion(own)
        last = own


def claim_load(record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
    """Let a new run load its source as the only one, or raise `AlreadyLoaded`.

    One object is claimed in its version. A source of several is claimed by its names, since its
    objects may be a million.
    """
    options, table = record.payload.options, record.table
    if options.mode == PLAN:
        return
    refuse_loaded(record, ledger, context)
    claim = LoadClaim(record.run, context.now())
    kind = "delete" if options.mode == DELETE else "load"
    source = (
        next(object_versions(record, ledger)).hash
        if record.objects is None
        else location_hash("\n".join(sorted(record.payload.source.names)))
    )

    def change(earlier: LoadClaim | None) -> LoadClaim | None:
        if earlier is None:
            return claim
        if earlier.run == record.run:
            return None
        _refuse_claimed(earlier, record, context)
        # It may have ended since the history was read.
        refuse_loaded(record, ledger, context)
        return claim

    folder = f"once/{load_folder(table.name, table.id)}{kind}/{source}/"
    change_state(context.store, folder, LoadClaim, change, unless="a run loads its source")


def _named(record: RunRecord) -> str:
    table = record.table
    return f"table {table.name}" if table.is_table else table.name


def _refuse_claimed(claim: LoadClaim, record: RunRecord, context: LedgerContext) -> None:
    """Raise `AlreadyLoaded` if the run of an earlier claim has not ended."""
    ledger = Ledger(context.store, claim.run)
    report = ledger.find_report()
    if report is None:
        ended = ledger.find_record() is None and context.now() - claim.at >= RECORD_SECONDS
    else:
        # A run that was cancelled or interrupted has loaded a part, and is to be resumed.
        ended = report.status in (*DONE, FAILED)
    if not ended:
        raise AlreadyLoaded(
            f"{record.payload.source.uri} is being loaded into {_named(record)} by run"
            f" {claim.run}, which has not ended: ddbload status {claim.run} tells how far it is,"
            f" and if it was stopped, ddbload resume {claim.run} continues it"
        )


def refuse_loaded(record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
    """Raise `AlreadyLoaded` if the table has loaded an object version of a new run before.

    What was deleted by a list of keys counts for mode `delete` alone.
    """
    mode, table = record.payload.options.mode, record.table
    if mode == PLAN:
        return
    history = History(context.store)
    versions = object_versions(record, ledger)
    if record.objects is None:
        version = next(versions)
        found = [(version, load) for load in history.find(table.name, table.id, version)]
    else:
        found = list(history.find_each(table.name, table.id, versions))
    loads = [each for each in found if each[1].deletes == (mode == DELETE)]
    if not loads:
        return
    version, load = max(loads, key=lambda each: each[1].at)
    done = "deleted from" if load.deletes else "loaded into"
    at = datetime.fromtimestamp(load.at, UTC)
    what, again = f"{version.location} was", "it is"
    if record.objects is not None:
        count = len({each.hash for each, _ in loads})
        again = "all objects are"
        what = f"{count:,} of {record.objects:,} objects, such as {version.location}, were"
    raise AlreadyLoaded(
        f"{what} {done} {_named(record)} before, by run {load.run} at {at:%Y-%m-%dT%H:%M:%SZ};"
        f" without --once {again} loaded again"
    )
