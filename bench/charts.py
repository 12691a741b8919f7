"""Render results as a table with bars for a terminal, and as an SVG."""

from __future__ import annotations

from collections.abc import Sequence

from bench import svg_text
from bench.medians import ClientMedians

BAR = 30
"""Length of the longest bar in a terminal, in characters."""
_EIGHTHS = " ▏▎▍▌▋▊▉"

_WIDTH, _LEFT, _RIGHT = 760, 130, 190
_LINE, _BAR_HEIGHT, _TITLE = 22, 14, 34


def table(figures: Sequence[ClientMedians]) -> str:
    """Format one scenario as a table with a line for each client."""
    if not figures:
        return ""
    most = max(figure.cpu_per_million for figure in figures)
    names = (
        f"  {'client':16}{'CPU-s/M':>9}  {'':{BAR}} {'least':>8}{'most':>8}{'start':>7}"
        f"{'less':>8}{'rows/s':>10}{'MB':>6}{'rows':>10}"
    )
    lines = [figures[0].scenario.title, names]
    for figure in figures:
        less = "" if figure.times_less is None else f"{figure.times_less:.1f} x"
        lines.append(
            f"  {figure.client.label:16}{figure.cpu_per_million:9.2f}"
            f"  {bar(figure.cpu_per_million / most):{BAR}} {figure.least:8.2f}{figure.most:8.2f}"
            f"{figure.start_cpu:7.2f}{less:>8}{figure.rows_per_second:10,.0f}"
            f"{figure.peak_mb:6.0f}{figure.rows:10,}"
        )
    return "\n".join(lines)


def bar(part: float) -> str:
    """Draw a bar of block characters for a share of the longest bar."""
    eighths = max(1, round(min(part, 1.0) * BAR * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def svg(scenarios: Sequence[Sequence[ClientMedians]], caption: str) -> str:
    """Draw all scenarios as an SVG: CPU seconds for a million rows, shorter is better.

    Each scenario has a separate scale that starts at zero.
    """
    parts: list[str] = []
    y = 26
    parts.append(svg_text.text(12, y, "CPU seconds of the client for a million rows", "title"))
    y += 18
    parts.append(svg_text.text(12, y, caption))
    for figures in scenarios:
        if not figures:
            continue
        y += _TITLE
        parts.append(svg_text.text(12, y, figures[0].scenario.title, "title"))
        most = max(figure.cpu_per_million for figure in figures)
        for figure in figures:
            y += _LINE
            long = max(1.0, (_WIDTH - _LEFT - _RIGHT) * figure.cpu_per_million / most)
            kind = "ours" if figure.client.is_ddbload else "rival"
            parts.append(svg_text.text(_LEFT - 8, y, figure.client.label, anchor="end"))
            parts.append(
                f'<rect class="{kind}" x="{_LEFT}" y="{y - _BAR_HEIGHT + 3}"'
                f' width="{long:.1f}" height="{_BAR_HEIGHT}" rx="2"/>'
            )
            parts.append(svg_text.text(_LEFT + long + 6, y, _value(figure)))
    y += 24
    return svg_text.document(_WIDTH, y, "CPU seconds of the client for a million rows", parts)


def _value(figure: ClientMedians) -> str:
    less = "" if figure.times_less is None else f" ({figure.times_less:.1f} times less)"
    return f"{figure.cpu_per_million:.1f} s{less if figure.client.is_ddbload else ''}"
