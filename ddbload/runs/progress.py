"""Progress of a run at one moment: totals that never fall, rates, time left, and chunk states."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import NOT_BILLED, RunRecord, amount_text
from ddbload.records import Record

CHECKING, IMPORTING, REPORTING = "checking the source", "importing", "reporting"
"""Steps of a run."""
WAITING, RUNNING_CHUNK, DONE_CHUNK, FAILED_CHUNK = range(4)
"""States of a chunk: not begun by a worker, begun, imported, failed."""
RATE_SECONDS = 60.0
"""Seconds over which rates are averaged."""
_SAMPLE_SECONDS = 1.0
_LEAST_SECONDS, _LEAST_SECONDS_LEFT = 1.0, 3.0
"""Seconds before a rate and before a time left are shown; earlier figures are unreliable."""


class RunProgress(Record):
    """Progress of a whole run, including what earlier attempts imported."""

    step: str
    totals: WorkTotals
    size: int
    """Bytes to read; 0 while unknown."""
    chunks: ChunkStates
    adopted_rows: int
    """Rows settled before this attempt, or before this view, began."""
    rows_per_second: float | None = None
    """Rows per second; None while unknown."""
    wcu_per_second: float | None = None
    seconds_left: float | None = None
    dollars: float | None = None
    """Price of the consumed write units; None if they are not billed or the price is unknown."""

    @property
    def share(self) -> float:
        """Processed share of the bytes, from 0 to 1."""
        return min(1.0, self.totals.bytes / self.size) if self.size else 0.0


class ChunkStates(bytearray):
    """State of each chunk of a run, by its number: `WAITING` at first. Updated in place."""

    @property
    def first_open(self) -> int:
        """Number of the first chunk that is not imported; the number of chunks if all are."""
        return len(self) - len(self.lstrip(bytes([DONE_CHUNK])))


class ProgressMeter:
    """Converter of raw totals into displayed progress that never falls.

    Raw totals may fall briefly: when a worker dies, or when it read rows that its segment does not
    count. Displayed totals never fall, and never exceed the source.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._record: RunRecord | None = None
        self._totals = WorkTotals()
        self._samples: deque[tuple[float, WorkTotals]] = deque()
        self.adopted_rows = 0
        self.chunks = ChunkStates()

    def begin(self, record: RunRecord, chunks: int) -> None:
        """Set the number of chunks, and the record with the size and the price of a write unit."""
        self._record = record
        self.chunks = ChunkStates(chunks)

    def progress(
        self, step: str, totals: WorkTotals, *, complete: bool = True, at: float | None = None
    ) -> RunProgress:
        """Return the progress now.

        Args:
            step: Current step of the run.
            totals: Totals of the rows, without the header.
            complete: False while some totals are not read yet; then no rates are computed.
            at: Time on the clock at which the totals were read; None for now.
        """
        now, record = self._clock() if at is None else at, self._record
        size = 0 if record is None else record.size or 0
        shown = self._totals = self._totals.greatest(totals)
        begin = 0 if record is None else record.data_start.byte
        read = begin + shown.bytes
        shown = WorkTotals(shown.rows, shown.work, min(read, size) if size else read)
        if step == IMPORTING and complete:
            self._sample(now, shown)
        rows, units, read_rate = self._rates(now, shown)
        price = None if record is None else record.write_price
        if price is not None and price.source == NOT_BILLED:
            price = None
        return RunProgress(
            step=step,
            totals=shown,
            size=size,
            chunks=self.chunks,
            adopted_rows=self.adopted_rows,
            rows_per_second=rows,
            wcu_per_second=units,
            seconds_left=self._seconds_left(now, size - shown.bytes, read_rate),
            dollars=None if price is None else price.dollars(shown.work.consumed_wcu),
        )

    def _seconds_left(self, now: float, left: int, read_rate: float | None) -> float | None:
        if not read_rate or left < 0 or now - self._samples[0][0] < _LEAST_SECONDS_LEFT:
            return None
        return left / read_rate

    def _sample(self, now: float, totals: WorkTotals) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= _SAMPLE_SECONDS:
            samples.append((now, totals))
        while len(samples) > 2 and now - samples[1][0] >= RATE_SECONDS:
            samples.popleft()

    def _rates(
        self, now: float, totals: WorkTotals
    ) -> tuple[float | None, float | None, float | None]:
        """Return rows, write units and bytes per second; None while unknown."""
        if not self._samples or now - self._samples[0][0] < _LEAST_SECONDS:
            return None, None, None
        began, earlier = self._samples[0]
        seconds = now - began
        return (
            (totals.rows.read - earlier.rows.read) / seconds,
            (totals.work.consumed_wcu - earlier.work.consumed_wcu) / seconds,
            (totals.bytes - earlier.bytes) / seconds,
        )


_USUAL_OUTCOMES = ("written", "superseded", "skipped")
"""Outcomes that progress does not list separately."""


def progress_line(progress: RunProgress | None) -> str:
    """Describe progress in one line."""
    if progress is None or not progress.size or not len(progress.chunks):
        return CHECKING
    words, failed = progress_figures(progress), progress.chunks.count(FAILED_CHUNK)
    words += [f"{failed:,} chunk{'s' * (failed > 1)} failed"] if failed else []
    if progress.seconds_left is not None and progress.step == IMPORTING:
        words.append(f"about {short_duration(progress.seconds_left)} left")
    step = "" if progress.step == IMPORTING else f"{progress.step}, "
    return f"{step}{percent(progress)} {', '.join(words)}"


def percent(progress: RunProgress) -> str:
    """Return the processed share of the bytes as text; `100 %` only if nothing is left."""
    return f"{int(100 * progress.share)} %"


def progress_figures(progress: RunProgress) -> list[str]:
    """Return rows, rates, and other known non-zero figures, each as text."""
    rows, work = progress.totals.rows, progress.totals.work
    words = [f"{rows.read:,} rows"]
    if progress.rows_per_second is not None:
        words.append(f"{progress.rows_per_second:,.0f} rows/s")
    if work.consumed_wcu:
        rate = progress.wcu_per_second
        words.append(f"{work.consumed_wcu:,.0f} WCU" if rate is None else f"{rate:,.0f} WCU/s")
    words += [f"{work.throttled:,} throttled"] if work.throttled else []
    words += [
        f"{count:,} {name}"
        for name, count in rows.outcomes.items()
        if count and name not in _USUAL_OUTCOMES
    ]
    if progress.dollars is not None:
        words.append(amount_text(progress.dollars))
    return words


def short_duration(seconds: float) -> str:
    """Return a duration, rounded: `40 s`, `12 min`, `3.5 h`, `4 days`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{round(seconds / 86400)} days"
