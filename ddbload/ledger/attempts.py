"""Records of what each invocation may have put, to tell the run's own items from others'.

`insert` finds items that are identical to its rows, and skips them. But an invocation that was
killed has put items and counted none, and the next one finds these. So each invocation says in the
ledger between which bytes the rows stand that it may have put: before it sends the first one, and
again before it sends one that stands beyond. When its segment is written, it says what it put
beyond the segment, which is nothing in most cases.

Identical items of rows that another invocation may have put may be this run's own, and count as
written. Whoever writes a segment looks first and writes it then: an invocation that puts a row
beside this one has said so from before it sends the row until a segment counts it.

Nothing is overwritten, for a write that was taken for lost may come late: each is an empty object,
`<run>-<invocation>-<number>-<from>-<to>`. Of an invocation's that with the highest number counts.
So one look at the names says it all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.run_record import Cursor
from ddbload.errors import DdbloadError, LedgerDamaged
from ddbload.ledger.ledger import Ledger

AHEAD_ROWS = 5_000
"""For how many rows an invocation speaks at once, about: so seldom it writes, and so many rows and
those under way count as written after a kill, at most, although they were there before."""

Range = tuple[int, int]
"""A byte range: start inclusive, end exclusive."""


class Attempt:
    """Record of what an invocation may have put; reads those of the chunk's other invocations."""

    def __init__(self, ledger: Ledger, chunk: Chunk, start: Cursor) -> None:
        self._ledger = ledger
        self._chunk = chunk
        # An invocation may be doubled: each speaks for itself.
        self._name = secrets.token_hex(8)
        self._number = 0
        self._begin = start.byte
        self._first = self._reach = start.byte

    def cover(self, reached: int, rows: int, untouched: Callable[[], int | None]) -> None:
        """Say that rows before the byte `reached` may be put.

        `rows`: how many there are from the start to there. `untouched`: the byte before which this
        invocation has put none and never will; None where it has. Raises what keeps the ledger from
        being written; then the rows must not be sent.
        """
        if reached <= self._reach:
            return
        ahead = (reached - self._begin) * AHEAD_ROWS // max(1, rows)
        first = untouched()
        # Rows that were put since it last spoke stand after what was untouched then.
        self._say(
            self._first if first is None else first,
            max(reached, min(reached + ahead, self._chunk.end)),
        )

    def trim(self, first: int, reach: int) -> None:
        """Say that what was put and is not counted stands between these bytes, if anything was.

        Where this does not come to the ledger, more counts as written than should, but nothing is
        skipped that was put.
        """
        if self._number:
            with suppress(DdbloadError):
                self._say(first, reach)

    def others(self, before: int) -> list[Range]:
        """List the byte ranges, up to a byte, that other invocations may have put; none overlap."""
        found = _last_of_each(self._ledger.attempt_names(self._chunk.chunk))
        found.pop(self._name, None)
        merged: list[Range] = []
        for first, reach in sorted((first, min(reach, before)) for first, reach in found.values()):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(reach, merged[-1][1]))
            elif first < reach:
                merged.append((first, reach))
        return merged

    def _say(self, first: int, reach: int) -> None:
        name = f"{self._name}-{self._number:06d}-{first}-{reach}"
        # Also where it fails: it may be there all the same.
        self._number += 1
        self._ledger.put_attempt(self._chunk.chunk, name)
        self._first, self._reach = first, reach


def _last_of_each(names: Sequence[str]) -> dict[str, Range]:
    """Find the last record of each invocation."""
    last: dict[str, Range] = {}
    # An invocation's stand together so, in the order of their numbers.
    for name in sorted(names):
        try:
            invocation, _, first, reach = name.split("-")
            last[invocation] = int(first), int(reach)
        except ValueError:
            raise LedgerDamaged(
                f"attempts/ has {name!r}, which is not what this version of ddbload writes; start a"
                " new run (another run id)"
            ) from None
    return last
