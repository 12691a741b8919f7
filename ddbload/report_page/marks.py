"""SVG charts of the page: rates over time, and lanes of invocations (Gantt)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from ddbload.report_page.markup import Content, Markup, duration_text, element, number, short
from ddbload.report_page.timeline import TimeAxis, Timeline

WIDTH, LEFT, RIGHT = 960, 76, 12
PLOT = WIDTH - LEFT - RIGHT
TICKS = 24
"""Height in pixels of the labels below an axis."""
_PANEL, _PANEL_TITLE, _TOP = 84, 26, 6.0
_TICK_PLACES = [each / 7 for each in range(8)]


Panel = tuple[str, Sequence[float], str, float | None]
"""Chart of a rate: title, value per window, CSS class for the color, and upper limit.

The limit is drawn as a line; None if there is no limit.
"""


def figure(name: str, title: str, description: str, height: float, *content: Content) -> Markup:
    """Make an SVG with a title and a description for screen readers."""
    drawing = element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        content,
        viewBox=f"0 0 {WIDTH} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    # In a narrow window the figure scrolls instead of shrinking, so that its text stays legible.
    return element("div", drawing, class_="figure", role="group", aria_label=title, tabindex=0)


def rates_chart(timeline: Timeline, panels: Sequence[Panel]) -> Markup:
    """Draw panels below each other with one time axis."""
    axis, block = timeline.axis, _PANEL_TITLE + _PANEL
    height = block * len(panels) + TICKS
    described = "; ".join(f"{title}: at most {short(max(each))}" for title, each, _, _ in panels)
    parts: list[Content] = [time_grid(axis, 8, block * len(panels))]
    boxes = [(_x(axis.place(began)), _x(axis.place(ended))) for began, ended in timeline.windows]
    parts += [_panel(*each, boxes, block * place) for place, each in enumerate(panels)]
    return figure("rates", "Throughput over time", described, height, parts)


def work_chart(timeline: Timeline) -> Markup:
    """Draw a lane per worker with the invocations that it ran."""
    lanes, axis = timeline.lanes, timeline.axis
    lane, labeled = (20.0, 1) if lanes <= 24 else (6.0, 10)
    bottom = _TOP + lane * lanes
    parts = time_grid(axis, 2, bottom)
    for place in range(0, lanes, labeled):
        y = _TOP + place * lane + lane / 2 + 4
        parts.append(element("text", f"worker {place + 1}", x=LEFT - 8, y=y, class_="label end"))
    # An invocation has segments of several chunks, and is drawn once.
    paths: dict[str, dict[str, None]] = {}
    for times, _, kind in timeline.segments:
        x, y = _x(axis.place(times.began)), _TOP + timeline.lane_of[times.worker] * lane
        wide = max(1.0, _x(axis.place(times.ended)) - x)
        box = f"M{x:.2f} {number(y)}h{wide:.2f}v{number(lane - 2)}h-{wide:.2f}z"
        paths.setdefault(kind, {})[box] = None
    # Draw failed invocations last, on top of the others.
    for kind in sorted(paths, key=lambda kind: (kind == "failed", kind)):
        parts.append(element("path", d="".join(paths[kind]), class_=f"{kind} bar"))
    described = f"{len(timeline.lane_of):,} workers, {timeline.invocations:,} invocations"
    return figure("work", "Work of each worker over time", described, bottom + TICKS, parts)


def _panel(
    title: str,
    values: Sequence[float],
    kind: str,
    limit: float | None,
    places: Sequence[tuple[float, float]],
    top: float,
) -> Markup:
    peak = max(values)
    # Leave out a limit far above the run's rate, which would flatten the curve.
    is_near = limit is not None and limit <= 2.5 * peak
    most = _ceiling(max(peak, (limit or 0.0) if is_near else 0.0))
    base, unit = top + _PANEL_TITLE + _PANEL - 6, (_PANEL - 6) / most
    parts: list[Content] = [element("text", title, x=LEFT, y=top + 18, class_="heading")]
    for share in (0.0, 0.5, 1.0):
        y = base - share * most * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="grid"))
        label = short(share * most)
        parts.append(element("text", label, x=LEFT - 8, y=y + 4, class_="label end"))
    boxes = [
        f"M{number(left)} {number(base)}V{number(base - value * unit)}H{number(right)}"
        f"V{number(base)}Z"
        for (left, right), value in zip(places, values, strict=True)
    ]
    parts.append(element("path", d="".join(boxes), class_=kind))
    if limit is not None and is_near:
        y = base - limit * unit
        parts.append(element("line", x1=LEFT, x2=LEFT + PLOT, y1=y, y2=y, class_="limit"))
    return element("g", parts)


def _ceiling(value: float) -> float:
    """Round up to a round number whose half is round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 6, 8, 10) if value <= step * power * 1.0001)


def time_grid(axis: TimeAxis, top: float, bottom: float) -> list[Content]:
    """Draw the ticks of a time axis, and its pauses."""
    parts: list[Content] = []
    form = "%H:%M:%S" if axis.seconds > 20 else "%H:%M:%S.%f"
    is_long = axis.seconds >= 60 * len(_TICK_PLACES)
    # Within minutes, two ticks would have one label.
    if is_long and _moment(axis.began).date() != _moment(axis.ended).date():
        form = "%m-%d %H:%M"
    for place in _TICK_PLACES:
        x = _x(place)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom + 4, class_="grid"))
        anchor = "label" if place == 0 else "label end" if place == 1 else "label middle"
        label = _moment(axis.time(place)).strftime(form)[:11]
        parts.append(element("text", label, x=x, y=bottom + 18, class_=anchor))
    for (_, ended), (began, _) in pairwise(axis.periods):
        left, right = _x(axis.place(ended)), _x(axis.place(began))
        title = element("title", f"no work for {duration_text(began - ended)}")
        height, width = bottom - top, right - left
        parts.append(
            element("rect", title, x=left, y=top, width=width, height=height, class_="pause")
        )
    return parts


def _moment(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _x(place: float) -> float:
    return LEFT + place * PLOT
