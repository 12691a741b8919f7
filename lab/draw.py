"""Draw an experiment's charts as SVG. Runs in `.venv-bench`, which has matplotlib.

    python -m lab.draw FINDINGS.json

Writes FINDINGS-1.svg, FINDINGS-2.svg and so on. A colour has the same meaning in all charts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

COLOURS = {
    "published": "#9aa3ab",
    "boto3": "#2f6fb7",
    "asyncio": "#d9822b",
    "ddbload": "#1a7f64",
    "request": "#b9a3d9",
    "parsing": "#a3324b",
}
_NAMES = {
    "published": "published figure",
    "boto3": "boto3, measured here",
    "asyncio": "asyncio client, measured here",
    "ddbload": "ddbload, measured here",
    "request": "waiting for a response",
    "parsing": "parsing it",
}
_WIDTH = 8.4
_MARKS = "osD^v"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ddbload",
    "font.size": 9,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6e8",
}


def _legend(axes: Any, kinds: Any) -> None:
    patches = [Patch(color=COLOURS[kind], label=_NAMES[kind]) for kind in dict.fromkeys(kinds)]
    axes.figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False)


def _number(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def draw_bars(chart: Mapping[str, Any]) -> Any:
    """Draw a horizontal bar for each series, with its value and note at the end."""
    series = chart["series"]
    figure, axes = plt.subplots(figsize=(_WIDTH, 1.1 + 0.28 * len(series)), layout="constrained")
    values = [each["points"][0] for each in series]
    colours = [COLOURS[each["kind"]] for each in series]
    bars = axes.barh([each["label"] for each in series], values, color=colours, height=0.72)
    notes = [_number(v) + (f", {s['note']}" if s["note"] else "") for s, v in zip(series, values)]  # noqa: B905
    axes.bar_label(bars, notes, padding=4)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(chart["unit"])
    if chart["logarithmic"]:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, max(values) * 4)
    else:
        axes.margins(x=0.16)
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    _legend(axes, [each["kind"] for each in series])
    return figure


def draw_lines(chart: Mapping[str, Any]) -> Any:
    """Draw lines over logarithmic axes; published series are dashed."""
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.8), layout="constrained")
    for at, each in enumerate(chart["series"]):
        axes.plot(
            *zip(*each["points"], strict=True),
            color=COLOURS[each["kind"]],
            linestyle="--" if each["kind"] == "published" else "-",
            marker=_MARKS[at % len(_MARKS)],
            label=each["label"],
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(chart["x"])
    axes.set_ylabel(chart["unit"])
    ticks = sorted({x for each in chart["series"] for x, _ in each["points"]})
    axes.set_xticks(ticks, [_number(x) for x in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return figure


def draw_timeline(chart: Mapping[str, Any]) -> Any:
    """Draw a lane per series, with as many rows as its overlapping activities need."""
    figure, axes = plt.subplots(
        figsize=(_WIDTH, 1 + 0.5 * len(chart["series"])), layout="constrained"
    )
    kinds: list[str] = []
    for lane, each in enumerate(chart["series"]):
        ends: list[float] = []
        placed = []
        for begin, end, kind in sorted(each["points"]):
            row = next((at for at, last in enumerate(ends) if last <= begin), len(ends))
            ends[row : row + 1] = [end]
            placed.append((row, begin, end, kind))
            kinds.append(kind)
        height = 0.8 / max(1, len(ends))
        for row, begin, end, kind in placed:
            bottom = lane - 0.4 + row * height
            axes.broken_barh([(begin, end - begin)], (bottom, height * 0.9), color=COLOURS[kind])
    axes.set_yticks(range(len(chart["series"])), [each["label"] for each in chart["series"]])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(chart["unit"])
    _legend(axes, kinds)
    return figure


_FORMS = {"bars": draw_bars, "lines": draw_lines, "timeline": draw_timeline}


def main() -> None:
    """Draw the charts of one file of findings."""
    source = Path(sys.argv[1])
    mpl.use("svg")
    mpl.rcParams.update(_STYLE)
    for at, chart in enumerate(json.loads(source.read_text())["findings"]["charts"], 1):
        figure = _FORMS[chart["form"]](chart)
        figure.suptitle(chart["title"], x=0.01, ha="left", weight="bold")
        figure.savefig(source.with_name(f"{source.stem}-{at}.svg"), metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
