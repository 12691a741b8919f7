"""Draw charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench import svg_text
from lab.findings import OURS, PUBLISHED, Bar, Bars, Chart, Lane, Lines, Series, Span, Timeline

_WIDTH = 760
_HEAD = 44
_LINE, _BAR_HEIGHT = 22, 14
_MOST_LEFT = 390
_TAIL = 18
_MARGIN = 12

_PLOT_LEFT, _PLOT_HEIGHT = 64, 260
_LEAST_PLOT_RIGHT, _MOST_PLOT_RIGHT = 90, 320
_OURS, _PUBLISHED = "#1a7f64", "#8c959f"
_COLOURS = ("#0969da", "#bc4c00", "#8250df", "#bf3989", "#9a6700")
"""Colours of all others. All can be read on white and on black."""
_GLYPH = 6.6
"""Usual width of a character, in pixels."""
_ROW, _SPAN = 14, 11
"""Heights of a row of a timeline, and of its spans; both half as high in lanes of many rows."""
_MANY_ROWS = 6
_GAP = 0.7
"""Pixels between a span and another that begins where it ends."""
_NAME_HEIGHT = 14.0
"""Least pixels from one name to another below it."""
_LEADER = 14
"""Length of the line from a line's end to its name."""


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
    parts = [svg_text.text(_MARGIN, 26, f"{chart.title} ({unit})", "title")]
    longest = max((len(bar.label) for bar in chart.bars), default=0)
    left = min(_MOST_LEFT, 24 + longest * _GLYPH)
    # Each bar leaves room for its value.
    free = _WIDTH - _MARGIN - left - 6
    shares = [(chart.part(bar.value), free - len(_value(bar)) * _GLYPH) for bar in chart.bars]
    scale = min((room / share for share, room in shares if share > 0), default=0.0)
    y = float(_HEAD)
    if chart.logarithmic and chart.bars:
        parts += _powers(chart, left, scale)
    for bar in chart.bars:
        parts += _bar(bar, left, y, chart.part(bar.value) * scale)
        y += _LINE
    if chart.logarithmic:
        y += 10
    return svg_text.document(_WIDTH, y + _TAIL, chart.title, parts)


def _powers(chart: Bars, left: float, scale: float) -> list[str]:
    """Draw a line at each power of ten, so that nobody compares the bars' lengths."""
    parts = []
    bottom = _HEAD + _LINE * len(chart.bars)
    power, most = chart.least_power(), max(bar.value for bar in chart.bars)
    while power <= most:
        x = left + scale * chart.part(power)
        parts.append(_grid(x, _HEAD, x, bottom + 2))
        parts.append(svg_text.text(x, bottom + 16, f"{power:,.10g}", "small", "middle"))
        power *= 10
    return parts


def _value(bar: Bar) -> str:
    return number(bar.value) + (f", {bar.note}" if bar.note else "")


def _bar(bar: Bar, left: float, y: float, long: float) -> list[str]:
    long = max(1.0, long)
    kind = "ours" if bar.kind == OURS else "rival"
    # What was published was measured elsewhere: an outline, not a bar.
    look = f' fill-opacity="0.15" stroke="{_PUBLISHED}"' if bar.kind == PUBLISHED else ""
    drawn = (
        f'<rect class="{kind}" x="{left:.1f}" y="{y:g}" width="{long:.1f}" height="{_BAR_HEIGHT}"'
        f' rx="2"{look}/>'
    )
    label = svg_text.text(left - 8, y + 11, bar.label, anchor="end")
    return [label, drawn, svg_text.text(left + long + 6, y + 11, _value(bar))]


def _lines(chart: Lines) -> str:
    """Draw lines over logarithmic axes, with each line's name at its end."""
    drawn = [each for each in chart.series if each.points]
    points = [point for each in drawn for point in each.points]
    parts = [svg_text.text(_MARGIN, 26, f"{chart.title} ({chart.unit})", "title")]
    if not points:
        return svg_text.document(_WIDTH, _HEAD, chart.title, parts)
    longest = max(len(each.label) for each in drawn) * _GLYPH + _LEADER + 3 + _MARGIN
    right = _WIDTH - min(_MOST_PLOT_RIGHT, max(_LEAST_PLOT_RIGHT, longest))
    across = _Axis([x for x, _ in points], _PLOT_LEFT, right)
    up = _Axis([y for _, y in points], _HEAD + _PLOT_HEIGHT, _HEAD)
    bottom = _HEAD + _PLOT_HEIGHT
    for value in up.ticks(least=3):
        y = up.place(value)
        parts.append(_grid(_PLOT_LEFT, y, right, y))
        parts.append(svg_text.text(_PLOT_LEFT - 8, round(y + 4, 1), f"{value:,g}", anchor="end"))
    for x, name in _names_across(across, {x for x, _ in points}):
        parts.append(svg_text.text(x, bottom + 18, name, "small", "middle"))
    middle = (_PLOT_LEFT + right) / 2
    parts.append(svg_text.text(middle, bottom + 38, chart.x, anchor="middle"))
    beside = [each for each in drawn if not _is_passed(each, drawn)]
    heights = dict(
        zip(
            map(id, beside),
            _apart([_name_height(each, drawn, up) for each in beside], bottom),
            strict=True,
        )
    )
    for series, colour in _coloured(drawn):
        parts += _line(series, colour, across, up)
        end = across.place(series.points[-1][0])
        last = up.place(series.points[-1][1])
        parts.append(f'<circle cx="{end:.1f}" cy="{last:.1f}" r="4" fill="{colour}"/>')
        if id(series) not in heights:
            parts.append(svg_text.text(end - 8, round(last - 6, 1), series.label, anchor="end"))
            continue
        height = heights[id(series)]
        parts.append(
            f'<line stroke="{colour}" x1="{end:.1f}" y1="{last:.1f}" x2="{end + _LEADER:.1f}"'
            f' y2="{height:.1f}"/>'
        )
        parts.append(svg_text.text(end + _LEADER + 3, round(height + 4, 1), series.label))
    return svg_text.document(_WIDTH, bottom + 38 + _TAIL, chart.title, parts)


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _names_across(across: _Axis, values: Iterable[float]) -> list[tuple[float, str]]:
    """Place the values' names, without those that would cover a greater value's."""
    names: list[tuple[float, str]] = []
    free = math.inf
    for value in sorted(values, reverse=True):
        x, name = across.place(value), f"{value:,g}"
        half = len(name) * _GLYPH / 2
        if x + half <= free:
            names.append((x, name))
            free = x - half - 4
    return names


def _is_passed(series: Series, others: Sequence[Series]) -> bool:
    """Tell whether another line goes on where a line ends, and would cross a name beside it."""
    end = series.points[-1][0]
    return any(
        min(x for x, _ in other.points) < end < max(x for x, _ in other.points) for other in others
    )


def _name_height(series: Series, others: Sequence[Series], up: _Axis) -> float:
    """Return where a name stands: below a line that begins beside the end of its own."""
    end, last = series.points[-1]
    beginning = [
        up.place(other.points[0][1])
        for other in others
        if other.points[0][0] == end < other.points[-1][0]
    ]
    height = up.place(last)
    near = [each for each in beginning if abs(each - height) < _NAME_HEIGHT]
    return max(near) + _NAME_HEIGHT if near else height


def _line(series: Series, colour: str, across: _Axis, up: _Axis) -> list[str]:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="5 4"' if series.kind == PUBLISHED else ""
    return [
        f'<polyline class="line" stroke="{colour}"{dashes} points="{path}"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places[:-1]),
    ]


def _coloured(series: Sequence[Series]) -> list[tuple[Series, str]]:
    """Give ddbload's lines one colour, published lines another, and the rest one each."""
    others = [each for each in series if each.kind not in (OURS, PUBLISHED)]
    colours = {id(each): _COLOURS[at % len(_COLOURS)] for at, each in enumerate(others)}
    known = {OURS: _OURS, PUBLISHED: _PUBLISHED}
    return [(each, known.get(each.kind) or colours[id(each)]) for each in series]


def _apart(places: Sequence[float], bottom: float, least: float = _NAME_HEIGHT) -> list[float]:
    """Move places until names written there do not cover one another, or stand below the chart."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + least)
    limit = bottom
    for at in reversed(order):
        moved[at] = min(moved[at], limit)
        limit = moved[at] - least
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
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), range(1, 10)):
            ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            inside = [tick for tick in ticks if self._least <= tick <= self._most]
            if len(inside) >= least:
                return inside
        return inside


def _timeline(chart: Timeline) -> str:
    """Draw each lane's spans in as few rows as they need, and a legend of what was done."""
    parts = [svg_text.text(_MARGIN, 26, f"{chart.title} (seconds)", "title")]
    last = max((span.end for lane in chart.lanes for span in lane.spans), default=0.0) or 1.0
    kinds = list(dict.fromkeys(span.what for lane in chart.lanes for span in lane.spans))
    colours = {what: _COLOURS[at % len(_COLOURS)] for at, what in enumerate(kinds)}
    x = float(_MARGIN)
    for what, colour in colours.items():
        parts.append(f'<rect x="{x:.1f}" y="38" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(svg_text.text(x + 18, 48, what))
        x += 34 + len(what) * _GLYPH
    lanes: list[str] = []
    y = 66.0
    scale = (_WIDTH - 3 * _MARGIN) / last
    for lane in chart.lanes:
        y = _lane(lane, lanes, y, scale, colours)
    for value in _round_steps(last):
        at = _MARGIN + value * scale
        parts.append(_grid(at, 60, at, y))
        parts.append(svg_text.text(at, y + 14, f"{value:g}", "small", "middle"))
    return svg_text.document(_WIDTH, y + 14 + _TAIL, chart.title, [*parts, *lanes])


def _round_steps(last: float) -> list[float]:
    """Return 0 and up to ten multiples of a round number, none greater than `last`."""
    power = 10.0 ** math.floor(math.log10(last))
    step = next(each for each in (power / 10, power / 5, power / 2, power) if last / each <= 10)
    return [at * step for at in range(int(last / step) + 1)]


def _lane(lane: Lane, parts: list[str], y: float, scale: float, colours: dict[str, str]) -> float:
    """Draw a lane from height `y` on; return the height below it."""
    parts.append(svg_text.text(_MARGIN, y + 10, lane.label, "title"))
    y += 18
    ends: list[float] = []
    placed: list[tuple[int, Span]] = []
    for span in sorted(lane.spans, key=lambda span: span.begin):
        row = next((at for at, end in enumerate(ends) if end <= span.begin), len(ends))
        ends[row : row + 1] = [span.end]
        placed.append((row, span))
    part = 0.5 if len(ends) > _MANY_ROWS else 1.0
    parts.extend(
        f'<rect x="{_MARGIN + span.begin * scale:.1f}" y="{y + row * _ROW * part:g}"'
        f' width="{max(0.5, (span.end - span.begin) * scale - _GAP):.1f}"'
        f' height="{_SPAN * part:g}"'
        f' fill="{colours[span.what]}"/>'
        for row, span in placed
    )
    return y + max(1, len(ends)) * _ROW * part + 12
