"""HTML and SVG elements and their style. No text of a run can become markup.

`element` makes all markup. Its tags and attributes' names are ddbload's own; everything else is
text, which is escaped after its control characters were made visible.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ddbload.errors import visible

MAX_TEXT = 400
"""Maximum characters shown of a text from the run."""


class Markup(str):
    """Finished markup, which is not escaped again. Only this module creates it."""

    __slots__ = ()


Content = Markup | str | Iterable["Content"] | None
"""Markup, text, or a sequence of both; None is empty."""
TableRow = Sequence[Content]
"""Cells of a table row."""


def element(tag: str, *content: Content, **attributes: str | float | None) -> Markup:
    """Make an element.

    Text is escaped. In attribute names `_` stands for `-`, and a trailing `_` is dropped
    (`class_`). Attributes with the value None are left out.
    """
    parts = [f"<{tag}"]
    for given, value in attributes.items():
        if value is not None:
            name = given.rstrip("_").replace("_", "-")
            text = value if isinstance(value, str) else number(value)
            parts.append(f' {name}="{_escaped(text)}"')
    parts.append(">")
    if tag != "meta":
        parts += [_html_of(content), f"</{tag}>"]
    return Markup("".join(parts))


def document(title: str, *content: Content) -> str:
    """Return the text of a whole page, with its style sheet and content security policy."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        # Not made by `element`, because the text of a style element is not escaped.
        Markup(f"<style>{CSS}</style>"),
    )
    body = element("body", element("main", *content))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def data(text: str, limit: int = MAX_TEXT) -> Markup:
    """Show a text of the run, shortened to `limit` and isolated from surrounding text direction."""
    return element("bdi", visible(text, limit))


def section(title: str, *content: Content) -> Markup:
    """Make a section with a heading."""
    return element("section", element("h2", title), *content)


def legend(kinds: Iterable[tuple[str, str]]) -> Markup:
    """Explain the colors of a chart. `kinds`: pairs of CSS class and description."""
    items = [
        element("li", element("span", class_=f"swatch {kind}", aria_hidden="true"), name)
        for kind, name in kinds
    ]
    return element("ul", items, class_="legend")


def table(
    caption: str, head: Sequence[str], rows: Iterable[TableRow], numbers: Sequence[int] = ()
) -> Markup:
    """Make a table. `numbers`: indexes of the columns that are aligned to the right."""

    def row(tag: str, cells: Sequence[Content], **attributes: str) -> Markup:
        drawn = [
            element(tag, cell, class_="n" if place in numbers else None, **attributes)
            for place, cell in enumerate(cells)
        ]
        return element("tr", drawn)

    drawn = element(
        "table",
        element("caption", caption),
        element("thead", row("th", head, scope="col")),
        element("tbody", [row("td", each) for each in rows]),
    )
    return element("div", drawn, class_="wide", role="group", aria_label=caption, tabindex=0)


def facts_table(rows: Iterable[TableRow]) -> Markup:
    """Make a table of names and values."""
    body = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in rows
    ]
    return element("table", element("tbody", body))


def tile(value: str, name: str) -> Markup:
    """Make a tile with one number and its name."""
    return element("div", element("b", value), element("span", name), class_="tile")


def muted(text: str) -> Markup:
    """Make a paragraph in muted color."""
    return element("p", text, class_="muted")


# Texts.


def number(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def short(value: float) -> str:
    """Format a number in a few characters: 950, 1.5k, 12M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999.5 would round to 1000, so it becomes 1k.
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def utc_text(seconds: float) -> str:
    """Format a time, given in seconds since the epoch, in UTC."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def duration_text(seconds: float) -> str:
    """Format a number of seconds: 3.2 s, 4 min 10 s, 5 h 2 min."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def _html_of(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return _escaped(content)
    return "".join(map(_html_of, content))


def _escaped(text: str) -> str:
    return html.escape(visible(text), quote=True)


# The style sheet, for light and dark screens.

_COLORS = {
    "page": ("#fff", "#12161c"),
    "panel": ("#f5f7fa", "#1b212a"),
    "line": ("#d5dbe3", "#39424f"),
    "ink": ("#1b2330", "#e6eaf0"),
    "muted": ("#525e6e", "#a7b1be"),
    "link": ("#1d5fa8", "#7db8f2"),
    "good": ("#19703a", "#5ccf86"),
    "warn": ("#8a5200", "#eab04a"),
    "bad": ("#b3261e", "#ff8a80"),
    "first": ("#2563a8", "#2f73bd"),
    "more": ("#7a5bb5", "#8464c8"),
    "failed": ("#c02f27", "#d0463e"),
    "rate-rows": ("#2563a8", "#4c94df"),
    "rate-units": ("#0f766e", "#2fa898"),
    "rate-throttled": ("#b26a00", "#d99a2b"),
}
"""Colors for light and dark screens. Each name is also a CSS class of text and of marks."""
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:24px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
p,ul{margin:6px 0}a{color:var(--link)}bdi{overflow-wrap:anywhere}
code{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
.sub,.muted,caption,footer{color:var(--muted)}
.status{display:inline-block;padding:2px 10px;border-radius:12px;border:1px solid;
font-size:14px;font-weight:600;margin-bottom:8px}
.box{background:var(--panel);border-left:4px solid;padding:10px 14px;margin:14px 0}
.box p,.box ul{color:var(--ink)}.box .name{font-weight:600}
.tiles,.law{display:flex;flex-wrap:wrap;align-items:center;gap:10px;margin:12px 0}
.tile{background:var(--panel);padding:8px 14px;min-width:max-content}
.tiles .tile{flex:1 1 112px}
.tile b{display:block;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.sign{font-size:22px;color:var(--muted)}
table{border-collapse:collapse;width:100%;margin:10px 0}
caption{text-align:left;padding-bottom:4px}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--line)}
th{font-weight:600}
tbody th{font-weight:400;color:var(--muted);width:320px}
.n{width:1%;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide,.figure{overflow-x:auto}.wide td:not(.n){min-width:120px}
svg{display:block;width:100%;min-width:640px;height:auto;font:12px system-ui,sans-serif}
.label{fill:var(--muted)}.heading{fill:var(--ink);font-weight:600;font-size:13px}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--line)}.limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4}
.pause{fill:var(--panel);stroke:var(--line);stroke-dasharray:2 3}
.bar{stroke:var(--page);stroke-width:.5}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;font-size:13px}
.swatch{display:inline-block;width:11px;height:11px;margin-right:6px;background:currentColor}
footer{margin-top:40px;font-size:13px}
@media (max-width:600px){main{padding:16px 12px 32px}h1{font-size:21px}
.wide table{min-width:800px}tbody th{width:130px}}
"""


def _colors(place: int) -> str:
    return ":root{" + "".join(f"--{name}:{both[place]};" for name, both in _COLORS.items()) + "}"


CSS = (
    ":root{color-scheme:light dark}"
    f"{_colors(0)}@media screen and (prefers-color-scheme:dark){{{_colors(1)}}}{_RULES}"
    + "".join(f".{name}{{color:var(--{name});fill:var(--{name})}}" for name in _COLORS)
).replace("\n", "")
"""Complete style sheet."""
_HASH = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""Content security policy: no script, no request, and no style but this sheet."""
