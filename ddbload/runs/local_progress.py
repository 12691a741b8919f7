"""Progress of an import on this machine, exact, from what its workers tell its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import RunRecord
from ddbload.pipeline.context import ChunkProgress
from ddbload.runs.progress import (
    CHECKING,
    DONE_PERCENT,
    FAILED_CHUNK,
    IMPORTING,
    REPORTING,
    WAITING,
    ProgressMeter,
    RunProgress,
)
from ddbload.runs.run_status import HeartbeatWriter


class LocalProgress:
    """Totals of a run: its segments, and the progress of running tasks."""

    def __init__(self, watch: Callable[[RunProgress], None], clock: Callable[[], float]) -> None:
        self.settled = WorkTotals()
        """Totals of the segments."""
        self.adopted_rows = 0
        self.heart: HeartbeatWriter | None = None
        self._watch = watch
        self._meter = ProgressMeter(clock)
        self._step = CHECKING
        self._running: dict[int, ChunkProgress] = {}
        self._positions: dict[int, int] = {}

    @property
    def stopped(self) -> bool:
        """True if the run was cancelled, or taken up by another process."""
        return self.heart is not None and self.heart.stopped

    def begin(self, record: RunRecord, chunks: Sequence[Chunk]) -> None:
        """Set the run and its chunks, once its source was checked."""
        self._meter.begin(record, chunks)
        self._step = IMPORTING

    def show(self) -> None:
        """Pass the progress to the watcher."""
        totals = self.settled
        for each in self._running.values():
            totals += WorkTotals(each.rows, each.work, each.bytes)
        now = self._meter.progress(self._step, totals)
        if self.heart is not None and self._step != CHECKING:
            self.heart.set_progress(now.totals.rows, now.totals.bytes, now.size)
        self._watch(now)

    def progress(self, now: ChunkProgress) -> None:
        """Replace the progress of a running task."""
        states = self._meter.chunks
        if states[now.chunk] == DONE_PERCENT:
            # It was overtaken by the end of its task.
            return
        self._running[now.chunk] = now
        begin = self._positions.get(now.chunk, states.chunk(now.chunk).start)
        states.set_position(now.chunk, min(begin + now.bytes, states.chunk(now.chunk).end - 1))
        self.show()

    def finished(self, chunk: int) -> None:
        """Drop the progress of a task that has ended, and show what its segments say."""
        self._running.pop(chunk, None)
        if chunk in self._positions:
            self._meter.chunks.set_position(chunk, self._positions[chunk])
        else:
            self._meter.chunks.set_state(chunk, WAITING)

    def failed(self, chunk: int) -> None:
        """Show a chunk as failed."""
        self._meter.chunks.set_state(chunk, FAILED_CHUNK)
        self.show()

    def add(self, segment: Segment, *, adopted: bool) -> None:
        """Add a segment; `adopted` if an earlier attempt wrote it."""
        self.settled += WorkTotals(segment.rows, segment.work, segment.bytes)
        self._positions[segment.chunk] = segment.end.byte
        self._meter.chunks.set_position(segment.chunk, segment.end.byte)
        if not adopted:
            self.show()
            return
        # All of these are shown together: they say nothing about the speed.
        self.adopted_rows += segment.rows.read
        self._meter.adopted_rows = self.adopted_rows

    def report(self) -> None:
        """Show that the report is being made."""
        self._step = REPORTING
        self.show()
