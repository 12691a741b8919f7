"""Claim the objects of a run that shall load each once, so that no other run loads them meanwhile.

The history knows what was loaded; what is being loaded by runs that shall load it once is known by
their claims, below `once/<table>/<table id>/<hash of what was asked>/`. Runs of one object claim in
a state for each object version, `object/<hash>/`, so that those of different objects never meet;
runs of several share the state `several/` (`ledger.shared_state`). In one state, of two runs that
begin at the same time one finds the claim of the other. Between the two kinds each run writes its
claim first and looks for others then, so at least one finds the other's: that of several objects
yields at once, that of one waits until the other has begun or yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from ddbload.aws.backoff import full_jitter
from ddbload.context import LedgerContext
from ddbload.contracts.load_record import (
    LoadClaim,
    LoadClaims,
    ObjectVersion,
    load_folder,
    same_ids,
)
from ddbload.contracts.results import DONE, FAILED
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import DELETE
from ddbload.errors import AlreadyLoading
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import iter_listing
from ddbload.ledger.shared_state import change_state, read_state
from ddbload.pipeline.load_history import ended_at, object_versions, version_of
from ddbload.pipeline.run_requests import may_begin

_MOST_WAIT_SECONDS = 1.0
_LOOKS = 20
"""Looks of a run of one object at one of several that may still yield: 8 seconds on average."""
_PARALLEL_READS = 16
_UNLESS = "a run loads into this table"


def claim_load(record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
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

    def __init__(self, record: RunRecord, ledger: Ledger, context: LedgerContext) -> None:
        self._record, self._ledger, self._context = record, ledger, context
        table = record.table
        root = f"once/{load_folder(table.name, table.id)}{record.asked}/"
        self._objects, self._several = f"{root}object/", f"{root}several/"
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
        """The folder of the state that has the claim."""
        version = self.claim.version
        return self._several if version is None else f"{self._objects}{version}/"

    @cached_property
    def _versions(self) -> dict[str, ObjectVersion]:
        return {each.hash: each for each in object_versions(self._record, self._ledger)}

    def change(self, change: Callable[[LoadClaims | None], LoadClaims]) -> None:
        """Change the state that has the claim."""
        store, wait = self._context.store, self._wait
        change_state(store, self.state, LoadClaims, change, unless=_UNLESS, wait=wait)

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
            states = [f"{self._objects}{version}/" for version in sorted(claimed)]
            with ThreadPoolExecutor(_PARALLEL_READS) as pool:
                for others in pool.map(self.alive_in, states):
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

    def alive_in(self, folder: str) -> list[LoadClaim]:
        """Return the claims in a state whose runs have not ended."""
        state = read_state(self._context.store, folder, LoadClaims, unless=_UNLESS)
        return _alive(state, self._context)


def _alive(state: LoadClaims | None, context: LedgerContext) -> list[LoadClaim]:
    return [each for each in (state or LoadClaims()).claims if not _has_ended(each, context)]


def _claimed(claim: LoadClaim, context: LedgerContext) -> Iterable[tuple[str, str | None]]:
    """Return the hash and the id of each version that another run has claimed."""
    if claim.version is not None:
        return [(claim.version, claim.version_id)]
    ledger = Ledger(context.store, claim.run)
    listed = iter_listing(ledger, claim.listing or "", 0, claim.objects)
    return ((each.hash, each.version_id) for each in map(version_of, listed))


def _has_ended(claim: LoadClaim, context: LedgerContext) -> bool:
    """Tell whether the run of a claim has ended. One that was stopped is to be resumed."""
    ledger = Ledger(context.store, claim.run)
    report, record = ledger.find_report(), ledger.find_record()
    if record is None:
        return not may_begin(ledger, claim.at, context)
    if report is None or report.status not in (*DONE, FAILED):
        return False
    # A failed run that is resumed claims its objects again.
    return report.status in DONE or claim.at <= ended_at(record, report)


def _already_loading(version: ObjectVersion, other: str, record: RunRecord) -> AlreadyLoading:
    doing = "deleting it from" if record.payload.options.mode == DELETE else "loading it into"
    return AlreadyLoading(
        f"{version.location} is claimed by run {other}, which has not finished {doing} table"
        f" {record.table.name}:"
        f" ddbload status {other} shows its state; wait for its end or, if it was stopped, continue"
        f" it (ddbload resume {other}), then repeat this command"
    )
