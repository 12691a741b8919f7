"""Draw a run's charts as SVG: rates, who worked when, and how far each chunk is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import RowCounts
from ddbload.pipeline.report_page.markup import Content, Markup, element, number, shorten
from ddbload.pipeline.report_page.timeline import TimeAxis, Timeline, WorkBlock

WIDTH, LEFT, RIGHT = 960, 76, 12
PLOT = WIDTH - LEFT - RIGHT
MAX_SINGLE_BARS = 1500
"""Blocks that are drawn one by one, with a title each. More are drawn together."""
_LEAST_SHARE = 0.4
_PANEL, _PANEL_TITLE, _TICKS = 84, 26, 24
_TICK_PIXELS = 110
_STEPS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800),
    *(21600, 43200),
)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of one rate."""

    title: str
    values: Sequence[float]
    kind: str
    """Class that gives the color."""
    limit: float | None = None
    """Largest allowed value, drawn as a line."""


def figure(name: str, title: str, description: str, height: float, *content: Content) -> Markup:
    """Make an SVG with the title and description that screen readers read."""
    drawing = element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        content,
        viewBox=f"0 0 {WIDTH} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    # A narrow window scrolls within the figure, so that its letters stay legible.
    return element("div", drawing, class_="figure", role="group", aria_label=title, tabindex=0)


def rates_chart(axis: TimeAxis, panels: Sequence[Panel]) -> Markup:
    """Draw panels below each other on one axis of time."""
    block = _PANEL_TITLE + _PANEL
    height = block * len(panels) + _TICKS
    described = "; ".join(f"{each.title}: at most {short(max(each.values))}" for each in panels)
    parts: list[Content] = [_time_grid(axis, 8, block * len(panels))]
    parts += [_panel(each, block * place) for place, each in enumerate(panels)]
    return figure("rates", "Throughput over time", described, height, parts)


def work_chart(timeline: Timeline) -> Markup:
    """Draw a lane for each worker with the invocations that it worked on."""
    lanes = timeline.lanes
    lane = 20.0 if lanes <= 24 else 10.0 if lanes <= 60 else 5.0
    top = 22.0 if timeline.failures else 6.0
    bottom = top + lane * lanes
    parts: list[Content] = [_time_grid(timeline.axis, 2, bottom)]
    parts += _lane_labels(lanes, lane, top)
    if len(timeline.blocks) <= MAX_SINGLE_BARS:
        parts += [_shape(each, lane, top) for each in timeline.blocks]
    else:
        parts += _joined_lanes(timeline.blocks, lane, top)
    if timeline.failures:
        parts.append(element("text", "failures", x=LEFT - 8, y=15, class_="label end"))
        parts += _failure_marks(timeline)
    described = f"{timeline.workers:,} workers, {len(timeline.blocks):,} invocations"
    return figure("work", "Work of each worker over time", described, bottom + _TICKS, parts)


def chunks_chart(
    chunks: Sequence[Chunk], chains: Sequence[Sequence[Segment]], failed: frozenset[int]
) -> Markup:
    """Draw the source from its first byte to its last: imported, failed or not imported."""
    first = chunks[0].start
    unit = PLOT / max(1, chunks[-1].end - first)
    bars: list[_Bar] = []
    for chunk, chain in zip(chunks, chains, strict=True):
        reached = chain[-1].end.byte if chain else chunk.start
        ends = [LEFT + (byte - first) * unit for byte in (chunk.start, reached, chunk.end)]
        missing = "failed" if chunk.chunk in failed else "open"
        share = (reached - chunk.start) / max(1, chunk.end - chunk.start)
        bars.append(_Bar(ends[0], ends[1], "first", f"chunk {chunk.chunk}: imported"))
        words = "failed" if missing == "failed" else "not imported"
        text = f"chunk {chunk.chunk}: {words}, {share:.0%} done"
        bars.append(_Bar(ends[1], ends[2], missing, text))
    bars = [each for each in bars if each.right > each.left]
    parts: list[Content] = [
        element("rect", x=LEFT, y=4, width=PLOT, height=22, class_="open"),
        _bars(bars, 4, 22) if len(bars) <= MAX_SINGLE_BARS else _shares(bars, 4, 22),
        element("text", "first byte", x=LEFT, y=42, class_="label"),
        element("text", "last byte", x=LEFT + PLOT, y=42, class_="label end"),
    ]
    done = sum(bool(chain) and chain[-1].proven for chain in chains)
    described = f"{done:,} of {len(chunks):,} chunks are imported, {len(failed):,} failed"
    return figure("chunks", "Chunks in the order of the source", described, 50, parts)


def outcome_bar(rows: RowCounts, written: str) -> Markup:
    """Draw the outcomes of all rows as one bar. `written`: the word for written rows."""
    words = {"written": written}
    counts = [each for each in rows.to_json().items() if each[0] != "read"]
    shown = [(name, count) for name, count in counts if count]
    # One rejected row of a million is seen, too.
    widths = [max(4.0, WIDTH * count / max(1, rows.read)) for _, count in shown]
    scale = WIDTH / sum(widths) if widths else 1.0
    parts, x = [], 0.0
    for (name, count), width in zip(shown, widths, strict=True):
        title = element("title", f"{count:,} {words.get(name, name)}")
        parts.append(
            element("rect", title, x=x, y=0, width=width * scale, height=14, class_=f"row-{name}")
        )
        x += width * scale
    if not parts:
        parts.append(element("rect", x=0, y=0, width=WIDTH, height=14, class_="open"))
    described = ", ".join(f"{count:,} {words.get(name, name)}" for name, count in counts)
    return figure("outcomes", "Outcomes of all rows", described, 14, parts)


def short(value: float) -> str:
    """Write a number in a few characters: 950, 1.5k, 12M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, three digits are 1k.
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


# Panels.


def _panel(panel: Panel, top: float) -> Markup:
    peak, limit = max(panel.values), panel.limit
    # A limit that the run never came near would flatten the curve.
    is_near = limit is not None and limit <= 2.5 * peak
    most = _ceiling(max(peak, (limit or 0.0) if is_near else 0.0))
    base, unit = top + _PANEL_TITLE + _PANEL - 6, (_PANEL - 6) / most
    title = panel.title if limit is None else f"{panel.title} (limit {limit:,.0f})"
    parts: list[Content] = [element("text", title, x=LEFT, y=top + 18, class_="heading")]
    for share in (0.0, 0.5, 1.0):
        y = base - share * most * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="grid"))
        label = short(share * most)
        parts.append(element("text", label, x=LEFT - 8, y=y + 4, class_="label end"))
    parts.append(element("path", d=_area(panel.values, base, unit), class_=panel.kind))
    if limit is not None and is_near:
        y = base - limit * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="limit"))
    return element("g", parts)


def _area(values: Sequence[float], base: float, unit: float) -> str:
    step = PLOT / len(values)
    path = [f"M{LEFT} {number(base)}"]
    for column, value in enumerate(values):
        # Equal columns, such as those of a pause, are drawn as one.
        if value not in values[column + 1 : column + 2]:
            path.append(f"V{number(base - value * unit)}H{number(LEFT + (column + 1) * step)}")
    return "".join([*path, f"V{number(base)}Z"])


def _ceiling(value: float) -> float:
    """Round up to a number that half of is round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 6, 8, 10) if value <= step * power * 1.0001)


# Time.


def _time_grid(axis: TimeAxis, top: float, bottom: float) -> list[Content]:
    parts: list[Content] = []
    for x, label in _ticks(axis):
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom + 4, class_="grid"))
        anchor = "label" if x < LEFT + 30 else "label end" if x > WIDTH - 50 else "label middle"
        parts.append(element("text", label, x=x, y=bottom + 18, class_=anchor))
    for before, after in zip(axis.spans, axis.spans[1:], strict=False):
        left, width = _x(before.right), PLOT * (after.left - before.right)
        title = element("title", f"no work for {duration_text(after.began - before.ended)}")
        parts.append(
            element("rect", title, x=left, y=top, width=width, height=bottom - top, class_="pause")
        )
    return parts


def _ticks(axis: TimeAxis) -> Iterator[tuple[float, str]]:
    """Choose round times that leave room for their labels; the beginning of each span has one."""
    step = _step(axis)
    days = datetime.fromtimestamp(axis.began, UTC).date(), _moment(axis.ended).date()
    last = -math.inf
    for number_of, span in enumerate(axis.spans):
        times = [math.ceil(span.began / step) * step]
        while times[-1] + step <= span.ended:
            times.append(times[-1] + step)
        times = [each for each in times if span.began <= each <= span.ended]
        if number_of or not times:
            times.insert(0, span.began)
        for time in times:
            x = _x(axis.place(time))
            if x - last >= _TICK_PIXELS * 0.7:
                yield x, _clock_label(time, step, dated=days[0] != days[1])
                last = x


def _step(axis: TimeAxis) -> float:
    # A failure by itself is a span without length.
    longest = max(axis.spans, key=lambda each: each.ended - each.began)
    per_second = PLOT * (longest.right - longest.left) / max(longest.ended - longest.began, 1e-9)
    for step in _STEPS:
        if step * per_second >= _TICK_PIXELS:
            return step
    step = float(_DAY)
    while step * per_second < _TICK_PIXELS:
        step *= 2
    return step


def _clock_label(time: float, step: float, *, dated: bool) -> str:
    moment = _moment(time)
    if step >= _DAY:
        return f"{moment:%Y-%m-%d}"
    clock = f"{moment:%H:%M}" if step >= 60 else f"{moment:%H:%M:%S}"
    if step < 1:
        clock += f".{moment.microsecond // 100_000}"
    return f"{moment:%m-%d} {clock}" if dated else clock


def _moment(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def duration_text(seconds: float) -> str:
    """Write a number of seconds in words: 3.2 s, 4 min 10 s, 5 h 2 min."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def _x(place: float) -> float:
    return LEFT + place * PLOT


# Blocks of work.


@dataclass(frozen=True, slots=True)
class _Bar:
    left: float
    right: float
    kind: str
    title: str


def _kind(block: WorkBlock) -> str:
    return "failed" if block.failed else "more" if block.part else "first"


def _shape(block: WorkBlock, lane: float, top: float) -> list[Content]:
    segment, x = block.segment, _x(block.left)
    width = max(1.0, PLOT * (block.right - block.left))
    y, height = top + block.lane * lane + 1, lane - 2
    part = f", continuation {block.part}" if block.part else ""
    seconds = 0.0 if segment.times is None else segment.times.ended - segment.times.began
    text = (
        f"chunk {segment.chunk}{part}: {segment.rows.read:,} rows in {duration_text(seconds)},"
        f" {segment.work.throttled:,} requests throttled, {segment.work.retries:,} repeated"
        f"{', then it failed' if block.failed else ''}"
    )
    title = element("title", text)
    shape = element("rect", title, x=x, y=y, width=width, height=height, class_=_kind(block))
    label = str(segment.chunk)
    if lane < 20 or width < 9 * len(label) + 4:
        return [shape]
    middle = element("text", label, x=x + width / 2, y=y + 13, class_="inside middle")
    return [shape, middle]


def _joined_lanes(blocks: Sequence[WorkBlock], lane: float, top: float) -> Iterator[Markup]:
    """Draw each lane as one path for each kind of block, in whole pixels."""
    lanes: dict[int, list[_Bar]] = {}
    for block in blocks:
        bar = _Bar(_x(block.left), _x(block.right), _kind(block), "")
        lanes.setdefault(block.lane, []).append(bar)
    for place, bars in lanes.items():
        yield _joined(bars, top + place * lane + 1, lane - 2)


def _bars(bars: Sequence[_Bar], y: float, height: float) -> Content:
    return [
        element(
            "rect",
            element("title", each.title),
            x=each.left,
            y=y,
            width=max(1.0, each.right - each.left),
            height=height,
            class_=each.kind,
        )
        for each in bars
    ]


def _shares(bars: Sequence[_Bar], y: float, height: float) -> Content:
    """Draw in each pixel which share of it the bars of each kind have, one above the other.

    Several chunks lie in one pixel, and none of them may hide the others.
    """
    shares = {kind: [0.0] * PLOT for kind in ("first", "failed")}
    for bar in bars:
        amounts = shares.get(bar.kind)
        if amounts is not None:
            left, right = bar.left - LEFT, min(bar.right - LEFT, PLOT)
            for pixel in range(int(left), math.ceil(right)):
                amounts[pixel] += min(right, pixel + 1) - max(left, pixel)
    # One failed chunk of twenty thousand is seen, too.
    failed = [max(each, _LEAST_SHARE) if each else 0.0 for each in shares["failed"]]
    done = [min(each, 1 - bad) for each, bad in zip(shares["first"], failed, strict=True)]
    both = [one + other for one, other in zip(done, failed, strict=True)]
    # Imported bytes are drawn over the sum of both, so that failed ones show above them.
    return [
        element("path", d=_area(amounts, y + height, height), class_=kind)
        for kind, amounts in (("failed", both), ("first", done))
    ]


def _joined(bars: Iterable[_Bar], y: float, height: float) -> Markup:
    """Draw bars of one kind that touch one another as one; failed ones cover the others."""
    runs: dict[str, list[list[int]]] = {"first": [], "more": [], "failed": []}
    for bar in bars:
        left = math.floor(bar.left)
        right = max(left + 1, math.ceil(bar.right))
        known = runs[bar.kind]
        if known and left <= known[-1][1]:
            known[-1][1] = max(known[-1][1], right)
        else:
            known.append([left, right])
    paths = []
    for kind, found in runs.items():
        if found:
            path = "".join(
                f"M{left} {number(y)}h{right - left}v{number(height)}h{left - right}z"
                for left, right in found
            )
            paths.append(element("path", d=path, class_=kind))
    return element("g", paths)


def _lane_labels(lanes: int, lane: float, top: float) -> Iterator[Markup]:
    every = 1 if lane >= 20 else 5 if lane >= 10 else 10
    for place in range(0, lanes, every):
        y = top + place * lane + min(lane, 20) / 2 + 4
        yield element("text", f"worker {place + 1}", x=LEFT - 8, y=y, class_="label end")


def _failure_marks(timeline: Timeline) -> Iterator[Markup]:
    for failure in timeline.failures[:MAX_SINGLE_BARS]:
        x = _x(timeline.axis.place(failure.at or 0.0))
        title = element("title", f"chunk {failure.chunk}: {shorten(failure.name, 80)}")
        cross = f"M{number(x - 4)} 6l8 8m0 -8l-8 8"
        yield element("path", title, d=cross, class_="mark")
