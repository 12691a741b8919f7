"""Marks of the page's drawings, as SVG: bars of rates over time, and lanes of bars (Gantt)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from ddbload.pipeline.report_page.markup import (
    Content,
    Markup,
    duration_text,
    element,
    number,
    short,
)
from ddbload.pipeline.report_page.timeline import Span, TimeAxis

WIDTH, LEFT, RIGHT = 960, 76, 12
PLOT = WIDTH - LEFT - RIGHT
TICKS = 24
"""Height of the labels below an axis."""
MAX_SINGLE_BARS = 1500
"""Bars that are drawn one by one, with a title each. More are drawn together."""
_PANEL, _PANEL_TITLE = 84, 26
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
    windows: Sequence[Span]
    values: Sequence[float]
    kind: str
    """Class that gives the color."""
    limit: float | None = None
    """Largest allowed value, drawn as a line."""


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
    height = block * len(panels) + TICKS
    described = "; ".join(f"{each.title}: at most {short(max(each.values))}" for each in panels)
    parts: list[Content] = [time_grid(axis, 8, block * len(panels))]
    parts += [_panel(each, block * place) for place, each in enumerate(panels)]
    return figure("rates", "Throughput over time", described, height, parts)


def bars(found: Sequence[Bar], lane: float, top: float, left: float = LEFT) -> list[Markup]:
    """Draw bars in lanes of this height: one by one with titles, or all of a kind as one path."""
    width = PLOT if left else WIDTH
    if len(found) > MAX_SINGLE_BARS:
        paths: dict[str, list[str]] = {}
        for bar in found:
            # One failed chunk of twenty thousand is seen, too.
            wide = max(1.0 if bar.kind == "failed" else 0.02, width * (bar.right - bar.left))
            x, y = left + bar.left * width, top + bar.lane * lane
            box = f"M{x:.2f} {number(y)}h{wide:.2f}v{number(lane - 2)}h-{wide:.2f}z"
            paths.setdefault(bar.kind, []).append(box)
        order = sorted(paths, key=lambda kind: (kind == "failed", kind))
        return [element("path", d="".join(paths[kind]), class_=kind) for kind in order]
    parts = []
    for bar in found:
        x, y = left + bar.left * width, top + bar.lane * lane
        wide, title = max(1.0, width * (bar.right - bar.left)), element("title", bar.title)
        box = element("rect", title, x=x, y=y, width=wide, height=lane - 2, class_=bar.kind)
        parts.append(box)
        if bar.label and lane >= 20 and wide >= 9 * len(bar.label) + 4:
            label = element("text", bar.label, x=x + wide / 2, y=y + 13, class_="inside middle")
            parts.append(label)
    return parts


def _panel(panel: Panel, top: float) -> Markup:
    peak, limit = max(panel.values), panel.limit
    # A limit that the run never came near would flatten the curve.
    is_near = limit is not None and limit <= 2.5 * peak
    most = _ceiling(max(peak, (limit or 0.0) if is_near else 0.0))
    base, unit = top + _PANEL_TITLE + _PANEL - 6, (_PANEL - 6) / most
    parts: list[Content] = [element("text", panel.title, x=LEFT, y=top + 18, class_="heading")]
    for share in (0.0, 0.5, 1.0):
        y = base - share * most * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="grid"))
        label = short(share * most)
        parts.append(element("text", label, x=LEFT - 8, y=y + 4, class_="label end"))
    boxes = [
        f"M{number(_x(window.left))} {number(base)}V{number(base - value * unit)}"
        f"H{number(_x(window.right))}V{number(base)}Z"
        for window, value in zip(panel.windows, panel.values, strict=True)
    ]
    parts.append(element("path", d="".join(boxes), class_=panel.kind))
    if limit is not None and is_near:
        y = base - limit * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="limit"))
    return element("g", parts)


def _ceiling(value: float) -> float:
    """Round up to a number that half of is round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 6, 8, 10) if value <= step * power * 1.0001)


def time_grid(axis: TimeAxis, top: float, bottom: float) -> list[Content]:
    """Draw the ticks of an axis of time, and its pauses."""
    parts: list[Content] = []
    for x, label in _ticks(axis):
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom + 4, class_="grid"))
        anchor = "label" if x < LEFT + 30 else "label end" if x > WIDTH - 50 else "label middle"
        parts.append(element("text", label, x=x, y=bottom + 18, class_=anchor))
    for before, after in pairwise(axis.spans):
        left, width = _x(before.right), PLOT * (after.left - before.right)
        title = element("title", f"no work for {duration_text(after.began - before.ended)}")
        parts.append(
            element("rect", title, x=left, y=top, width=width, height=bottom - top, class_="pause")
        )
    return parts


def _ticks(axis: TimeAxis) -> Iterator[tuple[float, str]]:
    """Choose round times that leave room for their labels; the beginning of each span has one."""
    step = _step(axis)
    dated = _moment(axis.began).date() != _moment(axis.ended).date()
    last = -math.inf
    for place, span in enumerate(axis.spans):
        first, count = math.ceil(span.began / step) * step, int((span.ended - span.began) / step)
        times = [
            first + step * each for each in range(count + 1) if first + step * each <= span.ended
        ]
        if place or not times:
            times.insert(0, span.began)
        for time in times:
            x = _x(axis.place(time))
            if x - last >= _TICK_PIXELS * 0.7:
                yield x, _clock_label(time, step, dated=dated)
                last = x


def _step(axis: TimeAxis) -> float:
    # A failure by itself is a span without length.
    longest = max(axis.spans, key=lambda each: each.ended - each.began)
    per_second = PLOT * (longest.right - longest.left) / max(longest.ended - longest.began, 1e-9)
    for step in _STEPS:
        if step * per_second >= _TICK_PIXELS:
            return step
    return float(_DAY) * 2 ** max(0, math.ceil(math.log2(_TICK_PIXELS / (_DAY * per_second))))


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


def _x(place: float) -> float:
    return LEFT + place * PLOT
