"""Write tables, bars and lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bench.charts import BAR, bar
from lab.draw import number
from lab.findings import Bars, Chart, Lines, Table, Timeline

WIDTH = 100
"""Usual columns of a chart."""
_LEAST_BAR, _MOST_LANE = 10, 72


def table_text(table: Table, width: int = WIDTH) -> str:
    """Align a table's columns: names to the left, figures to the right.

    If the table is wider than `width`, the words of its columns' names stand one below another.
    """
    heads = [[name] for name in table.columns]
    widths = _column_widths(heads, table.rows)
    if sum(widths) + 2 * len(widths) > width:
        heads = [name.split() for name in table.columns]
        widths = _column_widths(heads, table.rows)
    height = max(map(len, heads))
    stacked = zip(*([""] * (height - len(words)) + words for words in heads), strict=True)
    lines = [table.title]
    for row in [*stacked, *table.rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _column_widths(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([*map(len, words), *(len(row[at]) for row in rows)]) for at, words in enumerate(heads)
    ]


def chart_text(chart: Chart, width: int = WIDTH) -> str:
    """Draw a chart with block characters in `width` columns, or a few more if it has long texts."""
    match chart:
        case Bars():
            unit = f"{chart.unit}, logarithmic" if chart.logarithmic else chart.unit
            marked = [
                (
                    each.label,
                    each.value,
                    chart.part(each.value),
                    f" {each.note}" if each.note else "",
                )
                for each in chart.bars
            ]
            return "\n".join([f"{chart.title} ({unit})", *_bars(marked, width)])
        case Lines():
            lines = [f"{chart.title} ({chart.unit})"]
            most = max((y for each in chart.series for _, y in each.points), default=0.0) or 1.0
            for series in chart.series:
                lines.append(f" {series.label}, by {chart.x}")
                lines += _bars([(f"{x:,g}", y, y / most, "") for x, y in series.points], width)
            return "\n".join(lines)
        case Timeline():
            return _timeline(chart, width)


def _bars(values: Sequence[tuple[str, float, float, str]], width: int) -> list[str]:
    """Draw bars from label, value, share of the longest bar, and note."""
    longest = max((len(label) for label, _, _, _ in values), default=0)
    figures = [f"{number(value)}{note}" for _, value, _, note in values]
    free = width - longest - 5 - max(map(len, figures), default=0)
    size = max(_LEAST_BAR, min(BAR, free))
    return [
        f"  {label.ljust(longest)}  {bar(part * size / BAR):{size}} {figure}"
        for (label, _, part, _), figure in zip(values, figures, strict=True)
    ]


def _timeline(chart: Timeline, width: int) -> str:
    """Draw each kind of span of a lane as a row: a block where it was being done."""
    last = max((span.end for lane in chart.lanes for span in lane.spans), default=0.0) or 1.0
    lines = [f"{chart.title} (0 to {number(last)} s)"]
    longest = max((len(span.what) for lane in chart.lanes for span in lane.spans), default=0)
    size = max(_LEAST_BAR, min(_MOST_LANE, width - longest - 4))
    for lane in chart.lanes:
        lines.append(f" {lane.label}")
        for what in dict.fromkeys(span.what for span in lane.spans):
            cells = [" "] * size
            for span in lane.spans:
                if span.what == what:
                    first = min(size - 1, int(span.begin / last * size))
                    end = min(size, max(first + 1, round(span.end / last * size)))
                    cells[first:end] = "█" * (end - first)
            lines.append(f"  {what.ljust(longest)}  {''.join(cells).rstrip()}")
    return "\n".join(lines)
