"""Write what a run has loaded into the history, and load each object once if a run asks for it.

The history knows what was loaded. What is being loaded by runs that shall load it once is known by
their claims. A load is the same as another if both ask the same (`contracts.load_identity`) of the
same object version and table. The claims of all runs that ask the same of a table are one state in
`once/<table>/<table id>/<hash of what was asked>/` (`ledger.shared_state`): of two runs that begin
at the same time, one finds the claim of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ddbload.aws.backoff import full_jitter
from ddbload.contracts.load_record import (
    LoadClaim,
    LoadClaims,
    LoadRecord,
    ObjectVersion,
    load_folder,
    same_ids,
)
from ddbload.contracts.results import (
    ALREADY_LOADED,
    DONE,
    FAILED,
    SUCCEEDED_WITH_REJECTS,
    Report,
)
from ddbload.contracts.run_record import LoadedBefore, RunRecord, Table
from ddbload.dynamodb.write_modes import DELETE, PLAN
from ddbload.errors import AlreadyLoading
from ddbload.ledger.history import History
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import (
    EXTRA_LISTING_FIELDS,
    ObjectListing,
    PinnedObject,
    iter_listing,
    iter_objects,
)
from ddbload.ledger.shared_state import change_state
from ddbload.pipeline.context import LedgerContext

RECORD_SECONDS = 60.0
"""Seconds after its claim for which a run may begin, although its ledger has no record yet."""
_MOST_WAIT_SECONDS = 1.0


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
        at=_ended_at(record, report),
        source=record.payload.source.uri,
        objects=record.objects or 1,
    )
    History(context.store).put(load, object_versions(record, ledger))


def object_versions(record: RunRecord, ledger: Ledger) -> Iterator[ObjectVersion]:
    """Return the object versions that a run reads, each once."""
    last = None
    for pinned in iter_objects(record, ledger, 0):
        # A Parquet file is listed once for each of its row groups.
        version = _version(pinned)
        if version.pinned != last:
            yield version
        last = version.pinned


def _version(pinned: PinnedObject) -> ObjectVersion:
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
            status=named.status,
            at=named.at,
            written=named.rows.written,
            rejected=named.rows.rejected,
        )

    def left(self, source: SourceVersions) -> Iterator[PinnedObject]:
        """Return the pinned objects of the source that were not loaded."""
        return (each for each in source.pinned_objects() if _version(each).hash not in self.loads)


def find_loads(
    source: SourceVersions, asked: str, mode: str, table: Table, context: LedgerContext
) -> FoundLoads:
    """Find the objects of a source of which a table has loaded what is asked now.

    A load counts unless its keys were deleted since by a run of mode `delete` over the same object
    version, whatever else that run asked for; a delete counts unless the object was loaded since.
    """
    history = History(context.store)
    names = _names(source, table, history)
    versions = (_version(each) for each in source.pinned_objects())
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
        return history.version_names(table.name, table.id, _version(source.pinned))
    return history.table_names(table.name, table.id)


# What is being loaded.


def claim_load(record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
    """Let a run load its objects as the only one.

    Raises `AlreadyLoading` if a run that has not ended asks the same of any of them. The objects of
    two runs are compared one by one, so a claim of many is read from its run's listing.
    """
    table = record.table
    own = _OwnObjects(record, ledger, context)

    def change(state: LoadClaims | None) -> LoadClaims:
        others = [each for each in (state or LoadClaims()).claims if each.run != record.run]
        alive = [each for each in others if not _has_ended(each, context)]
        for each in alive:
            own.refuse_shared(each)
        return LoadClaims((*alive, own.claim))

    folder = f"once/{load_folder(table.name, table.id)}{record.asked}/"
    change_state(
        *(context.store, folder, LoadClaims, change),
        unless="a run loads into this table",
        wait=lambda attempt: context.sleep(
            full_jitter(attempt, context.rng, cap=_MOST_WAIT_SECONDS)
        ),
    )


class _OwnObjects:
    """Objects that a run shall load, compared with those of other runs."""

    def __init__(self, record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
        self._record, self._ledger, self._context = record, ledger, context
        self._compared: set[LoadClaim] = set()

    @cached_property
    def claim(self) -> LoadClaim:
        """The claim of all objects."""
        record, now = self._record, self._context.now()
        if record.objects is not None:
            return LoadClaim(record.run, now, record.objects, None, None, record.listing)
        only = _version(record.pinned)
        return LoadClaim(record.run, now, 1, only.hash, only.version_id, None)

    @cached_property
    def _versions(self) -> dict[str, ObjectVersion]:
        return {each.hash: each for each in object_versions(self._record, self._ledger)}

    def refuse_shared(self, other: LoadClaim) -> None:
        """Raise `AlreadyLoading` if another run loads one of the objects."""
        if other in self._compared:
            return
        for key, version_id in _claimed(other, self._context):
            own = self._versions.get(key)
            if own is not None and same_ids(own.version_id, version_id):
                raise _already_loading(own, other.run, self._record)
        # A claim never changes: it need not be compared again with the next state.
        self._compared.add(other)


def _claimed(claim: LoadClaim, context: LedgerContext) -> Iterable[tuple[str, str | None]]:
    """Return the hash and the id of each version that another run has claimed."""
    if claim.version is not None:
        return [(claim.version, claim.version_id)]
    ledger = Ledger(context.store, claim.run)
    listed = iter_listing(ledger, claim.listing or "", 0, claim.objects)
    return ((each.hash, each.version_id) for each in map(_version, listed))


def _has_ended(claim: LoadClaim, context: LedgerContext) -> bool:
    """Tell whether the run of a claim has ended. One that was stopped is to be resumed."""
    ledger = Ledger(context.store, claim.run)
    report, record = ledger.find_report(), ledger.find_record()
    if record is None:
        request = ledger.find_request()
        has_failed = request is not None and request.failure is not None
        return has_failed or context.now() - claim.at >= RECORD_SECONDS
    if report is None or report.status not in (*DONE, FAILED):
        return False
    # A failed run that is resumed claims its objects again.
    return report.status in DONE or claim.at <= _ended_at(record, report)


def _ended_at(record: RunRecord, report: Report) -> float:
    return record.created + report.seconds


def _already_loading(version: ObjectVersion, other: str, record: RunRecord) -> AlreadyLoading:
    table = record.table
    target = f"table {table.name}" if table.is_table else table.name
    doing = "deleted from" if record.payload.options.mode == DELETE else "loaded into"
    return AlreadyLoading(
        f"{version.location} is being {doing} {target} by run {other}, which has not ended: see how"
        f" far it is (ddbload status {other}); if it was stopped, continue it (ddbload resume"
        f" {other}); then repeat this command"
    )
