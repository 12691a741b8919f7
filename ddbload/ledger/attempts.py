"""Records of the rows that each invocation may have sent, to recognize the run's own items.

`insert` skips rows whose item is already in the table and identical. But an invocation that was
killed has written items without counting them, and the next one finds these. So each invocation
records in the ledger the byte range of the rows that it may send: before it sends the first one,
and again before it sends one beyond the range. When its segment is written, it records which rows
it sent beyond the segment, usually none.

An identical item for a row in the range of another invocation may be the run's own, and counts as
written. An invocation reads the ranges before it writes its segment: another one that sends a row
at the same time has recorded it before sending, and keeps the record until a segment counts it.

Nothing is overwritten, because a write that seemed lost may arrive late: each record is an empty
object, named `<run>-<invocation>-<number>-<from>-<to>`. The record of an invocation with the
highest number counts. One listing of the names reads them all.
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
"""Approximate number of rows that one record covers in advance. More make fewer records, but after
a kill up to this number of rows may count as written although their items existed before."""

Range = tuple[int, int]
"""A byte range: start inclusive, end exclusive."""


class Attempt:
    """Record of the rows that an invocation may have sent, and reader of the others' records."""

    def __init__(self, ledger: Ledger, chunk: Chunk, start: Cursor) -> None:
        self._ledger = ledger
        self._chunk = chunk
        # Random: the same invocation may run twice, and each needs records of its own.
        self._name = secrets.token_hex(8)
        self._number = 0
        self._start = start.byte
        self._recorded_from = self._recorded_to = start.byte

    def cover(self, end: int, rows: int, untouched_before: Callable[[], int | None]) -> None:
        """Record that rows before byte `end` may be sent from now on.

        `rows`: the number of rows from the start to `end`. `untouched_before` returns the byte
        before which this invocation has sent no row and never will; None if it has. Raises the
        error that keeps the ledger from being written: the rows must not be sent then.
        """
        if end <= self._recorded_to:
            return
        ahead = (end - self._start) * AHEAD_ROWS // max(1, rows)
        untouched = untouched_before()
        # Rows that were sent since the last record lie after the bytes untouched then.
        self._record(
            self._recorded_from if untouched is None else untouched,
            max(end, min(end + ahead, self._chunk.end)),
        )

    def trim(self, start: int, end: int) -> None:
        """Record that sent rows without a segment lie between these bytes, if any were sent.

        An error is ignored: then more rows count as written than should, but no row that was
        written counts as skipped.
        """
        if self._number:
            with suppress(DdbloadError):
                self._record(start, end)

    def others(self, before: int) -> list[Range]:
        """List the byte ranges before a byte that other invocations may have sent, merged."""
        ranges = _last_ranges(self._ledger.attempt_names(self._chunk.chunk))
        ranges.pop(self._name, None)
        merged: list[Range] = []
        for start, end in sorted((start, min(end, before)) for start, end in ranges.values()):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            elif start < end:
                merged.append((start, end))
        return merged

    def _record(self, start: int, end: int) -> None:
        name = f"{self._name}-{self._number:06d}-{start}-{end}"
        # Counted before writing: an object may exist although writing it failed.
        self._number += 1
        self._ledger.put_attempt(self._chunk.chunk, name)
        self._recorded_from, self._recorded_to = start, end


def _last_ranges(names: Sequence[str]) -> dict[str, Range]:
    """Return the last recorded range of each invocation."""
    last: dict[str, Range] = {}
    # Sorted by invocation, then by number.
    for name in sorted(names):
        try:
            invocation, _, start, end = name.split("-")
            last[invocation] = int(start), int(end)
        except ValueError:
            raise LedgerDamaged(
                f"attempts/ has {name!r}, which is not what this version of ddbload writes; start a"
                " new run (another run id)"
            ) from None
    return last
