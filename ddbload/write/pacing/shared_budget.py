"""Divide a run's `max_wcu` and `max_cost` among its workers, by claims that they publish. Pure.

Each worker claims a share: it publishes the claim, lists the claims of all others, and then uses at
most what the budget leaves beside these. It uses less at once, and more only after it has published
a larger claim and listed the others again. Of two workers, the one that listed later has seen the
claim of the other. So the shares in use never exceed the budget, in whatever order workers publish,
list, start and die.

While workers know different budgets, the sum stays within the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple

from ddbload.contracts.control import SeenWorker
from ddbload.records import Record

PACE_FACTOR = 4
"""Headroom of a worker, as a multiple of its recent consumption between two claims."""
LEAST_PARTS, MOST_PARTS = 16, 2
"""Bounds of the headroom: 1/16 and 1/2 of a worker's even share of the rest.

A worker that is killed forfeits its headroom.
"""
REACHED_SHARE = 0.995
"""Share of the budget at which a run ends; the last units could only be split one by one."""


class Limits(Record):
    """Limits of a run, claim of a worker, or a worker's allowance. None means no limit."""

    wcu: float | None = None
    """Write units per second."""
    units: float | None = None
    """Total write units of the run."""


class SharedBudget:
    """Part of the run's budget that one worker may use."""

    def __init__(self, workers: int) -> None:
        """`workers`: initial number of workers, for claims before the first listing."""
        self.budget = Limits()
        self.claimed = Limits()
        """Claim to publish."""
        self.allowed = Limits()
        """Part of the budget that may be used now."""
        self._workers = max(1, workers)
        self._others: Sequence[SeenWorker] | None = None
        # Units used at the time of the claim, and recently between two claims.
        self._used = 0.0
        self._pace = 0.0

    @property
    def limited(self) -> bool:
        """True if a limit is in force."""
        return self.budget != Limits()

    def set_budget(self, budget: Limits) -> None:
        """Replace the run's budget. A lower one takes effect only after the next listing."""
        before, allowed = self.budget, self.allowed
        self.budget = budget
        self.allowed = Limits(
            _until_listed(before.wcu, budget.wcu, allowed.wcu),
            _until_listed(before.units, budget.units, allowed.units),
        )

    def rejoin(self) -> None:
        """Use nothing until the next listing, after the worker was idle or silent for too long."""
        self._others = None
        self.allowed = Limits(*(None if each is None else 0.0 for each in astuple(self.budget)))

    def claim(self, used: float) -> Limits:
        """Return the next claim to publish. `used`: units that the worker has used in the run."""
        # A worker that waited for its claim has used nothing, but still needs the same amount.
        self._pace = max(used - self._used, self._pace / 2)
        self._used = used
        wcu = self._claimed_wcu()
        units = self._claimed_units(used)
        self.claimed = Limits(wcu, units)
        self.allowed = Limits(_least(self.allowed.wcu, wcu), _least(self.allowed.units, units))
        return self.claimed

    def release(self, used: float) -> Limits:
        """Return the claim of a worker that sends nothing from now on."""
        self.rejoin()
        self.claimed = Limits(
            None if self.budget.wcu is None else 0.0,
            None if self.budget.units is None else used,
        )
        return self.claimed

    def listed(self, others: Sequence[SeenWorker]) -> Limits:
        """Update the allowance, after the claim was published and the others were listed."""
        self._others = others
        self.allowed = Limits(
            _left(self.budget.wcu, self.claimed.wcu, sum(each.wcu for each in others)),
            _left(self.budget.units, self.claimed.units, sum(each.units for each in others)),
        )
        return self.allowed

    def is_unsettled(self, used: float) -> bool:
        """Return whether another claim and listing should follow soon.

        True if workers came or went, if others have not reduced their use yet, and while more than
        half of the allowed units are used up.
        """
        claimed, allowed = self.claimed, self.allowed
        wanted = self._claimed_wcu()
        if wanted is not None and not wanted == claimed.wcu == allowed.wcu:
            return True
        return allowed.units is not None and allowed.units - used < (allowed.units - self._used) / 2

    def units_spent(self, used: float) -> float:
        """Return the units that the run has consumed, or that dead workers had claimed."""
        return used + sum(each.units_spent for each in self._others or ())

    @property
    def units_forfeited(self) -> float:
        """Units that dead workers had claimed, and may have consumed."""
        others = self._others or ()
        return sum(each.units_spent - each.progress.totals.work.consumed_wcu for each in others)

    def is_spent(self, used: float) -> bool:
        """Return whether the run has reached its budget of units, as far as is known."""
        total, allowed = self.budget.units, self.allowed.units
        if total is None or allowed is None or self._others is None or used < allowed:
            return False
        # A worker may be left with less than one unit.
        tolerance = sum(each.working for each in self._others) + 1
        return self.units_spent(used) >= total * REACHED_SHARE - tolerance

    @property
    def _sharers(self) -> int:
        """Number of workers that share the budget."""
        if self._others is None:
            return self._workers
        return 1 + sum(each.working for each in self._others)

    def _claimed_wcu(self) -> float | None:
        return None if self.budget.wcu is None else self.budget.wcu / self._sharers

    def _claimed_units(self, used: float) -> float | None:
        total = self.budget.units
        if total is None:
            return None
        free = max(0.0, total - used - sum(each.units for each in self._others or ()))
        share = free / self._sharers
        pace = max(share / LEAST_PARTS, PACE_FACTOR * self._pace)
        headroom = min(share / MOST_PARTS, pace)
        # The last units are distributed one by one, because fractions of a row cannot be sent.
        return used + min(free, max(1.0, math.floor(headroom)))


def _until_listed(before: float | None, after: float | None, allowed: float | None) -> float | None:
    if after is None:
        return None
    if before is None or after < before:
        return 0.0
    return allowed


def _least(allowed: float | None, claimed: float | None) -> float | None:
    return claimed if allowed is None or claimed is None else min(allowed, claimed)


def _left(budget: float | None, claimed: float | None, others: float) -> float | None:
    if budget is None or claimed is None:
        return None
    return max(0.0, min(claimed, budget - others))
