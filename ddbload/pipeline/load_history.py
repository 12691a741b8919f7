"""Write what a run has loaded into the history, and find what a table has loaded before.

A load is the same as another if both ask the same (`contracts.load_identity`) of the same object
version and table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddbload.context import LedgerContext
from ddbload.contracts.load_record import LoadRecord, ObjectVersion
from ddbload.contracts.results import ALREADY_LOADED, DONE, SUCCEEDED_WITH_REJECTS, Report
from ddbload.contracts.run_record import LoadedBefore, RunRecord, Table
from ddbload.dynamodb.write_modes import DELETE, PLAN
from ddbload.ledger.history import History
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import (
    EXTRA_LISTING_FIELDS,
    ObjectListing,
    PinnedObject,
    iter_listing,
    iter_objects,
)


def write_history(
    record: RunRecord, report: Report, ledger: Ledger, context: LedgerContext
) -> None:
    """Write the object versions that a run has loaded, if it is done and wrote to the table.

    Written before the report, so that a run which is reported as done is in the history. Writing
    it again changes nothing.
    """
    if report.status not in DONE or report.status == ALREADY_LOADED:
        return
    if record.payload.options.mode == PLAN:
        return
    load = LoadRecord(
        run=record.run,
        table=record.table.name,
        table_id=record.table.id,
        mode=record.payload.options.mode,
        asked=record.asked,
        status=report.status,
        rows=report.rows,
        at=ended_at(record, report),
        source=record.payload.source.uri,
        objects=record.objects or 1,
    )
    History(context.store).put(load, object_versions(record, ledger))


def object_versions(record: RunRecord, ledger: Ledger) -> Iterator[ObjectVersion]:
    """Return the object versions that a run reads, each once."""
    last = None
    for pinned in iter_objects(record, ledger, 0):
        # A Parquet file is listed once for each of its row groups.
        version = version_of(pinned)
        if version.pinned != last:
            yield version
        last = version.pinned


def version_of(pinned: PinnedObject) -> ObjectVersion:
    """Return the version of a listed object."""
    own = {name: value for name, value in pinned.items() if name not in EXTRA_LISTING_FIELDS}
    return ObjectVersion(own)


# What was loaded before.


@dataclass(frozen=True, slots=True)
class SourceVersions:
    """Object versions of a source, before the run that reads them has a record."""

    ledger: Ledger
    pinned: PinnedObject | None
    """The only object; None for several."""
    listing: ObjectListing | None

    @property
    def count(self) -> int:
        """Number of objects."""
        return 1 if self.listing is None else self.listing.objects

    def pinned_objects(self) -> Iterator[PinnedObject]:
        """Return the pinned objects in their order."""
        if self.pinned is not None:
            yield self.pinned
        if self.listing is not None:
            yield from iter_listing(self.ledger, self.listing.name, 0, self.listing.objects)


@dataclass(frozen=True, slots=True)
class FoundLoads:
    """Objects of a source that a table has loaded, by the history at one moment."""

    loads: Mapping[str, LoadRecord]
    """The last load of each object, by the hash of its version."""
    names: tuple[str, ...]
    """Names of the table's history at that moment."""

    @property
    def summary(self) -> LoadedBefore | None:
        """Number of the objects, and one run that loaded them; None without any."""
        runs = {load.run: load for load in self.loads.values()}
        if not runs:
            return None
        named = max(runs.values(), key=lambda e: (e.status == SUCCEEDED_WITH_REJECTS, e.at))
        return LoadedBefore(
            objects=len(self.loads),
            runs=len(runs),
            run=named.run,
            mode=named.mode,
            status=named.status,
            at=named.at,
            written=named.rows.written,
            rejected=named.rows.rejected,
        )

    def left(self, source: SourceVersions) -> Iterator[PinnedObject]:
        """Return the pinned objects of the source that were not loaded."""
        return (each for each in source.pinned_objects() if version_of(each).hash not in self.loads)


def find_loads(
    source: SourceVersions, asked: str, mode: str, table: Table, context: LedgerContext
) -> FoundLoads:
    """Find the objects of a source of which a table has loaded what is asked now.

    A load counts unless its keys were deleted since by a run of mode `delete` over the same object
    version, whatever else that run asked for; a delete counts unless the object was loaded since.
    """
    history = History(context.store)
    names = _names(source, table, history)
    versions = (version_of(each) for each in source.pinned_objects())
    last: dict[str, LoadRecord] = {}
    undone: dict[str, float] = {}
    for key, load in history.find_each(names, versions):
        if load.deletes != (mode == DELETE):
            undone[key] = max(load.at, undone.get(key, load.at))
        elif load.asked == asked and (key not in last or load.at > last[key].at):
            last[key] = load
    loads = {key: load for key, load in last.items() if key not in undone or load.at > undone[key]}
    return FoundLoads(loads, tuple(names))


def is_current(
    found: FoundLoads, source: SourceVersions, table: Table, context: LedgerContext
) -> bool:
    """Tell whether no load of the source has come into the history since."""
    return _names(source, table, History(context.store)) == list(found.names)


def _names(source: SourceVersions, table: Table, history: History) -> list[str]:
    """List the names of the history that may have an object of the source."""
    if source.pinned is not None:
        return history.version_names(table.name, table.id, version_of(source.pinned))
    return history.table_names(table.name, table.id)


def ended_at(record: RunRecord, report: Report) -> float:
    """Return the time at which a run's report was made."""
    return record.created + report.seconds
