"""Write tables, bars and lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bench.charts import BAR, bar
from lab.draw import number
from lab.findings import Bars, Chart, Lines, Table, Timeline

_LANE = 72
"""Characters of a timeline's lane."""


def table_text(table: Table) -> str:
    """Align a table's columns: names to the left, figures to the right."""
    rows = [list(table.columns), *(list(row) for row in table.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
    lines = [table.title]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def chart_text(chart: Chart) -> str:
    """Draw a chart with block characters."""
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
            return "\n".join([f"{chart.title} ({unit})", *_bars(marked)])
        case Lines():
            lines = [f"{chart.title} ({chart.unit})"]
            for series in chart.series:
                lines.append(f" {series.label}, by {chart.x}")
                most = max((y for _, y in series.points), default=0.0) or 1.0
                lines += _bars([(f"{x:,g}", y, y / most, "") for x, y in series.points])
            return "\n".join(lines)
        case Timeline():
            return _timeline(chart)


def _bars(values: Sequence[tuple[str, float, float, str]]) -> list[str]:
    """Draw bars from label, value, share of the longest bar, and note."""
    longest = max((len(label) for label, _, _, _ in values), default=0)
    return [
        f"  {label.ljust(longest)}  {bar(part):{BAR}} {number(value)}{note}"
        for label, value, part, note in values
    ]


def _timeline(chart: Timeline) -> str:
    """Draw each kind of span of a lane as a row: a block where it was being done."""
    last = max((span.end for lane in chart.lanes for span in lane.spans), default=0.0) or 1.0
    lines = [f"{chart.title} (0 to {number(last)} s)"]
    for lane in chart.lanes:
        lines.append(f" {lane.label}")
        kinds = list(dict.fromkeys(span.what for span in lane.spans))
        longest = max((len(what) for what in kinds), default=0)
        for what in kinds:
            cells = [" "] * _LANE
            for span in lane.spans:
                if span.what == what:
                    first = min(_LANE - 1, int(span.begin / last * _LANE))
                    end = min(_LANE, max(first + 1, round(span.end / last * _LANE)))
                    cells[first:end] = "█" * (end - first)
            lines.append(f"  {what.ljust(longest)}  {''.join(cells).rstrip()}")
    return "\n".join(lines)
