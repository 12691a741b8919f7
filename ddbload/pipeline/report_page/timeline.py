"""Arrange a run's work in time: the axis, rates by windows, and the work of each worker. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.segment_times import FIRST_PERIOD, SegmentTimes
from ddbload.pipeline.report_page.markup import duration_text

MOST_WINDOWS = 120
"""Windows of time for which rates are computed, about."""
LIMIT_SECONDS = 10.0
"""Shortest window over which write units are compared with `max_wcu`.

Each worker's bucket holds 0.2 s of unused units and may be overdrawn by one request, so that single
seconds are up to 40 % above the limit."""
MAX_LANES = 120
"""Lanes of workers. With more workers, several share a lane."""
_PAUSE_SHARE = 0.04
"""Width that a pause takes at most, as a share of the whole."""
_PAUSE_SECONDS = 30.0
"""Longest time without work that is drawn in full."""
_SHORTEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """A time without long pauses, and its place on the axis from 0 to 1."""

    began: float
    ended: float
    left: float
    right: float


class TimeAxis:
    """Axis from 0 to 1 for a time in seconds since the epoch. Long pauses are cut short."""

    def __init__(self, busy: Iterable[tuple[float, float]]) -> None:
        """`busy`: times of work, at least one."""
        times = _merge(busy)
        seconds = max(sum(ended - began for began, ended in times), _SHORTEST_SECONDS)
        # Of many pauses each takes less, so that work has most of the width.
        gap = min(_PAUSE_SHARE, 0.4 / len(times))
        unit = (1 - gap * (len(times) - 1)) / seconds
        spans, left = [], 0.0
        for began, ended in times:
            right = min(1.0, left + (ended - began) * unit)
            spans.append(Span(began, ended, left, right))
            left = right + gap
        last = spans[-1]
        # Exactly to the end: rounding, or a run shorter than the shortest time, ends before.
        stretched = last.ended if last.right > 1 - 1e-9 else last.began + (1 - last.left) / unit
        spans[-1] = Span(last.began, stretched, last.left, 1.0)
        self.spans: tuple[Span, ...] = tuple(spans)
        self.began, self.ended = spans[0].began, spans[-1].ended
        self.seconds = sum(span.ended - span.began for span in spans)
        """Seconds of the axis, without pauses."""
        self._starts = [span.began for span in spans]

    def time(self, place: float) -> float:
        """Return the time at a place; in a pause, that of its end."""
        span = next((each for each in self.spans if place <= each.right), self.spans[-1])
        share = max(0.0, place - span.left) / max(span.right - span.left, 1e-9)
        return span.began + share * (span.ended - span.began)

    def place(self, time: float) -> float:
        """Return the place of a time, from 0 to 1; of one in a pause, that of the pause."""
        span = self.spans[max(0, bisect_right(self._starts, time) - 1)]
        if time >= span.ended:
            return span.right
        if time <= span.began:
            return span.left
        share = (time - span.began) / (span.ended - span.began)
        return span.left + share * (span.right - span.left)

    def windows(self, shortest: float) -> list[Span]:
        """Divide each span into equal windows of at least `shortest` seconds, or take it whole."""
        width = max(shortest, self.seconds / MOST_WINDOWS)
        windows = []
        for span in self.spans:
            length = span.ended - span.began
            count = max(1, int(length / width))
            ends = [span.began + length * place / count for place in range(count + 1)]
            windows += [
                Span(began, ended, self.place(began), self.place(ended))
                for began, ended in pairwise(ends)
                if ended > began
            ]
        return windows


def _merge(busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join times with short breaks between them."""
    ordered = sorted(busy)
    seconds = ordered[-1][1] - ordered[0][0]
    longest = max(_PAUSE_SECONDS, seconds * _PAUSE_SHARE)
    merged: list[tuple[float, float]] = []
    for began, ended in ordered:
        if merged and began - merged[-1][1] <= longest:
            merged[-1] = (merged[-1][0], max(ended, merged[-1][1]))
        else:
            merged.append((began, ended))
    return merged


@dataclass(frozen=True, slots=True)
class Rates:
    """Work per second in each window."""

    windows: Sequence[Span]
    rows: Sequence[float]
    units: Sequence[float]
    throttled: Sequence[float]

    @property
    def comparable(self) -> bool:
        """True if each window is long enough to compare its units with a limit."""
        return min(each.ended - each.began for each in self.windows) >= LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a lane; its ends are places from 0 to 1."""

    left: float
    right: float
    kind: str
    """Class that gives the color."""
    title: str
    label: str = ""
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Work of a run in time."""

    axis: TimeAxis
    rates: Rates
    bars: Sequence[Bar]
    """Invocations on chunks: `first` of a chunk, `more`, or `failed` for the last one of a chunk
    that failed."""
    lanes: int
    workers: int
    failures: Sequence[Failure]
    """Failures of chunks at a known time."""


def make_timeline(
    chains: Sequence[Sequence[Segment]], failures: Sequence[Failure], *, limited: bool = False
) -> Timeline | None:
    """Arrange the segments of each chunk; None if no segment has times.

    `limited`: windows of rates are at least `LIMIT_SECONDS` long.
    """
    failed = {each.chunk for each in failures}
    timed: list[tuple[SegmentTimes, Segment, str]] = []
    for chain in chains:
        for place, each in enumerate(chain):
            kind = "more" if place else "first"
            if each is chain[-1] and each.chunk in failed:
                kind = "failed"
            if each.times is not None:
                timed.append((each.times, each, kind))
    if not timed:
        return None
    timed.sort(key=lambda each: each[0].began)
    marked = [each for each in failures if each.at is not None]
    busy = [(times.began, times.ended) for times, _, _ in timed]
    axis = TimeAxis([*busy, *((each.at, each.at) for each in marked if each.at is not None)])
    # By their first work: a worker that started later has a lower lane.
    workers = list(dict.fromkeys(times.worker for times, _, _ in timed))
    lanes = min(len(workers), MAX_LANES)
    lane_of = {worker: number * lanes // len(workers) for number, worker in enumerate(workers)}
    bars = [
        Bar(
            *(axis.place(times.began), axis.place(times.ended), kind),
            title=f"chunk {each.chunk}: {each.rows.read:,} rows in"
            f" {duration_text(times.ended - times.began)}, {each.work.throttled:,} requests"
            f" throttled, {each.work.retries:,} repeated",
            label=str(each.chunk),
            lane=lane_of[times.worker],
        )
        for times, each, kind in timed
    ]
    rates = _rates(axis, timed, LIMIT_SECONDS if limited else FIRST_PERIOD)
    return Timeline(axis, rates, bars, lanes, len(workers), marked)


def _rates(
    axis: TimeAxis, timed: Sequence[tuple[SegmentTimes, Segment, str]], shortest: float
) -> Rates:
    windows = axis.windows(shortest)
    starts = [window.began for window in windows]
    amounts = [[0.0] * len(windows) for _ in range(3)]

    def add(began: float, ended: float, changes: Sequence[float]) -> None:
        """Spread what changed between two times evenly over the windows between them."""
        first = max(0, bisect_right(starts, began) - 1)
        last = max(first, bisect_right(starts, ended) - 1)
        for place in range(first, last + 1):
            share = 1.0
            if last > first:
                window = windows[place]
                share = min(ended, window.ended) - max(began, window.began)
                share = max(0.0, share) / (ended - began)
            for sums, change in zip(amounts, changes, strict=True):
                sums[place] += share * change

    for times, segment, _ in timed:
        work, length = segment.work, times.ended - times.began
        whole = (segment.rows.read, round(work.consumed_wcu), work.throttled)
        samples = [(s.seconds, s.rows, s.units, s.throttled) for s in times.iter_samples()]
        for before, after in pairwise([(0.0, 0, 0, 0), *samples, (length, *whole)]):
            began, ended = (times.began + min(each[0], length) for each in (before, after))
            # A segment may end before rows that were accepted: then its own rows are fewer.
            changes = [max(0, b - a) for a, b in zip(before[1:], after[1:], strict=True)]
            add(began, max(began, ended), changes)
    return Rates(
        windows,
        *(
            [
                each / (window.ended - window.began)
                for each, window in zip(sums, windows, strict=True)
            ]
            for sums in amounts
        ),
    )
