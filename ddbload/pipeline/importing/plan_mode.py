"""Mode `plan`: a chunk's rows are read and checked as an import would, and none is sent."""

from __future__ import annotations

from contextlib import closing

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import PlanTotals, RowCounts, Segment, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.errors import DdbloadError
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import ChunkProgress, Context
from ddbload.pipeline.importing.row_feeder import MAX_REJECT_BYTES
from ddbload.pipeline.reading.measure import Measure, SizeHistogram
from ddbload.pipeline.reading.row_batches import RowBatch, make_row_batch
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.source_objects import chunk_blocks, chunk_parts, open_parts

PIECE_BYTES = 256 * 1024


def plan_chunk(
    chunk: Chunk, start: Cursor, reading: RunReader, ledger: Ledger, context: Context
) -> Segment | None:
    """Check rows from the cursor on, and write the segment that says what would come of them.

    Rows that would be written count as skipped. None where there was no time for any. Raises
    what keeps the source from being read, when the rows before it are settled.
    """
    plan = _ChunkPlan(chunk, start, reading, context)
    parts = chunk_parts(reading.record, chunk, start, ledger)
    error: DdbloadError | None = None
    with closing(open_parts(parts, reading.record, context)) as opened:
        try:
            for part, name, block in chunk_blocks(reading, chunk, start, opened, PIECE_BYTES):
                plan.add(make_row_batch(reading, name, part, block), block.end)
                if context.must_end() or plan.reject_bytes > MAX_REJECT_BYTES:
                    break
        except DdbloadError as caught:
            error = caught
    segment = plan.write(ledger)
    # What was given up for want of time, the next invocation tries again.
    if error is not None and (error.permanent or not context.must_end()):
        raise error
    return segment


class _ChunkPlan:
    """What is known of the rows so far."""

    def __init__(self, chunk: Chunk, start: Cursor, reading: RunReader, context: Context) -> None:
        self.reject_bytes = 0
        self._chunk, self._start, self._end = chunk, start, start
        self._context = context
        record = reading.record
        self._measure = Measure.of(record)
        self._rows, self._sizes = RowCounts(), SizeHistogram()
        self._lines: list[bytes] = []

    def add(self, walked: RowBatch, end: Cursor) -> None:
        """Take rows, the last of which ends at `end`."""
        measured = self._measure.measure(walked)
        lines = [walked.reject_line(row, defect) for row, defect in measured.rejected]
        self._lines += lines
        self.reject_bytes += sum(map(len, lines))
        self._sizes.add(measured.sizes)
        fine = walked.count - len(lines)
        self._rows += RowCounts(read=walked.count, rejected=len(lines), skipped=fine)
        self._end = end
        done = end.byte - self._start.byte
        self._context.progress(ChunkProgress(self._chunk.chunk, self._rows, WriteStats(), done))

    def write(self, ledger: Ledger) -> Segment | None:
        """Write the segment, where there is anything to say."""
        chunk, start, end, sizes = self._chunk, self._start, self._end, self._sizes
        if end.byte == start.byte:
            return None
        rejects = None
        if self._lines:
            rejects = ledger.put_rejects(chunk.chunk, start.byte, end.byte, self._lines)
        planned = PlanTotals(sizes.count, sizes.bytes, sizes.units, sizes.largest)
        proven = end.byte == chunk.end
        return ledger.put_segment(
            Segment(chunk.chunk, start, end, proven, self._rows, WriteStats(), rejects, planned)
        )
