"""Parts that the sections of the page have in common: tables, legends, tiles and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ddbload.pipeline.report_page.markup import Content, Markup, element

MAX_MESSAGE = 2000
"""Characters of an error message that the page shows."""
TableRow = Sequence[Content]
"""Cells of a table's row."""


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
    caption: str,
    head: Sequence[str],
    rows: Iterable[TableRow],
    numbers: int = 0,
    numbers_from: int = 0,
) -> Markup:
    """Make a table; `numbers` columns, from `numbers_from` on, are aligned to the right."""
    aligned = range(numbers_from, numbers_from + numbers)

    def row(tag: str, cells: Sequence[Content], **attributes: str) -> Markup:
        return element(
            "tr",
            [
                element(tag, cell, class_="n" if place in aligned else None, **attributes)
                for place, cell in enumerate(cells)
            ],
        )

    body = [row("td", each) for each in rows]
    drawn = element(
        "table",
        element("caption", caption),
        element("thead", row("th", head, scope="col")),
        element("tbody", body),
    )
    return element("div", drawn, class_="wide", role="group", aria_label=caption, tabindex=0)


def facts_table(rows: Iterable[TableRow], caption: str | None = None) -> Markup:
    """Make a table of names and values."""
    body = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in rows
    ]
    title = None if caption is None else element("caption", caption)
    return element("table", title, element("tbody", body))


def shown_of(what: str, shown: int, total: int) -> str:
    """Write a caption that says if a table is not complete."""
    return what.capitalize() if shown == total else f"The first {shown:,} of {total:,} {what}"


def utc_text(seconds: float) -> str:
    """Write a time in seconds since the epoch."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def size_text(count: int) -> str:
    """Write a number of bytes."""
    value = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def tile(value: str, name: str) -> Markup:
    """Make a tile with one figure."""
    return element("div", element("b", value), element("span", name), class_="tile")
