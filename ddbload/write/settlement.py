"""Which rows are settled, and how. Pure.

Rows are known by handle: 0, 1, 2, … in the order in which they stand in the source. Outcomes
come in any order; only those before the first unsettled row count.
"""

from __future__ import annotations

from enum import IntEnum

from ddbload.contracts import Counts


class Outcome(IntEnum):
    """What became of a row."""

    WRITTEN = 1
    REJECTED = 2
    SUPERSEDED = 3
    SKIPPED = 4


class Settlement:
    """Keeps the frontier: the handle of the first row that is not settled."""

    def __init__(self) -> None:
        self.frontier = 0
        self.known = 0
        """Rows told of so far: the next handle."""
        self._ahead = bytearray()
        self._start = 0
        self._tally = [0] * (max(Outcome) + 1)

    @property
    def ahead(self) -> int:
        """How many rows there are from the frontier on."""
        return self.known - self.frontier

    @property
    def counts(self) -> Counts:
        """What became of the rows before the frontier."""
        tally = self._tally
        return Counts(
            read=self.frontier,
            written=tally[Outcome.WRITTEN],
            rejected=tally[Outcome.REJECTED],
            superseded=tally[Outcome.SUPERSEDED],
            skipped=tally[Outcome.SKIPPED],
        )

    def add(self) -> int:
        """Tell of one more row; its handle."""
        handle = self.known
        self.known += 1
        self._ahead.append(0)
        return handle

    def settle(self, handle: int, outcome: Outcome) -> None:
        """Say what became of a row. Each row is settled once."""
        place = self._start + handle - self.frontier
        if handle < self.frontier or self._ahead[place]:
            raise AssertionError(f"row {handle} is settled already")
        self._ahead[place] = outcome
        if place == self._start:
            self._advance()

    def _advance(self) -> None:
        ahead, start = self._ahead, self._start
        while start < len(ahead) and ahead[start]:
            self._tally[ahead[start]] += 1
            start += 1
        self.frontier += start - self._start
        self._start = start
        # Settled rows are dropped a few thousand at a time: one by one would be quadratic.
        if start >= 4096:
            del ahead[:start]
            self._start = 0
