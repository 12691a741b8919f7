"""Write a run that is done into the history, and refuse to load a version twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ddbload.contracts.load_record import LoadRecord, ObjectVersion
from ddbload.contracts.results import DONE, Report
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import DELETE, PLAN
from ddbload.errors import AlreadyLoaded
from ddbload.ledger.history import History
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import EXTRA_LISTING_FIELDS, iter_objects
from ddbload.pipeline.context import LedgerContext


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
        f"{what} {done} table {table.name} before, by run {load.run} at {at:%Y-%m-%dT%H:%M:%SZ};"
        f" without --once {again} loaded again"
    )
