"""Parts that all drawn charts share: the document, its colours, and texts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 13px; }
.small { font-size: 11px; }
.ours { fill: #1a7f64; }
.rival { fill: #8c959f; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .ours { fill: #3fb68f; }
  .rival { fill: #6e7681; }
  .grid { stroke: #30363d; }
}
""".strip()
"""Colours for light and dark pages. `ours` is ddbload, `rival` all others."""


def document(width: int, height: float, label: str, parts: Sequence[str]) -> str:
    """Join the parts of a drawing to an SVG. `label`: its description, for readers of screens."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}"'
        f' height="{height:g}" role="img" aria-label="{escape(label)}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """Draw a text whose base line begins at (x, y). `anchor`: `middle` or `end` of it instead."""
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:g}"{more}>{escape(words)}</text>'
