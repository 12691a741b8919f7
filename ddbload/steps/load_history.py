"""Load each object once: keep what runs have loaded, and claim the objects that a run shall load.

A load is the same as another if both ask the same (`contracts.payload`) of the same object version
and table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from ddbload.aws.backoff import full_jitter
from ddbload.context import Context
from ddbload.contracts.results import ALREADY_LOADED, DONE, FAILED, SUCCEEDED_WITH_REJECTS, Report
from ddbload.contracts.run_record import LoadedBefore, RunRecord, Table
from ddbload.dynamodb.modes import WriteMode
from ddbload.errors import AlreadyLoading
from ddbload.ledger.history import (
    History,
    LoadClaim,
    LoadClaims,
    LoadRecord,
    ObjectVersion,
    load_folder,
    same_ids,
)
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import (
    EXTRA_LISTING_FIELDS,
    ObjectListing,
    PinnedObject,
    iter_listing,
    iter_objects,
)
from ddbload.ledger.store import change_state, read_state
from ddbload.parallel import map_in_threads

RECORD_SECONDS = 60.0
"""Seconds after its claim for which a run may begin, although its ledger has no record yet."""


def may_begin(ledger: Ledger, claimed: float, context: Context) -> bool:
    """Return whether a run without a record, which claimed what it shall write, may still begin."""
    request = ledger.find_request()
    has_failed = request is not None and request.failure is not None
    return not has_failed and context.now() - claimed < RECORD_SECONDS


def write_history(record: RunRecord, report: Report, ledger: Ledger, context: Context) -> None:
    """Write the object versions that a run has loaded, if it is done and wrote to the table.

    Written before the report, so that a run which is reported as done is in the history. Writing
    it again changes nothing.
    """
    has_loaded = report.status in DONE and report.status != ALREADY_LOADED
    if not has_loaded or not record.mode.writes:
        return
    load = LoadRecord(
        run=record.run,
        table=record.table.name,
        table_id=record.table.id,
        mode=record.mode.name,
        asked=record.asked,
        status=report.status,
        rows=report.rows,
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
        version = version_of(pinned)
        if version.pinned != last:
            yield version
        last = version.pinned


def version_of(pinned: PinnedObject) -> ObjectVersion:
    """Return the version of a listed object."""
    own = {name: value for name, value in pinned.items() if name not in EXTRA_LISTING_FIELDS}
    return ObjectVersion(own)


# What was loaded before.


class EarlierLoads:
    """Loads of a source's objects into a table, by the history at one moment.

    A load counts if it asked the same, unless its keys were deleted since by a run of mode `delete`
    over the same object version, whatever else that run asked for; a delete counts unless the
    object was loaded since.
    """

    def __init__(
        self,
        asked: str,
        mode: WriteMode,
        pinned: PinnedObject | None,
        listing: ObjectListing | None,
        table: Table,
        ledger: Ledger,
        context: Context,
    ) -> None:
        """Find the loads. `pinned`: the only object; None for several, which are in `listing`."""
        self.pinned, self._listing, self._ledger = pinned, listing, ledger
        self._table, self._history = table, History(context.store)
        self._names = self._list_names()
        last: dict[str, LoadRecord] = {}
        undone: dict[str, float] = {}
        versions = map(version_of, self._objects())
        for key, load in self._history.find_each(self._names, versions):
            if load.deletes != mode.deletes:
                undone[key] = max(load.at, undone.get(key, load.at))
            elif load.asked == asked and (key not in last or load.at > last[key].at):
                last[key] = load
        self._loads = {
            key: load for key, load in last.items() if key not in undone or load.at > undone[key]
        }

    @property
    def has_all(self) -> bool:
        """True if every object of the source was loaded."""
        return len(self._loads) >= (1 if self._listing is None else self._listing.objects)

    @property
    def summary(self) -> LoadedBefore | None:
        """Number of the objects, and one run that loaded them; None without any."""
        runs = {load.run: load for load in self._loads.values()}
        if not runs:
            return None
        named = max(runs.values(), key=lambda e: (e.status == SUCCEEDED_WITH_REJECTS, e.at))
        return LoadedBefore(
            objects=len(self._loads),
            runs=len(runs),
            run=named.run,
            mode=named.mode,
            status=named.status,
            at=named.at,
            written=named.rows.written,
            rejected=named.rows.rejected,
        )

    @property
    def left(self) -> Iterator[PinnedObject]:
        """Pinned objects of the source that were not loaded."""
        return (each for each in self._objects() if version_of(each).hash not in self._loads)

    @property
    def is_current(self) -> bool:
        """True if no load of the source has come into the history since."""
        return self._list_names() == self._names

    def _objects(self) -> Iterable[PinnedObject]:
        if self._listing is None:
            return () if self.pinned is None else (self.pinned,)
        return iter_listing(self._ledger, self._listing.name, 0, self._listing.objects)

    def _list_names(self) -> list[str]:
        """List the names of the history that may have an object of the source."""
        table = self._table
        if self.pinned is not None:
            return self._history.version_names(table.name, table.id, version_of(self.pinned))
        return self._history.table_names(table.name, table.id)


_MOST_WAIT_SECONDS = 1.0
_LOOKS = 20
"""Looks of a run of one object at one of several that may still yield: 8 seconds on average."""
_PARALLEL_READS = 16
_ADVICE = "delete it, unless a run loads into this table"


def claim_load(record: RunRecord, ledger: Ledger, context: Context) -> None:
    """Let a run load its objects as the only one.

    Raises `AlreadyLoading` if a run that has not ended asks the same of any of them; then nothing
    is claimed. The objects of two runs are compared one by one, so a claim of many is read from its
    run's listing.
    """
    own = _OwnObjects(record, ledger, context)
    if ledger.find_record() is not None and record.run in {e.run for e in own.alive_in(own.state)}:
        # A run that is resumed and had not failed has held its objects all the time.
        return

    def claim(state: LoadClaims | None) -> LoadClaims:
        others = [each for each in _alive(state, context) if each.run != record.run]
        own.refuse_shared(others)
        return LoadClaims((*others, own.claim))

    def release(state: LoadClaims | None) -> LoadClaims:
        claims = (state or LoadClaims()).claims
        return LoadClaims(tuple(each for each in claims if each.run != record.run))

    own.change(claim)
    try:
        own.refuse_other_kind()
    except AlreadyLoading:
        own.change(release)
        raise


class _OwnObjects:
    """Objects that a run shall load, compared with those of other runs."""

    def __init__(self, record: RunRecord, ledger: Ledger, context: Context) -> None:
        self._record, self._ledger, self._context = record, ledger, context
        table = record.table
        root = f"once/{load_folder(table.name, table.id)}{record.asked}/"
        self._objects, self._several = f"{root}object/", f"{root}several.json"
        self._shared: dict[LoadClaim, ObjectVersion | None] = {}

    @cached_property
    def claim(self) -> LoadClaim:
        """The claim of all objects."""
        record, now = self._record, self._context.now()
        if record.objects is not None:
            return LoadClaim(record.run, now, record.objects, None, None, record.listing)
        only = version_of(record.pinned)
        return LoadClaim(record.run, now, 1, only.hash, only.version_id, None)

    @property
    def state(self) -> str:
        """Name of the state that has the claim."""
        version = self.claim.version
        return self._several if version is None else f"{self._objects}{version}/state.json"

    @cached_property
    def _versions(self) -> dict[str, ObjectVersion]:
        return {each.hash: each for each in object_versions(self._record, self._ledger)}

    def change(self, change: Callable[[LoadClaims | None], LoadClaims]) -> None:
        """Change the state that has the claim."""
        store, wait = self._context.store, self._wait
        change_state(store, self.state, LoadClaims, change, advice=_ADVICE, wait=wait)

    def _wait(self, attempt: int) -> None:
        self._context.sleep(full_jitter(attempt, self._context.rng, cap=_MOST_WAIT_SECONDS))

    def refuse_shared(self, others: Iterable[LoadClaim]) -> None:
        """Raise `AlreadyLoading` if another run loads one of the objects."""
        for other in others:
            # A claim never changes: it need not be compared again with the next state.
            if other not in self._shared:
                self._shared[other] = self._find_shared(other)
            shared = self._shared[other]
            if shared is not None:
                raise _already_loading(shared, other.run, self._record)

    def _find_shared(self, other: LoadClaim) -> ObjectVersion | None:
        for key, version_id in _claimed(other, self._context):
            own = self._versions.get(key)
            if own is not None and same_ids(own.version_id, version_id):
                return own
        return None

    def refuse_other_kind(self) -> None:
        """Raise `AlreadyLoading` if a run of the other kind, of one or several, loads an object."""
        context = self._context
        if self.claim.version is None:
            claimed = self._versions.keys() & context.store.folders(self._objects)
            states = [f"{self._objects}{version}/state.json" for version in sorted(claimed)]
            for _, others in map_in_threads(self.alive_in, states, _PARALLEL_READS, len(states)):
                self.refuse_shared(others)
            return
        for attempt in range(1, _LOOKS + 1):
            others = self.alive_in(self._several)
            try:
                self.refuse_shared(others)
            except AlreadyLoading:
                have_begun = all(Ledger(context.store, each.run).find_record() for each in others)
                if have_begun or attempt == _LOOKS or context.must_end():
                    raise
                self._wait(attempt)
            else:
                return

    def alive_in(self, name: str) -> list[LoadClaim]:
        """Return the claims in a state whose runs have not ended."""
        state = read_state(self._context.store, name, LoadClaims, advice=_ADVICE)
        return _alive(state, self._context)


def _alive(state: LoadClaims | None, context: Context) -> list[LoadClaim]:
    return [each for each in (state or LoadClaims()).claims if not _has_ended(each, context)]


def _claimed(claim: LoadClaim, context: Context) -> Iterable[tuple[str, str | None]]:
    """Return the hash and the id of each version that another run has claimed."""
    if claim.version is not None:
        return [(claim.version, claim.version_id)]
    ledger = Ledger(context.store, claim.run)
    listed = iter_listing(ledger, claim.listing or "", 0, claim.objects)
    return ((each.hash, each.version_id) for each in map(version_of, listed))


def _has_ended(claim: LoadClaim, context: Context) -> bool:
    """Return whether the run of a claim has ended. One that was stopped is to be resumed."""
    ledger = Ledger(context.store, claim.run)
    report, record = ledger.find_report(), ledger.find_record()
    if record is None:
        return not may_begin(ledger, claim.at, context)
    if report is None or report.status not in (*DONE, FAILED):
        return False
    # A failed run that is resumed claims its objects again, after its report was made.
    return report.status in DONE or claim.at <= record.created + report.seconds


def _already_loading(version: ObjectVersion, other: str, record: RunRecord) -> AlreadyLoading:
    return AlreadyLoading(
        f"{version.location} is claimed by run {other}, which has not finished"
        f" {record.mode.loading} table {record.table.name}:"
        f" ddbload status {other} shows its state; wait for its end or, if it was stopped, continue"
        f" it (ddbload resume {other}), then repeat this command"
    )
