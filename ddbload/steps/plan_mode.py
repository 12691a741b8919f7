"""Plan mode: read and check a chunk's rows as an import would, and send none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import ProgressSamples, RowCounts, WorkTotals, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.errors import DdbloadError
from ddbload.ledger.ledger import Ledger
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import RunReader, read_chunk
from ddbload.rows.blocks import Defect
from ddbload.run_worker import WorkerSession
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.steps.row_feeder import MAX_REJECT_BYTES, write_segment

PLAN_READ_BYTES = 256 * 1024


def plan_chunks(
    starts: Mapping[Chunk, Cursor],
    errors: list[DdbloadError],
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    session: WorkerSession | None,
) -> list[Segment]:
    """Check one chunk after the other until the deadline; return their segments.

    Errors of chunks, and the first other one, are added to `errors`.
    """
    segments: list[Segment] = []
    for chunk, start in starts.items():
        try:
            segment = _plan_chunk(chunk, start, reader, ledger, context, session)
        except DdbloadError as error:
            error.chunk = chunk.chunk
            errors.append(error)
            if error.chunk_local:
                continue
            break
        segments += [] if segment is None else [segment]
        if context.must_end():
            break
    return segments


def _plan_chunk(
    chunk: Chunk,
    start: Cursor,
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    session: WorkerSession | None,
) -> Segment | None:
    """Check rows from the cursor on, and write the segment with their counts and sizes.

    Rows that would be written count as skipped. None if there was no time for any row. Raises
    what keeps the source from being read, after the rows before it were counted.
    """
    end, rows, work, padding = start, RowCounts(), WriteStats(), 0
    lines, causes, reject_bytes = list[bytes](), Counter[str](), 0
    samples = ProgressSamples(context.worker, context.now(), context.clock())
    error: DdbloadError | None = None
    trail = SeekTrail()
    reading = read_chunk(reader, chunk, start, ledger, context, PLAN_READ_BYTES, trail)
    with closing(reading) as blocks:
        try:
            for object_slice, name, block in blocks:
                if block.data:
                    batch = RowBatch(reader, name, object_slice, block)
                    for row, defect in batch.single_rows():
                        if isinstance(defect, Defect):
                            knows_line = chunk.first_line > 0
                            lines.append(batch.reject_line(row, defect, knows_line=knows_line))
                            reject_bytes += len(lines[-1])
                            causes[defect.cause] += 1
                    rejected = len(lines) - rows.rejected
                    rows += RowCounts(
                        read=batch.count + batch.filtered,
                        rejected=rejected,
                        skipped=batch.count - rejected,
                        filtered=batch.filtered,
                    )
                else:
                    # Bytes that no object has.
                    padding += block.end.byte - end.byte
                end = block.end
                samples.add(context.clock(), rows.read, work.consumed_wcu, work.throttled)
                done = end.byte - start.byte - padding
                context.progress(((chunk.chunk,), WorkTotals(rows, work, done)))
                trail.discard_before(end.byte)
                if context.must_end() or reject_bytes > MAX_REJECT_BYTES:
                    break
        except DdbloadError as caught:
            error = caught
    segment = None
    if end.byte > start.byte:
        segment = Segment(
            *(chunk.chunk, start, end, end.byte == chunk.end, rows, work, None),
            times=samples.times(context.clock()),
            padding=padding or None,
        )
        segment, is_own = write_segment(segment, (lines, dict(causes)), trail, ledger)
        if session is not None and is_own:
            session.settle(WorkTotals(segment.rows, segment.work, segment.bytes))
    # A request that was given up at the deadline is repeated by the next invocation.
    if error is not None and (error.permanent or not context.must_end()):
        raise error
    return segment
