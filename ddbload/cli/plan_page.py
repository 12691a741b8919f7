"""Draw a plan as a page in the terminal, from the object that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ddbload.cli.run_result import LAYOUT_NAMES
from ddbload.cli.tables import draw, make_table, status_style
from ddbload.contracts.run_record import amount_text
from ddbload.contracts.source import AUTO, UNCOMPRESSED
from ddbload.errors import visible
from ddbload.runs.progress import short_duration

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS_SHOWN, ALL_COLUMNS = 8, 1000
"""Maximum columns on a page, without and with `--all`."""
REJECTS_SHOWN, ALL_REJECTS = 4, 1000
_UNITS = ("B", "KB", "MB", "GB", "TB")

Value = Mapping[str, Any]


def show_plan(plan: Value, *, show_all: bool = False) -> None:
    """Draw a plan on standard output. `show_all` includes all columns, rejects and reasons."""
    parts: list[RenderableType] = [_head(plan), _facts(plan, show_all)]

    def section(title: str, body: RenderableType) -> None:
        parts.extend((Text(""), Text(title, style="bold"), body))

    if plan["rejects"]:
        most = ALL_REJECTS if show_all else REJECTS_SHOWN
        section("Rows that would be rejected", _rejects(plan["rejects"], most))
    if plan["columns"]:
        most = ALL_COLUMNS if show_all else COLUMNS_SHOWN
        section("Columns", _columns(plan["columns"], most))
    if plan["price"] and show_all:
        section("Price", _price(plan["price"]))
    if plan["warnings"]:
        section("Before you begin", _list([each["message"] for each in plan["warnings"]]))
    if plan["command"]:
        # Printed as one line of any length: a wrapped line would be copied with its line break.
        command = visible(plan["command"])
        section("Import it", Text(f"  {command}", "cyan", no_wrap=True, overflow="ignore"))
    draw(Group(*parts))


def _head(plan: Value) -> RenderableType:
    table = plan["table"]
    text = Text(visible(plan["source"]["uri"]), style="bold")
    if table is not None:
        text.append(f" into {table['name']}", "bold")
        text.append(f"  ({table['region']}, {table['billing']})", "dim")
    return text


def _verdict(plan: Value) -> Text:
    rows, style = plan["rows"], status_style(plan["status"])
    if plan["error"] is not None:
        return Text(f"would fail: {plan['error']['name']}", style)
    total = f"about {rows['total']:,}" if rows["estimated"] else f"{rows['total']:,}"
    of = f"{rows['read']:,} rows" + (" read" if rows["estimated"] else "")
    left_out = f", {rows['filtered']:,} left out by --where" if rows["filtered"] else ""
    if rows["rejected"]:
        return Text(f"{rows['rejected']:,} of {of} would be rejected{left_out}", style)
    if left_out:
        return Text(f"{rows['good']:,} of {of} can be loaded{left_out}", style)
    return Text(f"all of {total} rows can be loaded", style)


def _facts(plan: Value, show_all: bool) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("outcome", _verdict(plan))
    if plan["dialect"] is not None:
        grid.add_row("source", Text(_source(plan["source"])))
        grid.add_row("dialect", Text(_dialect(plan["dialect"], show_all)))
    if plan["keys"] is not None:
        price = plan["price"]
        grid.add_row("keys", Text(_keys(plan["keys"], estimated=plan["rows"]["estimated"])))
        if plan["items"]["count"]:
            grid.add_row("items", Text(_items(plan["items"])))
        grid.add_row("writes", Text(_writes(plan["write_units"])))
        if plan["time"]["limited_by"]:
            grid.add_row("time", Text(_time(plan["time"])))
        here = f" on a deployed stack, {amount_text(price['by_import'])} from this machine"
        grid.add_row("price", Text.assemble((amount_text(price["total"]), "bold"), here))
    for place, each in enumerate(plan["alternatives"]):
        way = Text(_way(each), no_wrap=not show_all, overflow="fold" if show_all else "ellipsis")
        grid.add_row("" if place else "ways", way)
    return grid


def _source(source: Value) -> str:
    said = [] if source["bytes"] is None else [_bytes(source["bytes"])]
    if source["objects"] and source["objects"] > 1:
        said.append(f"{source['objects']:,} objects")
    if source["chunks"]:
        one = "one chunk (cannot be split)" if not source["splits"] else "one chunk"
        said.append(one if source["chunks"] == 1 else f"{source['chunks']:,} chunks")
    if not source["complete"] and source["bytes"]:
        said.append(f"{_bytes(source['bytes_read'])} read")
    return ", ".join(said)


def _dialect(dialect: Value, show_all: bool) -> str:
    said: str = LAYOUT_NAMES.get(dialect.get("layout", ""), "%s") % dialect["format"]
    if dialect["delimiter"] is not None:
        said += f" delimited by {_shown(dialect['delimiter'])}"
        said += f", quoted by {_shown(dialect['quote'])}" if dialect["quote"] else ", no quotes"
        said += f", escaped by {_shown(dialect['escape'])}" if dialect["escape"] else ""
        said += ", with a header" if dialect["header"] else ", no header"
    said += f", {dialect['encoding']}"
    if dialect["compression"] not in (UNCOMPRESSED, AUTO):
        said += f", {dialect['compression']}"
    sure = math.floor(100 * dialect["sure"])
    if not show_all:
        return f"{said} ({sure}% sure)"
    said = f"{said} ({sure}% sure: {visible(dialect['why'])})"
    if dialect["header_why"] is not None:
        said += f"; the first row names the columns ({dialect['header_why']})"
    return said


def _keys(keys: Value, *, estimated: bool) -> str:
    about = "" if keys["exact"] else "about "
    said = f"{', '.join(keys['attributes'])}: {about}{keys['distinct']:,} distinct"
    said += " among the rows read" if estimated else ""
    if keys["repeated"]:
        said += f" in {keys['rows']:,} rows; keys with several rows: {about}{keys['repeated']:,}"
    else:
        said += ", no duplicates" if keys["exact"] else ", no duplicates seen"
    if not keys["exact"]:
        said += f" (estimate, ±{2 * keys['error']:.1%})"
    hottest = keys["hottest"]
    if hottest is not None and hottest["share"] >= 0.001:
        said += f"; the largest partition key has {hottest['share']:.1%} of the rows"
    return said


def _items(items: Value) -> str:
    said = (
        f"{_bytes(items['smallest'])} to {_bytes(items['largest'])}, on average"
        f" {_bytes(items['mean'])}; together {_bytes(items['bytes'])}"
    )
    if items["too_large"]:
        said += f"; {items['too_large']:,} over DynamoDB's 400 KB are rejected"
    return said


def _writes(units: Value) -> str:
    said = f"{units['total']:,} units"
    if units["indexes"]:
        parts = [f"table {units['table']:,}"]
        parts += [f"{each['name']} {each['units']:,}" for each in units["indexes"]]
        said += f" ({', '.join(parts)})"
    if units["regions"] > 1:
        said += f", in {units['regions']} regions"
    return f"{said}; {units['assumed']}"


def _time(time: Value) -> str:
    slowest = time["limits"][0]
    how = f"{slowest['units_per_second']:,.0f} units a second ({slowest['how']})"
    return f"{_duration(time['seconds'])}: {slowest['what']} at {how}"


def _rejects(rejects: Sequence[Value], most: int) -> RenderableType:
    rows = []
    for each in rejects[:most]:
        first, column = each["first"], each["column"] or "the row"
        place = f"line {first['line']:,}"
        if "source" in first:
            place = f"{first['source'].rpartition('/')[2]}, {place}"
        rows.append((f"{each['rows']:,}", each["cause"], column, place, each["detail"]))
    head = ("rows", "cause", "column", "first at", "why")
    return _with_more(make_table(head, rows, right=("rows", "first at")), len(rejects) - most)


def _columns(columns: Sequence[Value], most: int) -> RenderableType:
    rows: list[tuple[Text, ...]] = []
    for each in columns[:most]:
        name, kind, role = each["name"], each["type"], each["key"]
        name = visible(name if len(name) <= 28 else f"{name[:27]}…")
        inferred = each["inferred"]["type"] if "inferred" in each else kind
        rows.append(
            (
                Text(name, style="bold" if role else ""),
                Text(f"{kind} {role}" if role else kind),
                Text("" if inferred == kind else inferred, "cyan"),
                Text(f"{each['empty']:,}" if each.get("empty") else ""),
                Text(visible("  ".join(each.get("examples", ()))), "dim"),
            )
        )
    head = ("name", "type", "could be", "empty", "examples")
    flexible = "examples" if any(row[-1].plain for row in rows) else None
    table = make_table(head, rows, right=("empty",), flexible=flexible)
    return _with_more(table, len(columns) - most)


def _price(price: Value) -> RenderableType:
    paid = " (provisioned capacity is paid for anyway)" if price["billing"] == "provisioned" else ""
    rows = [(line["service"], amount_text(line["dollars"]), line["how"]) for line in price["lines"]]
    how = f"{price['region']}'s list prices of {price['prices_of']}{paid}"
    rows.append(("total", amount_text(price["total"]), how))
    return make_table(("service", "price", "how"), rows, right=("price",))


def _way(way: Value) -> str:
    """Describe one way to load the source in a line."""
    price = "price unknown" if way["dollars"] is None else amount_text(way["dollars"])
    time = f", {_duration(way['seconds'])}" if way["tool"] == "ddbload" else ""
    needs = f"; needs {visible('; '.join(way['needs']))}" if way["needs"] else ""
    return f"{way['tool']}: {price}{time}{'' if way['possible'] else '; not possible here'}{needs}"


def _list(texts: Sequence[str]) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(style="yellow", no_wrap=True)
    grid.add_column(overflow="fold")
    for text in texts:
        grid.add_row("-", Text(visible(text)))
    return grid


def _with_more(table: Table, more: int) -> RenderableType:
    note = Text(f"... and {more:,} more; --all shows them", style="dim")
    return Group(table, note) if more > 0 else table


def _shown(text: str) -> str:
    return "a tab" if text == "\t" else f"'{visible(text)}'"


def _bytes(size: float) -> str:
    power = min(len(_UNITS) - 1, int(math.log2(max(1, size)) // 10))
    size /= 1024**power
    decimals = 0 if power == 0 or size >= 100 else 1
    return f"{size:,.{decimals}f} {_UNITS[power]}"


def _duration(seconds: float | None) -> str:
    return "never" if seconds is None else short_duration(seconds)
