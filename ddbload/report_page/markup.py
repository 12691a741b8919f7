"""HTML and SVG built from elements, so that no text of a run can become markup; tables and texts.

`element` makes all markup. Tags and attributes are words of this program, checked against lists;
everything else is text: its control characters are made visible, and it is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ddbload.errors import visible

_TAGS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer"),
        *("div", "span", "p", "h1", "h2", "a", "b", "bdi", "code", "ul", "li"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("svg", "g", "path", "rect", "line", "text", "desc"),
    )
)
_ATTRIBUTES = frozenset(
    (
        *("lang", "charset", "name", "content", "http-equiv", "id", "class", "href", "rel"),
        *("scope", "tabindex", "role", "aria-label", "aria-labelledby", "aria-hidden"),
        *("viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "d", "text-anchor"),
    )
)
_VOID = frozenset(("meta",))
_LINKS = "https://github.com/ddbload/ddbload"
"""Beginning of every link."""
MAX_TEXT = 400
"""Characters of one text of a run that the page shows."""


class Markup:
    """Finished markup. Only this module makes it."""

    __slots__ = ("_html",)

    def __init__(self, finished: str) -> None:
        self._html = finished

    def __str__(self) -> str:
        return self._html


Content = Markup | str | Iterable["Content"] | None
"""Markup, text, or several of both; None is nothing."""
TableRow = Sequence[Content]
"""Cells of a table's row."""


def element(tag: str, *content: Content, **attributes: str | float | None) -> Markup:
    """Make an element.

    Text becomes visible text. An attribute's name has `_` for `-`, and `_` at its end is dropped
    (`class_`); one with the value None is left out. Raises `ValueError` for other tags, attributes
    and links than the page needs.
    """
    if tag not in _TAGS:
        raise ValueError(f"the page has no element {tag!r}")
    parts = [f"<{tag}"]
    for given, value in attributes.items():
        if value is not None:
            parts.append(_attribute(given.rstrip("_").replace("_", "-"), value))
    parts.append(">")
    if tag not in _VOID:
        parts += [_html_of(content), f"</{tag}>"]
    return Markup("".join(parts))


def style_sheet(css: str) -> Markup:
    """Make the style element. The text of a style element is not escaped: `css` is the page's."""
    if "<" in css:
        raise ValueError("a style sheet with markup")
    return Markup(f"<style>{css}</style>")


def document(*content: Content) -> str:
    """Return the text of a whole page."""
    return f"<!doctype html>\n{_html_of((element('html', *content, lang='en'),))}\n"


def data(text: str, limit: int = MAX_TEXT) -> Markup:
    """Show a text of the run: isolated from the direction of others, and shortened."""
    return element("bdi", shorten(text, limit))


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """Make a text visible, cut it, and say how much is missing.

    Escapes count, too: they make a text of invisible characters ten times as long.
    """
    parts, left = [], limit
    for shown in map(visible, text[:limit]):
        left -= len(shown)
        if left < 0:
            break
        parts.append(shown)
    missing = len(text) - len(parts)
    return "".join(parts) + (f"… ({missing:,} more characters)" if missing else "")


def section(title: str, *content: Content) -> Markup:
    """Make a section with a heading."""
    return element("section", element("h2", title), *content)


def legend(kinds: Iterable[tuple[str, str]]) -> Markup:
    """Explain the colors of a chart: pairs of class and words."""
    items = [
        element("li", element("span", class_=f"swatch {kind}", aria_hidden="true"), name)
        for kind, name in kinds
    ]
    return element("ul", items, class_="legend")


def table(
    caption: str, head: Sequence[str], rows: Iterable[TableRow], numbers: Sequence[int] = ()
) -> Markup:
    """Make a table; columns whose index is in `numbers` are aligned to the right."""

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
    """Make a tile with one figure."""
    return element("div", element("b", value), element("span", name), class_="tile")


def muted(text: str) -> Markup:
    """Make a paragraph of lesser importance."""
    return element("p", text, class_="muted")


# Texts.


def number(value: float) -> str:
    """Write a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def short(value: float) -> str:
    """Write a number in a few characters: 950, 1.5k, 12M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, three digits are 1k.
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def utc_text(seconds: float) -> str:
    """Write a time in seconds since the epoch."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def duration_text(seconds: float) -> str:
    """Write a number of seconds in words: 3.2 s, 4 min 10 s, 5 h 2 min."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def _attribute(name: str, value: str | float) -> str:
    if name not in _ATTRIBUTES:
        raise ValueError(f"the page has no attribute {name!r}")
    text = value if isinstance(value, str) else number(value)
    if name == "href" and not text.startswith(_LINKS):
        raise ValueError("the page has no such link")
    return f' {name}="{_escaped(text)}"'


def _html_of(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return str(content)
    if isinstance(content, str):
        return _escaped(content)
    return "".join(map(_html_of, content))


def _escaped(text: str) -> str:
    return html.escape(visible(text), quote=True)
