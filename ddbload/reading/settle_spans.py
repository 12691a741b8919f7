"""Read a source's spans, in several processes if it has many, and settle them in order.

The source is not read before: a cut between spans is a guess, the row end that is found from a
window of bytes near it, and whoever reads the span before the cut proves it. Results are those of
one process, whatever the number: each span is read as if by itself, and is taken in the source's
order, once the span before it has proved that it begins with a row. What a worker cannot settle,
such as an error, is read again in this process, from the known position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Protocol

from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import PinnedObject, iter_objects
from ddbload.reading.context import LedgerContext
from ddbload.reading.open_sources import open_decoded, open_each
from ddbload.reading.row_batches import (
    CutInsideRowError,
    RowBatch,
    RowSpan,
    iter_row_batches,
)
from ddbload.reading.row_blocks import RunReader, rare_gc
from ddbload.reading.span_output import SpanOutput
from ddbload.reading.span_pool import (
    FinishedOutput,
    PoolSetup,
    RemoteOutput,
    SpanJob,
    SpanPool,
    SpanResult,
    TrackedBatches,
    Unsettled,
    work_span,
)
from ddbload.source.decoding.decoded_source import DecodedSource

SPAN_BYTES = 2 * 1024 * 1024
"""Bytes of a span of a local file: its output stays in memory until its turn."""
REMOTE_SPAN_BYTES = 16 * 1024 * 1024
"""Bytes of a span of an object in S3, where each span takes two requests."""
MAX_SPAN_OBJECTS = 64
_WINDOW_BEFORE, _WINDOW_AFTER = 32 * 1024, 64 * 1024
"""Bytes before and after the place of a cut in which a row end is looked for."""
MAX_WRONG_CUTS = 3
"""Cuts inside rows after which the rest of the source is read as one span."""


class SpanTaker(Protocol):
    """Consumer of spans in the order of the source."""

    def take(self, summary: Any, output: FinishedOutput, start: Cursor) -> bool:
        """Take a span that a worker read; False to have it read by `read` instead."""

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Read a span in this process. Raises what keeps it from being taken."""

    def check_stop(self) -> None:
        """Raise `Interrupted` to stop."""


def settle_spans(
    record: RunRecord,
    ledger: Ledger,
    context: LedgerContext,
    job: SpanJob,
    taker: SpanTaker,
    *,
    processes: int = 1,
    make_context: Callable[[], LedgerContext] | None = None,
    folder: str | None = None,
) -> None:
    """Read all rows of a run by `processes`, and have them taken in order.

    Args:
        record: Record of the run.
        ledger: Ledger with the listing of several objects.
        context: Clients and access policy.
        job: Work on each span.
        taker: Consumer of the results.
        processes: Most worker processes. With 1, and for a source of one span, all is done in this
            process.
        make_context: Maker of a worker's context; by default it uses a copy of `context`.
        folder: Folder for output that does not fit in memory.

    Raises:
        WorkerDied: If a worker was killed.
        DdbloadError: If the source cannot be read, or as the taker raises.
    """
    reader = RunReader(record)
    with closing(iter_spans(reader, ledger, context)) as spans, rare_gc():
        first = list(_take(spans, 2))
        several = len(first) > 1
        setup = PoolSetup(record, job, make_context or (lambda: context), folder)
        with ExitStack() as stack:
            pool = None
            if several and processes > 1:
                pool = stack.enter_context(closing(SpanPool(processes, setup)))
            _Settlement(reader, ledger, context, job, taker, pool, folder).run(first, spans)
            if pool is not None:
                pool.wait_written()


def _take(spans: Iterator[RowSpan], count: int) -> Iterator[RowSpan]:
    for _ in range(count):
        span = next(spans, None)
        if span is None:
            return
        yield span


class _Settlement:
    """Settles spans in order: takes results, joins spans that were cut inside a row."""

    def __init__(
        self,
        reader: RunReader,
        ledger: Ledger,
        context: LedgerContext,
        job: SpanJob,
        taker: SpanTaker,
        pool: SpanPool | None,
        folder: str | None,
    ) -> None:
        self._reader, self._ledger, self._context = reader, ledger, context
        self._job, self._taker, self._pool, self._folder = job, taker, pool, folder
        self._at = reader.record.data_start
        self._several = reader.record.objects is not None

    def run(self, first: list[RowSpan], rest: Iterator[RowSpan]) -> None:
        """Settle all spans."""
        waiting = deque(first)
        submitted: deque[tuple[RowSpan, int]] = deque()
        wrong = 0

        def following() -> RowSpan | None:
            return waiting.popleft() if waiting else next(rest, None)

        while True:
            while self._pool is not None and len(submitted) < self._pool.capacity:
                more = following()
                if more is None:
                    break
                submitted.append((more, self._pool.submit(more)))
            if self._pool is None:
                alone = following()
                if alone is None:
                    return
                span, settled = alone, self._settle_here(alone)
            elif submitted:
                span, number = submitted.popleft()
                settled = self._settle_result(self._pool, span, number)
            else:
                return
            while not settled:
                wrong += 1
                if self._pool is not None and submitted:
                    after, number = submitted.popleft()
                    self._pool.drop(number)
                else:
                    after = following() or RowSpan(span.start)
                if wrong > MAX_WRONG_CUTS:
                    # This text deceives: the rest of it is read in one pass.
                    for _, number in submitted:
                        if self._pool is not None:
                            self._pool.drop(number)
                    self._read_here(replace(span, end=None))
                    return
                span = replace(span, end=after.end)
                settled = self._settle_here(span)

    def _settle_result(self, pool: SpanPool, span: RowSpan, number: int) -> bool:
        """Wait for a worker's result, and take it; False if the span ends inside a row."""
        result = pool.wait(number)
        self._taker.check_stop()
        if result is Unsettled.CUT:
            pool.drop(number)
            return False
        if isinstance(result, SpanResult):
            output = RemoteOutput(pool, number, result)
            if self._taker.take(result.summary, output, self._at):
                pool.drop(number)
                self._advance(span, result.end)
                return True
        pool.drop(number)
        return self._read_here(span)

    def _settle_here(self, span: RowSpan) -> bool:
        """Read a span in this process; False if it ends inside a row."""
        if span.end is None:
            return self._read_here(span)
        output = SpanOutput(self._folder, deflate=self._job.deflate)
        try:
            self._taker.check_stop()
            try:
                result = work_span(
                    self._reader, self._ledger, self._context, self._job, span, output
                )
            except CutInsideRowError:
                return False
            except Exception:  # noqa: BLE001 - it is read again, and raises again
                return self._read_here(span)
            if not self._taker.take(result.summary, output, self._at):
                return self._read_here(span)
            self._advance(span, result.end)
            return True
        finally:
            output.close()

    def _read_here(self, span: RowSpan) -> bool:
        """Have the taker read a span from the known position; True, unless it raises."""
        start = self._at
        span = replace(span, start=start)
        batches = iter_row_batches(
            self._reader,
            self._ledger,
            self._context,
            piece_bytes=self._job.piece_bytes,
            span=span,
        )
        with closing(batches):
            tracked = TrackedBatches(batches, start)
            self._taker.read(iter(tracked))
        self._at = tracked.end
        return True

    def _advance(self, span: RowSpan, end: Cursor) -> None:
        at = self._at
        line = 1 if self._several else at.line + end.line - span.start.line
        self._at = Cursor(at.byte + end.byte - span.start.byte, line)


def iter_spans(reader: RunReader, ledger: Ledger, context: LedgerContext) -> Generator[RowSpan]:
    """Cut a run's source into spans, in order; the lines that they start at count from 1.

    The spans depend on the source alone. Raises the errors of reading the source.
    """
    record = reader.record
    if record.objects is not None:
        yield from _group_objects(iter_objects(record, ledger, 0), record.data_start)
        return
    first = RowSpan(record.data_start)
    # Where values are not lines, no window shows whether a row ends in it.
    if not reader.is_ranged or record.size is None or record.payload.source.framed:
        yield first
        return
    several, reads = False, record.payload.options.read_concurrency
    objects = open_each(iter([record.pinned]), context, several=several, read_concurrency=reads)
    with closing(objects) as each:
        for pinned, raw in each:
            file = open_decoded(raw, record.payload.source, pinned)
            if file.plain:
                is_local = "path" in pinned
                size = SPAN_BYTES if is_local else REMOTE_SPAN_BYTES
                yield from _cut(reader, file, record.data_start, raw.size, size)
            else:
                yield first


def _group_objects(objects: Iterator[PinnedObject], start: Cursor) -> Iterator[RowSpan]:
    """Group successive objects; a large one stays alone."""
    group: list[PinnedObject] = []
    size = before = stored = 0
    for pinned in objects:
        bytes_ = int(pinned.get("bytes", pinned["size"]))
        if group and (size + bytes_ > REMOTE_SPAN_BYTES or len(group) == MAX_SPAN_OBJECTS):
            yield RowSpan(start, None, tuple(group), before)
            before += stored
            group, size, stored = [], 0, 0
        group.append(pinned)
        size += bytes_
        stored += int(pinned["size"])
    if group:
        yield RowSpan(start, None, tuple(group), before)


def _cut(
    reader: RunReader, file: DecodedSource, start: Cursor, size: int, span_bytes: int
) -> Iterator[RowSpan]:
    at = start.byte
    target = at + span_bytes
    # A last span of less than half the bytes is not worth a cut.
    while target + span_bytes // 2 < size:
        end = _guess_row_end(reader, file, at, target, size)
        if end is None:
            target += span_bytes
            continue
        yield RowSpan(Cursor(at, 1), end)
        at, target = end, end + span_bytes
    yield RowSpan(Cursor(at, 1))


def _guess_row_end(
    reader: RunReader, file: DecodedSource, after: int, target: int, size: int
) -> int | None:
    """Find a probable row end at `target` or a little later; None without one in the window."""
    begin = max(after, target - _WINDOW_BEFORE)
    stop = min(size, target + _WINDOW_AFTER)
    window = b"".join(file.stream(begin, stop, stop - begin))
    # The window may begin anywhere; from its first line on, rows are guessed to begin.
    line_end = window.find(b"\n", 0, target - begin)
    skip = 0 if begin == after else line_end + 1
    found = reader.boundaries.first_from(window[skip:], target - begin - skip, final=False)
    return begin + skip + found if found else None
