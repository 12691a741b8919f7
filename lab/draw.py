"""Draw charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from bench import svg_text
from lab.findings import OURS, PUBLISHED, Bar, Bars, Chart, Lane, Lines, Series, Timeline

_WIDTH = 760
_HEAD = 44
_LINE, _BAR_HEIGHT = 22, 14
_LEFT, _RIGHT = 250, 200
_TAIL = 18

_PLOT_LEFT, _PLOT_RIGHT, _PLOT_HEIGHT = 64, 190, 260
_COLOURS = ("#1a7f64", "#0969da", "#bc4c00", "#8250df", "#8c959f", "#bf3989", "#9a6700")
"""Ours first. All can be read on white and on black."""
_GLYPH = 6.6
"""Usual width of a character, in pixels."""


def svg(chart: Chart) -> str:
    """Draw a chart."""
    match chart:
        case Bars():
            return _bars(chart)
        case Lines():
            return _lines(chart)
        case Timeline():
            return _timeline(chart)


def number(value: float) -> str:
    """Write a figure with three digits or all before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}"


def _bars(chart: Bars) -> str:
    unit = f"{chart.unit}, logarithmic" if chart.logarithmic else chart.unit
    parts = [svg_text.text(12, 26, f"{chart.title} ({unit})", "title")]
    longest = max((len(bar.label) for bar in chart.bars), default=0)
    left = min(_LEFT, 24 + longest * _GLYPH)
    y = float(_HEAD)
    bottom = y + _LINE * len(chart.bars)
    if chart.logarithmic and chart.bars:
        parts += _powers(chart, left, bottom)
    for bar in chart.bars:
        parts += _bar(bar, left, y, (_WIDTH - left - _RIGHT) * chart.part(bar.value))
        y += _LINE
    if chart.logarithmic:
        y += 10
    return svg_text.document(_WIDTH, y + _TAIL, chart.title, parts)


def _powers(chart: Bars, left: float, bottom: float) -> list[str]:
    """Draw a line at each power of ten, so that nobody compares the bars' lengths."""
    parts = []
    power, most = chart.least_power(), max(bar.value for bar in chart.bars)
    while power <= most:
        x = left + (_WIDTH - left - _RIGHT) * chart.part(power)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="{_HEAD}" x2="{x:.1f}" y2="{bottom + 2:g}"/>'
        )
        parts.append(svg_text.text(x, bottom + 16, f"{power:,.10g}", "small", "middle"))
        power *= 10
    return parts


def _bar(bar: Bar, left: float, y: float, long: float) -> list[str]:
    long = max(1.0, long)
    value = number(bar.value) + (f", {bar.note}" if bar.note else "")
    kind = "ours" if bar.kind == OURS else "rival"
    # What was published was measured elsewhere: an outline, not a bar.
    look = ' fill-opacity="0.15" stroke="#8c959f"'
    drawn = (
        f'<rect class="{kind}" x="{left:.1f}" y="{y:g}" width="{long:.1f}" height="{_BAR_HEIGHT}"'
        f' rx="2"{look if bar.kind == PUBLISHED else ""}/>'
    )
    label = svg_text.text(left - 8, y + 11, bar.label, anchor="end")
    return [label, drawn, svg_text.text(left + long + 6, y + 11, value)]


def _lines(chart: Lines) -> str:
    """Draw lines over logarithmic axes, with each line's name at its end."""
    points = [point for each in chart.series for point in each.points]
    parts = [svg_text.text(12, 26, f"{chart.title} ({chart.unit})", "title")]
    if not points:
        return svg_text.document(_WIDTH, _HEAD, chart.title, parts)
    across = _Axis([x for x, _ in points], _PLOT_LEFT, _WIDTH - _PLOT_RIGHT)
    up = _Axis([y for _, y in points], _HEAD + _PLOT_HEIGHT, _HEAD)
    bottom = _HEAD + _PLOT_HEIGHT
    for value in up.ticks(least=3):
        y = up.place(value)
        parts.append(
            f'<line class="grid" x1="{_PLOT_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _PLOT_RIGHT}"'
            f' y2="{y:.1f}"/>'
        )
        parts.append(svg_text.text(_PLOT_LEFT - 8, round(y + 4, 1), number(value), anchor="end"))
    for value in sorted({x for x, _ in points}):
        x = across.place(value)
        parts.append(svg_text.text(x, bottom + 18, f"{value:,g}", "small", "middle"))
    middle = (_PLOT_LEFT + _WIDTH - _PLOT_RIGHT) / 2
    parts.append(svg_text.text(middle, bottom + 38, chart.x, anchor="middle"))
    heights = _apart([up.place(each.points[-1][1]) for each in chart.series if each.points])
    drawn = [each for each in chart.series if each.points]
    for (series, colour), height in zip(_coloured(drawn), heights, strict=True):
        parts += _line(series, colour, across, up)
        end = across.place(series.points[-1][0])
        last = up.place(series.points[-1][1])
        parts.append(f'<circle cx="{end:.1f}" cy="{last:.1f}" r="4" fill="{colour}"/>')
        parts.append(svg_text.text(end + 10, round(height + 4, 1), series.label))
    return svg_text.document(_WIDTH, bottom + 38 + _TAIL, chart.title, parts)


def _line(series: Series, colour: str, across: _Axis, up: _Axis) -> list[str]:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="5 4"' if series.kind == PUBLISHED else ""
    return [
        f'<polyline class="line" stroke="{colour}"{dashes} points="{path}"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places[:-1]),
    ]


def _coloured(series: Sequence[Series]) -> list[tuple[Series, str]]:
    """Give ddbload's lines the first colour, and each other line one of its own."""
    others = iter([each for each in series if each.kind != OURS])
    colours = {id(each): _COLOURS[1 + at % (len(_COLOURS) - 1)] for at, each in enumerate(others)}
    return [(each, colours.get(id(each), _COLOURS[0])) for each in series]


def _apart(places: Sequence[float], least: float = 14.0) -> list[float]:
    """Move places down until names written there do not cover one another."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + least)
    return moved


class _Axis:
    """Logarithmic axis from the least to the greatest value."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        self._least, self._most = min(positive), max(positive)
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        """Return the pixel of a value; the axis has no place for zero."""
        if self._most == self._least:
            return (self._begin + self._end) / 2
        part = math.log(max(value, self._least) / self._least) / math.log(self._most / self._least)
        return self._begin + part * (self._end - self._begin)

    def ticks(self, least: int) -> list[float]:
        """Return round values on the axis: powers of ten, and 2 and 5 between if they are few."""
        first = math.floor(math.log10(self._least))
        last = math.ceil(math.log10(self._most))
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
            ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            inside = [tick for tick in ticks if self._least <= tick <= self._most]
            if len(inside) >= least:
                return inside
        return inside


def _timeline(chart: Timeline) -> str:
    """Draw each lane's spans in as few rows as they need, and a legend of what was done."""
    parts = [svg_text.text(12, 26, f"{chart.title} (seconds)", "title")]
    last = max((span.end for lane in chart.lanes for span in lane.spans), default=0.0) or 1.0
    kinds = list(dict.fromkeys(span.what for lane in chart.lanes for span in lane.spans))
    colours = {what: _COLOURS[at % len(_COLOURS)] for at, what in enumerate(kinds)}
    x = 12.0
    for what, colour in colours.items():
        parts.append(f'<rect x="{x:.1f}" y="38" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(svg_text.text(x + 18, 48, what))
        x += 34 + len(what) * _GLYPH
    y = 66.0
    for lane in chart.lanes:
        y = _lane(lane, parts, y, last, colours)
    right = _WIDTH - 60
    for part in range(5):
        at = _PLOT_LEFT + (right - _PLOT_LEFT) * part / 4
        parts.append(svg_text.text(at, y + 12, number(last * part / 4), "small", "middle"))
    return svg_text.document(_WIDTH, y + 12 + _TAIL, chart.title, parts)


def _lane(lane: Lane, parts: list[str], y: float, last: float, colours: dict[str, str]) -> float:
    """Draw a lane from height `y` on; return the height below it."""
    parts.append(svg_text.text(12, y + 10, lane.label, "title"))
    y += 18
    scale = (_WIDTH - 60 - _PLOT_LEFT) / last
    ends: list[float] = []
    for span in sorted(lane.spans, key=lambda span: span.begin):
        row = next((at for at, end in enumerate(ends) if end <= span.begin), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = span.end
        parts.append(
            f'<rect x="{_PLOT_LEFT + span.begin * scale:.1f}" y="{y + row * 14:g}"'
            f' width="{max(0.5, (span.end - span.begin) * scale):.1f}" height="11"'
            f' fill="{colours[span.what]}"/>'
        )
    return y + max(1, len(ends)) * 14 + 12
