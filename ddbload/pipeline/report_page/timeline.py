"""Arrange a run's work in time: who worked when, and how much was done in each moment. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.segment_times import ProgressSample, SegmentTimes

TIME_COLUMNS = 240
"""Columns of time for which rates are computed."""
MAX_LANES = 120
"""Lanes of workers. With more workers, several share a lane."""
_PAUSE_SHARE = 0.04
"""Width that a pause takes at most, as a share of the whole."""
_PAUSE_SECONDS = 30.0
"""Longest time without work that is drawn in full."""
_SHORTEST_SECONDS = 0.1
_SAMPLED_SEGMENTS = 5_000
"""Segments of which all samples are used."""


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
        """`busy`: times in which somebody worked, at least one."""
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
        self._starts = [span.began for span in spans]

    @property
    def began(self) -> float:
        """Beginning of the axis, in seconds since the epoch."""
        return self.spans[0].began

    @property
    def ended(self) -> float:
        """End of the axis, in seconds since the epoch."""
        return self.spans[-1].ended

    @property
    def seconds(self) -> float:
        """Seconds of the axis, without pauses."""
        return sum(span.ended - span.began for span in self.spans)

    def place(self, time: float) -> float:
        """Return the place of a time, from 0 to 1; of one in a pause, that of the pause."""
        span = self.spans[max(0, bisect_right(self._starts, time) - 1)]
        if time >= span.ended:
            return span.right
        if time <= span.began:
            return span.left
        share = (time - span.began) / (span.ended - span.began)
        return span.left + share * (span.right - span.left)


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


class TimeColumns:
    """Amounts by column of an axis, spread evenly over the time in which they arose."""

    def __init__(self, axis: TimeAxis) -> None:
        self._axis = axis
        self.amounts = [0.0] * TIME_COLUMNS

    def add(self, began: float, ended: float, amount: float) -> None:
        """Add an amount that arose between two times."""
        if not amount:
            return
        count = len(self.amounts)
        left, right = (self._axis.place(each) * count for each in (began, ended))
        first, last = (min(count - 1, int(each)) for each in (left, right))
        if first == last:
            self.amounts[first] += amount
            return
        each = amount / (right - left)
        self.amounts[first] += each * (first + 1 - left)
        for column in range(first + 1, last):
            self.amounts[column] += each
        self.amounts[last] += each * (right - last)


@dataclass(frozen=True, slots=True)
class Rates:
    """Work per second, by column of the axis."""

    rows: tuple[float, ...]
    units: tuple[float, ...]
    throttled: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WorkBlock:
    """One invocation on a chunk, with its lane and its place on the axis."""

    lane: int
    left: float
    right: float
    part: int
    """0 for the first invocation on the chunk, 1 for its first continuation."""
    failed: bool
    """True for the last invocation on a chunk that failed."""
    segment: Segment


@dataclass(frozen=True, slots=True)
class Timeline:
    """Work of a run in time."""

    axis: TimeAxis
    rates: Rates
    blocks: tuple[WorkBlock, ...]
    """Work of all workers, by lane and time."""
    lanes: int
    workers: int
    failures: tuple[Failure, ...]
    """Failures of chunks at a known time."""
    untimed: int
    """Segments whose times are not known."""


def make_timeline(
    chains: Sequence[Sequence[Segment]], failures: Sequence[Failure]
) -> Timeline | None:
    """Arrange the segments of each chunk; None if no segment has times."""
    timed = [(each.times, each) for chain in chains for each in chain if each.times is not None]
    if not timed:
        return None
    timed.sort(key=lambda each: each[0].began)
    marked = tuple(each for each in failures if each.at is not None)
    busy = [(times.began, times.ended) for times, _ in timed]
    axis = TimeAxis([*busy, *((each.at, each.at) for each in marked if each.at is not None)])
    # By their first work: a worker that started later has a lower lane.
    workers = list(dict.fromkeys(times.worker for times, _ in timed))
    lanes = min(len(workers), MAX_LANES)
    lane_of = {worker: number * lanes // len(workers) for number, worker in enumerate(workers)}
    failed = {each.chunk for each in failures}
    blocks = []
    for chain in chains:
        for part, segment in enumerate(chain):
            times = segment.times
            if times is not None:
                ends_badly = segment is chain[-1] and segment.chunk in failed
                left, right = axis.place(times.began), axis.place(times.ended)
                lane = lane_of[times.worker]
                blocks.append(WorkBlock(lane, left, right, part, ends_badly, segment))
    blocks.sort(key=lambda each: (each.lane, each.left))
    return Timeline(
        axis=axis,
        rates=_rates(axis, timed),
        blocks=tuple(blocks),
        lanes=lanes,
        workers=len(workers),
        failures=marked,
        untimed=sum(map(len, chains)) - len(timed),
    )


def _rates(axis: TimeAxis, timed: Sequence[tuple[SegmentTimes, Segment]]) -> Rates:
    # Of many segments together fewer samples each draw the same curve.
    every = 1 + len(timed) // _SAMPLED_SEGMENTS
    rows, units, throttled, seconds = (TimeColumns(axis) for _ in range(4))
    for span in axis.spans:
        seconds.add(span.began, span.ended, span.ended - span.began)
    for times, segment in timed:
        began, work = times.began, segment.work
        total = ProgressSample(
            *(times.ended - began, segment.rows.read, round(work.consumed_wcu), work.throttled)
        )
        earlier = ProgressSample(0.0, 0, 0, 0)
        is_short = axis.place(times.ended) - axis.place(began) < 2 / TIME_COLUMNS
        for sample in (*(() if is_short else islice(times.iter_samples(), 0, None, every)), total):
            start, end = began + earlier.seconds, began + max(sample.seconds, earlier.seconds)
            rows.add(start, end, sample.rows - earlier.rows)
            units.add(start, end, sample.units - earlier.units)
            throttled.add(start, end, sample.throttled - earlier.throttled)
            earlier = sample
    return Rates(*(_per_second(each, seconds) for each in (rows, units, throttled)))


def _per_second(amounts: TimeColumns, seconds: TimeColumns) -> tuple[float, ...]:
    return tuple(
        max(0.0, amount / length) if length else 0.0
        for amount, length in zip(amounts.amounts, seconds.amounts, strict=True)
    )
