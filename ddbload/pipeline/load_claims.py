"""Claim the objects of a run that shall load each once, so that no other run loads them meanwhile.

The history knows what was loaded; what is being loaded by runs that shall load it once is known by
their claims. The claims of all runs that ask the same of a table are one state in
`once/<table>/<table id>/<hash of what was asked>/` (`ledger.shared_state`): of two runs that begin
at the same time, one finds the claim of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ddbload.aws.backoff import full_jitter
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
from ddbload.ledger.shared_state import change_state
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.load_history import ended_at, object_versions, version_of

RECORD_SECONDS = 60.0
"""Seconds after its claim for which a run may begin, although its ledger has no record yet."""
_MOST_WAIT_SECONDS = 1.0


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
        only = version_of(record.pinned)
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
    return ((each.hash, each.version_id) for each in map(version_of, listed))


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
    return report.status in DONE or claim.at <= ended_at(record, report)


def _already_loading(version: ObjectVersion, other: str, record: RunRecord) -> AlreadyLoading:
    table = record.table
    target = f"table {table.name}" if table.is_table else table.name
    doing = "deleted from" if record.payload.options.mode == DELETE else "loaded into"
    return AlreadyLoading(
        f"{version.location} is being {doing} {target} by run {other}, which has not ended: see how"
        f" far it is (ddbload status {other}); if it was stopped, continue it (ddbload resume"
        f" {other}); then repeat this command"
    )
