"""Timeline of a run's work: time axis, rates per window, and each worker's invocations. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import FIRST_PERIOD, SegmentTimes
from ddbload.records import Record

MOST_WINDOWS = 120
"""Approximate maximum number of windows for which rates are computed."""
LIMIT_SECONDS = 10.0
"""Minimum length in seconds of a window in which write units are compared with `max_wcu`.

Each worker's bucket holds 0.2 s of unused units and may be overdrawn by one request, so single
seconds are up to 40 % above the limit.
"""
MAX_LANES = 120
"""Maximum number of lanes. With more workers, several share a lane."""
_PAUSE_SHARE = 0.04
"""Maximum width of a pause, as a share of the whole axis."""
_PAUSE_SECONDS = 30.0
"""Longest pause in seconds that is drawn in full."""
_SHORTEST_SECONDS = 0.1


def interpolate(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Interpolate y at x between points with ascending xs; outside, use the end points' y."""
    place = bisect_right(xs, x)
    if place in (0, len(xs)):
        return ys[0] if place == 0 else ys[-1]
    left, right = xs[place - 1], xs[place]
    return ys[place - 1] + (x - left) / (right - left) * (ys[place] - ys[place - 1])


class TimeAxis:
    """Time axis from 0 to 1, in which long pauses are shortened."""

    def __init__(self, busy: Iterable[tuple[float, float]]) -> None:
        """Make an axis.

        `busy`: (start, end) of each time of work, in seconds since the epoch; at least one.
        """
        self.periods = _merge(busy)
        """Start and end of each period of work without long pauses."""
        self.began, self.ended = self.periods[0][0], self.periods[-1][1]
        self.seconds = sum(ended - began for began, ended in self.periods)
        """Length of the axis in seconds, without pauses."""
        # The more pauses, the narrower each one, so that work gets most of the width.
        gap = min(_PAUSE_SHARE, 0.4 / len(self.periods))
        unit = (1 - gap * (len(self.periods) - 1)) / self.seconds
        self._times: list[float] = []
        self._places: list[float] = []
        left = 0.0
        for began, ended in self.periods:
            right = min(1.0, left + (ended - began) * unit)
            self._times += (began, ended)
            self._places += (left, right)
            left = right + gap

    def place(self, time: float) -> float:
        """Return the position of a time on the axis, from 0 to 1."""
        return interpolate(time, self._times, self._places)

    def time(self, place: float) -> float:
        """Return the time at a position on the axis."""
        return interpolate(place, self._places, self._times)

    def windows(self, shortest: float) -> list[tuple[float, float]]:
        """Divide each period of work into equal windows of at least `shortest` seconds.

        A shorter period is one window.
        """
        width = max(shortest, self.seconds / MOST_WINDOWS)
        windows = []
        for began, ended in self.periods:
            count = max(1, int((ended - began) / width))
            ends = [began + (ended - began) * place / count for place in range(count + 1)]
            windows += [each for each in pairwise(ends) if each[1] > each[0]]
        return windows


def _merge(busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge times of work that are separated by short breaks only."""
    ordered = sorted(busy)
    seconds = ordered[-1][1] - ordered[0][0]
    longest = max(_PAUSE_SECONDS, seconds * _PAUSE_SHARE)
    merged: list[tuple[float, float]] = []
    for began, ended in ordered:
        if merged and began - merged[-1][1] <= longest:
            merged[-1] = (merged[-1][0], max(ended, merged[-1][1]))
        else:
            merged.append((began, ended))
    # The axis needs a length even if the clock shows no difference.
    if merged[-1][1] - merged[0][0] < _SHORTEST_SECONDS:
        return [(merged[0][0], merged[0][0] + _SHORTEST_SECONDS)]
    return merged


Timed = tuple[SegmentTimes, Segment, str]
"""Segment, its times, and its kind.

The kind is `first` (of its chunk), `more`, or `failed` for the last segment of a failed chunk.
"""


class Timeline(Record):
    """Work of a run over time, and its rates per second in each window."""

    axis: TimeAxis
    segments: Sequence[Timed]
    """Segments with times, sorted by start."""
    lane_of: Mapping[str, int]
    """Lane of each worker."""
    lanes: int
    """Number of lanes: one per worker, or fewer if there are too many."""
    windows: Sequence[tuple[float, float]]
    rows: Sequence[float]
    units: Sequence[float]
    throttled: Sequence[float]

    @property
    def invocations(self) -> int:
        """Number of invocations; each wrote a segment for each of its chunks."""
        return len({(each.worker, each.began, each.ended) for each, _, _ in self.segments})


def make_timeline(
    chains: Sequence[Sequence[Segment]], failures: Sequence[Failure], *, limited: bool = False
) -> Timeline | None:
    """Arrange the segments of each chunk by time; None if no segment has times.

    `limited`: use windows of at least `LIMIT_SECONDS`.
    """
    failed = {each.chunk for each in failures}
    timed: list[Timed] = []
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
    axis = TimeAxis((times.began, times.ended) for times, _, _ in timed)
    # Lanes are sorted by their worker's first invocation, the earliest on top.
    workers = list(dict.fromkeys(times.worker for times, _, _ in timed))
    lanes = min(len(workers), MAX_LANES)
    lane_of = {worker: number * lanes // len(workers) for number, worker in enumerate(workers)}
    windows = axis.windows(LIMIT_SECONDS if limited else FIRST_PERIOD)
    return Timeline(axis, timed, lane_of, lanes, windows, *_rates(windows, timed))


def _rates(windows: Sequence[tuple[float, float]], timed: Sequence[Timed]) -> list[list[float]]:
    """Return rows, write units and throttled requests per second in each window."""
    starts = [began for began, _ in windows]
    amounts = [[0.0] * len(windows) for _ in range(3)]
    for times, segment, _ in timed:
        work, length = segment.work, times.ended - times.began
        samples = [(s.seconds, s.rows, s.units, s.throttled) for s in times.iter_samples()]
        samples.append((length, segment.rows.read, round(work.consumed_wcu), work.throttled))
        # A segment may count fewer rows than were accepted in its time.
        seconds, *totals = (
            [*accumulate(each, max, initial=0)] for each in zip(*samples, strict=True)
        )
        moments = [times.began + min(each, length) for each in seconds]
        first = max(0, bisect_right(starts, times.began) - 1)
        between = starts[first + 1 : bisect_left(starts, times.ended)]
        for sums, total in zip(amounts, totals, strict=True):
            known = [0.0, *(interpolate(each, moments, total) for each in between), total[-1]]
            for place, (before, after) in enumerate(pairwise(known), first):
                sums[place] += after - before
    lengths = [ended - began for began, ended in windows]
    return [
        [amount / length for amount, length in zip(sums, lengths, strict=True)] for sums in amounts
    ]
