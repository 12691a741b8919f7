"""Arrange a run's work in time: the axis, rates by windows, and the work of each worker. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.segment_times import FIRST_PERIOD, ProgressSample

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
    comparable: bool
    """True if each window is long enough to compare its units with a limit."""


@dataclass(frozen=True, slots=True)
class WorkBlock:
    """One invocation on a chunk, with its lane and its place on the axis."""

    lane: int
    left: float
    right: float
    kind: str
    """`first` for the first invocation on the chunk, `more` for others; `failed` for the last
    invocation on a chunk that failed."""
    segment: Segment


@dataclass(frozen=True, slots=True)
class Timeline:
    """Work of a run in time."""

    axis: TimeAxis
    rates: Rates
    blocks: Sequence[WorkBlock]
    """Work of all workers, by lane and time."""
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
    timed = [(each.times, each) for chain in chains for each in chain if each.times is not None]
    if not timed:
        return None
    timed.sort(key=lambda each: each[0].began)
    marked = [each for each in failures if each.at is not None]
    busy = [(times.began, times.ended) for times, _ in timed]
    axis = TimeAxis([*busy, *((each.at, each.at) for each in marked if each.at is not None)])
    # By their first work: a worker that started later has a lower lane.
    workers = list(dict.fromkeys(times.worker for times, _ in timed))
    lanes = min(len(workers), MAX_LANES)
    lane_of = {worker: number * lanes // len(workers) for number, worker in enumerate(workers)}
    failed = {each.chunk for each in failures}
    lasts = {id(chain[-1]) for chain in chains if chain and chain[-1].chunk in failed}
    firsts = {id(chain[0]) for chain in chains if chain}
    blocks = [
        WorkBlock(
            lane=lane_of[times.worker],
            left=axis.place(times.began),
            right=axis.place(times.ended),
            kind="failed" if id(each) in lasts else "first" if id(each) in firsts else "more",
            segment=each,
        )
        for times, each in timed
    ]
    blocks.sort(key=lambda each: (each.lane, each.left))
    rates = _rates(axis, [each for _, each in timed], limited=limited)
    return Timeline(axis, rates, blocks, lanes, len(workers), marked)


def _rates(axis: TimeAxis, segments: Sequence[Segment], *, limited: bool) -> Rates:
    windows = axis.windows(LIMIT_SECONDS if limited else FIRST_PERIOD)
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

    for segment in segments:
        times, work = segment.times, segment.work
        if times is not None:
            total = ProgressSample(
                *(times.ended - times.began, segment.rows.read, round(work.consumed_wcu)),
                work.throttled,
            )
            earlier = ProgressSample(0.0, 0, 0, 0)
            for sample in (*times.iter_samples(), total):
                began, ended = (
                    times.began + min(each, total.seconds)
                    for each in (earlier.seconds, sample.seconds)
                )
                changes = (
                    sample.rows - earlier.rows,
                    sample.units - earlier.units,
                    sample.throttled - earlier.throttled,
                )
                # Rows beyond the segment's end were accepted, too, although others count them.
                add(began, max(began, ended), [max(0, each) for each in changes])
                earlier = sample
    rows, units, throttled = (
        [
            amount / (window.ended - window.began)
            for amount, window in zip(sums, windows, strict=True)
        ]
        for sums in amounts
    )
    shortest = min(window.ended - window.began for window in windows)
    return Rates(windows, rows, units, throttled, shortest >= LIMIT_SECONDS)
