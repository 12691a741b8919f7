"""Progress of workers, written by hand."""

from __future__ import annotations

from dataclasses import replace

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.control import WORKING, WorkerProgress
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.ledger.ledger import Ledger


def done(rows: int, size: int) -> WorkTotals:
    """Make totals of rows that were all written."""
    return WorkTotals(RowCounts(rows, rows), WriteStats(consumed_wcu=rows), size)


class HandWritten:
    """Worker whose progress a test writes."""

    def __init__(self, ledger: Ledger, name: str = "a1") -> None:
        self.ledger = ledger
        self.now = WorkerProgress(name, 0, WORKING, None, None)
        ledger.put_worker(self.now, None)

    def works_on(self, chunk: Chunk, *, read: int, start: int | None = None) -> None:
        """Write that bytes of a chunk were read, as many rows of one byte."""
        begin = chunk.start if start is None else start
        self._write(chunk=chunk.chunk, start=begin, current=done(read, read))

    def finished(self, chunk: Chunk, rows: int | None = None) -> None:
        """Write that the chunk's segment was written; `rows`: by default those of the ledger."""
        if rows is None:
            segments = [each for each in self.ledger.iter_segments() if each.chunk == chunk.chunk]
            rows = sum(each.rows.written for each in segments)
        settled = self.now.settled + done(rows, chunk.end - chunk.start)
        self._write(chunk=None, start=0, current=WorkTotals(), settled=settled)

    def _write(self, **changes: object) -> None:
        earlier, self.now = self.now, replace(self.now, number=self.now.number + 1, **changes)
        self.ledger.put_worker(self.now, earlier)
