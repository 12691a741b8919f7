"""Plan mode: read and check a chunk's rows as an import would, and send none."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import PlanTotals, ProgressSamples, Segment
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.errors import DdbloadError
from ddbload.ledger.ledger import Ledger
from ddbload.reading.measure import Measure, SizeHistogram
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import RunReader
from ddbload.reading.source_objects import read_chunk
from ddbload.source.decoding.seek_trail import SeekTrail
from ddbload.steps.row_feeder import MAX_REJECT_BYTES

PLAN_READ_BYTES = 256 * 1024


def plan_chunk(
    chunk: Chunk, start: Cursor, reader: RunReader, ledger: Ledger, context: Context
) -> Segment | None:
    """Check rows from the cursor on, and write the segment with their counts and sizes.

    Rows that would be written count as skipped. None if there was no time for any row. Raises
    what keeps the source from being read, after the rows before it were counted.
    """
    plan = _ChunkPlan(chunk, start, reader, context)
    error: DdbloadError | None = None
    trail = SeekTrail()
    reading = read_chunk(reader, chunk, start, ledger, context, PLAN_READ_BYTES, trail)
    with closing(reading) as blocks:
        try:
            for object_slice, name, block in blocks:
                if block.data:
                    plan.add(RowBatch(reader, name, object_slice, block), block.end)
                else:
                    plan.skip_to(block.end)
                trail.discard_before(block.end.byte)
                if context.must_end() or plan.reject_bytes > MAX_REJECT_BYTES:
                    break
        except DdbloadError as caught:
            error = caught
    segment = plan.write(ledger, trail)
    # A request that was given up at the deadline is repeated by the next invocation.
    if error is not None and (error.permanent or not context.must_end()):
        raise error
    return segment


class _ChunkPlan:
    """Counts, sizes and rejects of the rows that were checked so far."""

    def __init__(self, chunk: Chunk, start: Cursor, reader: RunReader, context: Context) -> None:
        self.reject_bytes = 0
        self._chunk, self._start, self._end = chunk, start, start
        self._context = context
        self._samples = ProgressSamples(context.worker, context.now(), context.clock())
        record = reader.record
        self._measure = Measure.of(record)
        self._rows, self._sizes = RowCounts(), SizeHistogram()
        self._lines: list[bytes] = []
        self._causes: Counter[str] = Counter()
        self._padding = 0

    def skip_to(self, end: Cursor) -> None:
        """Skip bytes that no object has."""
        self._padding += end.byte - self._end.byte
        self._end = end

    def add(self, batch: RowBatch, end: Cursor) -> None:
        """Check and count rows, the last of which ends at `end`."""
        measured = self._measure.measure(batch)
        knows_line = self._chunk.first_line > 0
        lines = [
            batch.reject_line(row, defect, knows_line=knows_line)
            for row, defect in measured.rejected
        ]
        self._lines += lines
        self._causes.update(defect.cause for _, defect in measured.rejected)
        self.reject_bytes += sum(map(len, lines))
        self._sizes.add(measured.sizes)
        valid = batch.count - len(lines)
        self._rows += RowCounts(
            read=batch.count + batch.filtered,
            rejected=len(lines),
            skipped=valid,
            filtered=batch.filtered,
        )
        self._end = end
        done, work = end.byte - self._start.byte - self._padding, WriteStats()
        self._samples.add(self._context.clock(), self._rows.read, work.consumed_wcu, work.throttled)
        self._context.progress((self._chunk.chunk, WorkTotals(self._rows, work, done)))

    def write(self, ledger: Ledger, trail: SeekTrail) -> Segment | None:
        """Write the segment, and the point to continue at; None if no row was checked."""
        chunk, start, end, sizes = self._chunk, self._start, self._end, self._sizes
        if end.byte == start.byte:
            return None
        rejects = None
        if self._lines:
            rejects = ledger.put_rejects(chunk.chunk, start.byte, end.byte, self._lines)
        planned = PlanTotals(sizes.count, sizes.bytes, sizes.units, sizes.largest)
        proven = end.byte == chunk.end
        point = None if proven else trail.last_before(end.byte)
        if point is not None:
            ledger.put_seek_point(end.byte, point)
        times = self._samples.times(self._context.clock())
        return ledger.put_segment(
            Segment(
                *(chunk.chunk, start, end, proven, self._rows, WriteStats(), rejects),
                planned=planned,
                times=times,
                causes=dict(self._causes) or None,
                padding=self._padding or None,
            )
        )
