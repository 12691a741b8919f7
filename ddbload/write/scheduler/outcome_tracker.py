"""Which rows are settled, and how. Pure.

Rows are known by handle: 0, 1, 2, … in the order in which they stand in the source. Outcomes
come in any order; only those before the first unsettled row count.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ddbload.contracts.results import RowCounts

_KEPT = 4096
"""Settled rows are dropped so many at a time: one by one would be quadratic."""


class RowOutcome(IntEnum):
    """What became of a row."""

    WRITTEN = 1
    REJECTED = 2
    SUPERSEDED = 3
    SKIPPED = 4
    IDENTICAL = 5
    """An item like the row's was there. It counts as skipped, unless the row's own run put it."""
    UNSEEN = 6
    """An item was there that the answer does not show, as DynamoDB's does. It counts as skipped."""


class OutcomeTracker:
    """Keeps the frontier: the handle of the first row that is not settled."""

    def __init__(self) -> None:
        self.known = 0
        """Rows told of so far: the next handle."""
        # An outcome for each row from `_base` on, 0 while there is none. Up to `_start` there is
        # one for each, and it is counted in `_tally`.
        self._outcomes = bytearray()
        self._base = 0
        self._start = 0
        self._tally = [0] * (max(RowOutcome) + 1)

    @property
    def frontier(self) -> int:
        """The handle of the first row that is not settled."""
        outcomes, start = self._outcomes, self._start
        if start < len(outcomes) and outcomes[start]:
            self._advance()
        return self._base + self._start

    @property
    def ahead(self) -> int:
        """How many rows there are from the frontier on."""
        return self.known - self.frontier

    @property
    def counts(self) -> RowCounts:
        """What became of the rows before the frontier."""
        read, tally = self.frontier, self._tally
        return RowCounts(
            read=read,
            written=tally[RowOutcome.WRITTEN],
            rejected=tally[RowOutcome.REJECTED],
            superseded=tally[RowOutcome.SUPERSEDED],
            skipped=tally[RowOutcome.SKIPPED]
            + tally[RowOutcome.IDENTICAL]
            + tally[RowOutcome.UNSEEN],
        )

    def count(self, outcome: RowOutcome) -> int:
        """Rows before the frontier with this outcome."""
        # Brings the tally up to the frontier.
        _ = self.frontier
        return self._tally[outcome]

    def last_written(self) -> int | None:
        """The last handle from the frontier on that is written, if any."""
        frontier = self.frontier
        place = self._outcomes.rfind(RowOutcome.WRITTEN, frontier - self._base)
        return None if place < 0 else self._base + place

    def add(self, count: int = 1) -> int:
        """Tell of so many more rows; the first one's handle."""
        first = self.known
        self.known += count
        self._outcomes.extend(bytes(count))
        return first

    def settle(self, handle: int, outcome: RowOutcome) -> None:
        """Say what became of a row. Each row is settled once."""
        place = handle - self._base
        if place < self._start or self._outcomes[place]:
            raise AssertionError(f"row {handle} is settled already")
        self._outcomes[place] = outcome

    def settle_all(self, handles: Sequence[int], outcome: RowOutcome) -> None:
        """The same for several rows at once, in ascending order."""
        if not isinstance(handles, range):
            for handle in handles:
                self.settle(handle, outcome)
            return
        if handles and handles[0] < self._base + self._start:
            raise AssertionError(f"row {handles[0]} is settled already")
        places = slice(handles.start - self._base, handles.stop - self._base, handles.step)
        if any(self._outcomes[places]):
            raise AssertionError(f"of rows {handles} some are settled already")
        self._outcomes[places] = bytes([outcome]) * len(handles)

    def _advance(self) -> None:
        outcomes, start = self._outcomes, self._start
        stop = outcomes.find(0, start)
        if stop < 0:
            stop = len(outcomes)
        for outcome in RowOutcome:
            self._tally[outcome] += outcomes.count(outcome, start, stop)
        self._start = stop
        if stop >= _KEPT:
            del outcomes[:stop]
            self._base += stop
            self._start = 0
