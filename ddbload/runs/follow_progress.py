"""Follow a run through object names in its ledger, with few requests for any number of chunks.

Requests are made one at a time and rarely: a page of the workers' progress, a page of segment
names, or a check whether the run has ended. No object is read per worker or segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.control import WorkerProgress, silence_limit
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import RunRecord
from ddbload.ledger.ledger import Ledger
from ddbload.runs.progress import (
    CHECKING,
    DONE_CHUNK,
    FAILED_CHUNK,
    IMPORTING,
    REPORTING,
    RUNNING_CHUNK,
    WAITING,
    ProgressMeter,
    RunProgress,
)

T = TypeVar("T")
BURST_REQUESTS, REQUEST_SECONDS, LEAST_REQUEST_SECONDS = 5, 4.0, 1.0
"""Pace of requests to AWS: five at first, one second apart, then one every four seconds.

That is at most twenty in any minute.
"""
FOLDER_SECONDS_APART = 0.5
"""Seconds between two reads of a ledger in a folder."""
_END, _RECORD, _WORKERS, _CHUNKS = "end", "record", "workers", "chunks"
_TURNS = {
    CHECKING: (_END, _RECORD, _RECORD),
    IMPORTING: (_END, _WORKERS, _CHUNKS, _WORKERS, _CHUNKS),
    REPORTING: (_END, _END, _WORKERS, _CHUNKS),
}
"""Requests that are made in turn, by step of the run."""
PASSES_FOR_FAILURES = 3
"""Passes over the segment names per pass over the failures, which are rare."""


def _lacks_size(record: RunRecord) -> bool:
    """Return whether the size is still missing, which preflight learns only by reading."""
    return record.size is None and not record.padded


@dataclass(slots=True)
class RequestPace:
    """Pace of requests: a burst, then one at a time with long pauses."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    burst: int = BURST_REQUESTS
    seconds: float = REQUEST_SECONDS
    """Seconds between two requests after the burst."""
    least: float = LEAST_REQUEST_SECONDS
    """Seconds between two requests of the burst."""
    _spent: float = field(default=0.0, init=False)
    """Requests of the burst that were made, and are not available again."""
    _last: float | None = field(default=None, init=False)

    def wait(self) -> None:
        """Sleep until the next request may be made."""
        if self._last is not None:
            pause = max(self.least, (self._spent + 1 - self.burst) * self.seconds)
            self.sleep(max(0.0, self._last + pause - self.clock()))
            self._spent = max(0.0, self._spent - (self.clock() - self._last) / self.seconds)
        self._spent += 1
        self._last = self.clock()


def follow_progress(
    ledger: Ledger,
    find_end: Callable[[], T | None],
    pace: RequestPace,
    watch: Callable[[RunProgress], None],
    began: Callable[[], float] = lambda: float("-inf"),
) -> T:
    """Pass a run's progress to `watch` until `find_end` returns the run's end.

    `began` returns the start of this attempt, on the clock of `pace`.
    """
    reader = ProgressReader(ledger, pace.clock)
    turn = 0
    step = CHECKING
    while True:
        pace.wait()
        request = _TURNS[step][turn % len(_TURNS[step])]
        turn += 1
        if request == _END:
            end = find_end()
            if end is not None:
                return end
            reader.failures_since = began()
        else:
            reader.read(request)
        now = reader.progress()
        if now.step != step:
            step, turn = now.step, 0
        watch(now)


class ProgressReader:
    """Reader of a run's progress from its ledger, one request at a time."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self.failures_since = float("-inf")
        """Start of this attempt, on the clock; earlier failures are ignored."""
        self._ledger = ledger
        self._clock = clock
        self._meter = ProgressMeter(clock)
        self._record: RunRecord | None = None
        self._groups: Sequence[Sequence[Chunk]] | None = None
        self._workers = _Workers(ledger.progress_seconds)
        self._chunks = _Chunks(clock)
        self._turns = 0
        # Rows counted at first belong to an earlier attempt; a run without a record has no rows
        # yet.
        self._adopts: bool | None = None
        self._has_totals = False
        self._totals = WorkTotals()
        self._totals_read_at: float | None = None
        self._has_news = False

    def read(self, what: str) -> None:
        """Make one request: for record or manifest, workers' progress, or chunk states.

        The manifest is read again when a new worker appears.
        """
        self._has_news = True
        if what == _RECORD or self._groups is None:
            self._read_record()
        elif what == _WORKERS or not self._has_totals:
            known = len(self._workers.last)
            is_last_page = self._workers.read(self._ledger)
            if self._has_totals and len(self._workers.last) > known:
                # Before its first worker a resumed run may have grouped its chunks anew.
                self._groups = self._ledger.find_groups()
            self._has_totals = is_last_page or self._has_totals
            self._totals_read_at = self._clock()
        else:
            self._chunks.read(self._ledger, self._meter.chunks.first_open)

    def progress(self) -> RunProgress:
        """Return the progress as far as it is known."""
        if self._groups is None:
            return self._meter.progress(CHECKING, WorkTotals())
        if self._has_news:
            self._has_news = False
            self._totals = self._workers.totals(self._chunks.starts)
            self._draw_chunks()
        if self._has_totals and self._adopts:
            self._meter.adopted_rows = self._totals.rows.read
            self._adopts = False
        # It seems that no chunk is left. Only the run's end proves it.
        states = self._meter.chunks
        is_over = states.count(DONE_CHUNK) + states.count(FAILED_CHUNK) == len(states)
        return self._meter.progress(
            REPORTING if is_over else IMPORTING,
            self._totals,
            complete=self._has_totals,
            at=self._totals_read_at,
        )

    def _read_record(self) -> None:
        # The size of some sources is known only at the end of preflight.
        self._turns += 1
        if self._record is None or (_lacks_size(self._record) and self._turns % 2):
            self._record = self._ledger.find_record()
            if self._adopts is None:
                self._adopts = self._record is not None
            return
        self._groups = self._ledger.find_groups()
        if self._groups is not None and _lacks_size(self._record):
            self._record = self._groups = None
        elif self._groups is not None:
            self._meter.begin(self._record, sum(map(len, self._groups)))

    def _draw_chunks(self) -> None:
        """Show the state of each chunk. A worker names the first one of those that it imports."""
        at_work, chunks, settled = self._workers.at_work(), self._chunks, self._workers.settled
        failed = {n for n in chunks.failures if chunks.has_failed(n, self.failures_since)}
        named = {*at_work, *settled}
        unseen = 0
        drawn: list[tuple[Sequence[Chunk], int, int]] = []
        for group in self._groups or ():
            first = max((n for n, each in enumerate(group) if each.chunk in named), default=-1)
            rest = [each for each in group[max(0, first) :] if each.chunk not in failed]
            left = sum(map(chunks.bytes_left, rest))
            drawn.append((group, first, left))
            if first < 0 and any(each.chunk in chunks.starts for each in group):
                unseen += left
        record, read = self._record, sum(each.settled.bytes for each in self._workers.last.values())
        size = 0 if record is None else (record.size or 0) - record.data_start.byte
        has_all_bytes = not at_work and 0 < size <= read
        for group, first, left in drawn:
            is_working = any(each.chunk in at_work for each in group)
            has_ended = has_all_bytes or settled.get(group[first].chunk, 0) >= left
            if first < 0:
                # Nobody saw the short invocations that imported it, or an earlier attempt did.
                has_ended = read >= unseen or (record is not None and record.padded)
            for place, each in enumerate(group):
                state = DONE_CHUNK if has_ended or place < first else RUNNING_CHUNK
                if is_working and place >= first:
                    state = RUNNING_CHUNK
                elif each.chunk in failed:
                    state = FAILED_CHUNK
                elif first < 0 and each.chunk not in chunks.starts and not has_all_bytes:
                    state = WAITING
                self._meter.chunks[each.chunk] = state


class _Workers:
    """Workers of a run, read from listings of their progress objects' names."""

    def __init__(self, base_seconds: float) -> None:
        self.last: dict[str, WorkerProgress] = {}
        self.settled: dict[int, int] = {}
        """Bytes that the last invocation which named a chunk had settled when its worker left."""
        self._ages: dict[str, float] = {}
        self._base_seconds = base_seconds
        self._after = ""

    def read(self, ledger: Ledger) -> bool:
        """Read the next page of names; return true after the last page."""
        page = ledger.page("progress", self._after)
        for name, age in page.ages.items():
            seen = WorkerProgress.from_name(name)
            if seen is None:
                continue
            earlier = self.last.get(seen.worker)
            if earlier is not None and earlier.number > seen.number:
                continue
            if earlier is not None:
                self._note_settled(earlier, seen)
            self.last[seen.worker], self._ages[seen.worker] = seen, age
        self._after = next(reversed(page.ages), "") if page.more else ""
        return not page.more

    def _note_settled(self, earlier: WorkerProgress, now: WorkerProgress) -> None:
        """Record the bytes of an invocation that has ended."""
        if earlier.chunk is None or (now.chunk, now.start) == (earlier.chunk, earlier.start):
            return
        counted = now.settled.bytes - earlier.settled.bytes
        if counted > 0:
            # Includes other chunks that the worker has imported since.
            self.settled[earlier.chunk] = counted

    def at_work(self) -> dict[int, WorkerProgress]:
        """Return the live workers' progress, by the first chunk of those that each imports."""
        silent = silence_limit(self._base_seconds, self._ages.values())
        return {
            each.chunk: each
            for worker, each in self.last.items()
            if each.chunk is not None and self._ages[worker] <= silent
        }

    def totals(self, starts: dict[int, dict[int, float]]) -> WorkTotals:
        """Sum the rows settled by all workers, and the later progress of live ones.

        `starts`: segments that exist, by chunk and first byte. Their rows are settled or soon will
        be.
        """
        total = WorkTotals()
        for each in self.last.values():
            total += each.settled
        for chunk, each in self.at_work().items():
            if each.start not in starts.get(chunk, ()):
                total += each.current
        return total


class _Chunks:
    """Segments and failures of chunks, read from listings of their names."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.starts: dict[int, dict[int, float]] = {}
        """Time at which each segment was written, by chunk and first byte."""
        self._clock = clock
        self.failures: dict[int, float] = {}
        """Time at which each failure was written, by chunk."""
        self._folder, self._after = "chunks", ""
        self._passes = 0

    def read(self, ledger: Ledger, first_open: int) -> None:
        """Read the next page of segment names; after a full pass occasionally one of failures.

        `first_open`: first chunk that is not done. Pages of earlier chunks are skipped.
        """
        if self._folder == "chunks" and not self._after and first_open:
            self._after = f"{first_open:05d}"
        now, page = self._clock(), ledger.page(self._folder, self._after)
        for name, age in page.ages.items():
            chunk, _, start = name.removesuffix(".json").partition("/")
            if not chunk.isdecimal():
                continue
            if self._folder == "failures":
                self.failures[int(chunk)] = now - age
            elif start.isdecimal():
                self.starts.setdefault(int(chunk), {})[int(start)] = now - age
        self._after = next(reversed(page.ages), "") if page.more else ""
        if not page.more:
            self._passes += self._folder == "chunks"
            look = self._folder == "chunks" and self._passes % PASSES_FOR_FAILURES == 1
            self._folder = "failures" if look else "chunks"

    def bytes_left(self, chunk: Chunk) -> int:
        """Return the bytes of a chunk after the beginning of its last segment."""
        return chunk.end - max(self.starts.get(chunk.chunk, ()), default=chunk.start)

    def has_failed(self, chunk: int, since: float) -> bool:
        """Return whether a chunk's last invocation failed: no segment is newer than the failure."""
        failed = self.failures.get(chunk)
        if failed is None or failed < since:
            return False
        return all(written <= failed for written in self.starts.get(chunk, {}).values())
