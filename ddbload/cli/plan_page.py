"""Draw a plan as a page in the terminal, from the object that `--json` prints."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ddbload.cli.output import printable
from ddbload.cli.run_result import LAYOUT_NAMES
from ddbload.contracts.source import AUTO, UNCOMPRESSED

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS_SHOWN = 60
REJECTS_SHOWN = 20
_STATUS = {"FINE": "bold green", "REJECTS": "bold yellow", "FAILS": "bold red"}
_UNITS = ("B", "KB", "MB", "GB", "TB")

_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)

Value = Mapping[str, Any]


def show_plan(plan: Value) -> None:
    """Draw a plan on standard output."""
    console = Console(highlight=False, soft_wrap=False)
    with console.capture() as drawn:
        console.print(page(plan), crop=False)
    # rich pads cells with spaces; a file should not have them.
    sys.stdout.write(_TRAILING.sub("", drawn.get()))


def page(plan: Value) -> RenderableType:
    """Lay out the page."""
    parts: list[RenderableType] = [_head(plan), _facts(plan)]
    if plan["rejects"]:
        parts += _section("Rows that would be rejected", _rejects(plan["rejects"]))
    if plan["columns"]:
        parts += _section("Columns", _columns(plan["columns"]))
        notes = list(_notes(plan["columns"]))
        if notes:
            parts.append(Padding(_list(notes, ""), (1, 0, 0, 0)))
    if plan["price"]:
        parts += _section("Price", _price(plan["price"]))
    if plan["time"] and plan["time"]["prewarm"]:
        parts += _section("Raise capacity first", _prewarm(plan["time"]))
    if plan["alternatives"]:
        parts += _section("Ways to load it", _alternatives(plan["alternatives"]))
    if plan["warnings"]:
        texts = [each["message"] for each in plan["warnings"]]
        parts += _section("Before you begin", _list(texts, "yellow"))
    if plan["create_table"]:
        parts += _section("Make the table", _command(plan["create_table"]))
    if plan["command"]:
        parts += _section("Import it", _command(plan["command"]))
    return Group(*parts)


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(""), Text(title, style="bold"), body]


def _head(plan: Value) -> RenderableType:
    table = plan["table"]
    text = Text(printable(plan["source"]["uri"]), style="bold")
    if table is not None:
        text.append(f" into {table['name']}", "bold")
        text.append(f"  ({table['region']}, {table['billing']})", "dim")
    return text


def _verdict(plan: Value) -> Text:
    rows, style = plan["rows"], _STATUS[plan["status"]]
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


def _facts(plan: Value) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("outcome", _verdict(plan))
    if plan["dialect"] is not None:
        grid.add_row("source", Text(_source(plan["source"])))
        grid.add_row("dialect", Text(_dialect(plan["dialect"])))
    if plan["keys"] is not None:
        sampled = " among the rows read" if plan["rows"]["estimated"] else ""
        grid.add_row("keys", Text(_keys(plan["keys"], sampled)))
    if plan["items"] is not None and plan["items"]["count"]:
        grid.add_row("items", Text(_items(plan["items"])))
    if plan["write_units"] is not None:
        grid.add_row("writes", Text(_writes(plan["write_units"])))
    if plan["time"] is not None and plan["time"]["limited_by"]:
        grid.add_row("time", Text(_time(plan["time"])))
    if plan["price"] is not None:
        price = plan["price"]
        grid.add_row(
            "price",
            Text.assemble(
                (_dollars(price["total"]), "bold"),
                f" on a deployed stack, {_dollars(price['by_import'])} from this machine",
            ),
        )
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


def _dialect(dialect: Value) -> str:
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
    said = f"{said} ({sure}% sure: {printable(dialect['why'])})"
    if dialect["header_why"] is not None:
        said += f"; the first row names the columns ({dialect['header_why']})"
    return said


def _keys(keys: Value, sampled: str) -> str:
    about = "" if keys["exact"] else "about "
    said = f"{', '.join(keys['attributes'])}: {about}{keys['distinct']:,} distinct{sampled}"
    if keys["repeated"]:
        said += f" in {keys['rows']:,} rows; keys with several rows: {about}{keys['repeated']:,}"
        extra = keys["extra_rows"]
        said += f" ({about}{extra:,} {'row' if extra == 1 else 'rows'} more than keys)"
    else:
        said += ", no duplicates" if keys["exact"] else ", no duplicates seen"
    if not keys["exact"]:
        said += f" (estimate, ±{2 * keys['error']:.1%})"
    if keys["sorted"] != "no":
        said += f"; {keys['sorted']}"
    hottest = keys["hottest"]
    if hottest is not None and hottest["share"] >= 0.001:
        said += f"; the largest partition key has {hottest['share']:.1%} of the rows"
    return said


def _items(items: Value) -> str:
    said = (
        f"{_bytes(items['smallest'])} to {_bytes(items['largest'])}, median"
        f" {_bytes(items['median'])}, 99% up to {_bytes(items['p99'])}; together"
        f" {_bytes(items['bytes'])}"
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
    return f"{duration(time['seconds'])}: {slowest['what']} at {how}"


def _rejects(rejects: Sequence[Value]) -> RenderableType:
    table = Table("rows", "cause", "column", "first at", "why", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    table.columns[3].justify = "right"
    for each in rejects[:REJECTS_SHOWN]:
        table.add_row(
            f"{each['rows']:,}",
            each["cause"],
            Text(printable(each["column"] or "the row")),
            Text(_first(each["first"])),
            Text(printable(each["detail"])),
        )
    return _with_more(table, len(rejects) - REJECTS_SHOWN)


def _first(place: Value) -> str:
    line = f"line {place['line']:,}"
    if "source" not in place:
        return line
    return f"{printable(place['source'].rpartition('/')[2])}, {line}"


def _columns(columns: Sequence[Value]) -> RenderableType:
    shown = columns[:COLUMNS_SHOWN]
    kinds = [f"{each['type']} {each['key']}" if each["key"] else each["type"] for each in shown]
    others = [_other(each) for each in shown]
    empty = [f"{each['empty']:,}" if each.get("empty") else "" for each in shown]
    table = Table(box=None, pad_edge=False, expand=True)
    longest = max(len(printable(each["name"])) for each in shown)
    table.add_column("name", width=min(max(longest, 4), 28), overflow="ellipsis", no_wrap=True)
    table.add_column("type", width=_width("type", kinds), no_wrap=True)
    if any(others):
        table.add_column("could be", width=8, no_wrap=True)
    if any(empty):
        table.add_column("empty", width=_width("empty", empty), no_wrap=True, justify="right")
    # The examples get the remaining width, so that only they are cut.
    table.add_column("examples", ratio=1, overflow="ellipsis", no_wrap=True)
    for each, kind, other, none in zip(shown, kinds, others, empty, strict=True):
        cells = [Text(printable(each["name"]), style="bold" if each["key"] else ""), Text(kind)]
        cells += [Text(other, "cyan")] if any(others) else []
        cells += [Text(none)] if any(empty) else []
        examples = "  ".join(each.get("examples", ()))
        table.add_row(*cells, Text(printable(examples), style="dim"))
    return _with_more(table, len(columns) - COLUMNS_SHOWN)


def _other(column: Value) -> str:
    """Return the inferred type if it differs from the column's type."""
    inferred = column.get("inferred")
    return inferred["type"] if inferred and inferred["type"] != column["type"] else ""


def _width(title: str, cells: Sequence[str]) -> int:
    return max(len(title), *map(len, cells))


def _notes(columns: Sequence[Value]) -> Iterator[str]:
    """Yield notes on columns; columns with the same note share a line."""
    named: dict[str, list[str]] = {}
    for each in columns:
        for note in each.get("notes", ()):
            named.setdefault(note, []).append(printable(each["name"]))
    for note, names in named.items():
        yield f"{', '.join(names)}: {note}"


def _price(price: Value) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(style="dim", overflow="fold")
    for line in price["lines"]:
        table.add_row(line["service"], _dollars(line["dollars"]), line["how"])
    paid = " (provisioned capacity is paid for anyway)" if price["billing"] == "provisioned" else ""
    table.add_row(
        Text("total", "bold"),
        Text(_dollars(price["total"]), "bold"),
        f"{price['region']}'s list prices of {price['prices_of']}{paid}; then"
        f" {_dollars(price['storage_month'])} per month for storage",
    )
    return table


def _alternatives(ways: Sequence[Value]) -> RenderableType:
    table = Table("by", "price", "time", "needs", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for each in ways:
        dollars, possible = each["dollars"], each["possible"]
        needs = "; ".join(each["needs"]) or "nothing more"
        table.add_row(
            Text(each["tool"], "bold" if possible else "dim"),
            "?" if dollars is None else _dollars(dollars),
            "?" if each["seconds"] is None else duration(each["seconds"]),
            Text(needs if possible else f"not possible here: needs {needs}"),
        )
    hows = [f"{each['tool']}: {each['how']}" for each in ways]
    return Group(table, _list(hows, "dim"))


def _prewarm(time: Value) -> RenderableType:
    better = time["prewarm"]
    said = (
        f"{better['write_units_per_second']:,} write units a second would make it"
        f" {duration(better['seconds'])}, for {_dollars(better['dollars'])} ({better['how']}):"
    )
    parts: list[RenderableType] = [Text(said), _command(better["command"])]
    if better["command_afterwards"]:
        parts += [Text("and after the import:"), _command(better["command_afterwards"])]
    return Group(*parts)


def _command(command: str) -> RenderableType:
    # In one line, however long: a line end within it would be copied with it.
    return Text(f"  {printable(command)}", style="cyan", no_wrap=True, overflow="ignore")


def _list(texts: Sequence[str], style: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column(overflow="fold")
    for text in texts:
        grid.add_row("-", Text(printable(text)))
    return grid


def _with_more(table: Table, more: int) -> RenderableType:
    if more <= 0:
        return table
    return Group(table, Text(f"... and {more:,} more; --json shows all", style="dim"))


def _shown(text: str) -> str:
    return "a tab" if text == "\t" else f"'{printable(text)}'"


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError(size)


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.1 else f"${amount:,.4f}"


def duration(seconds: float | None) -> str:
    """Format seconds for a person; None means endless."""
    if seconds is None:
        return "never"
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:,.1f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:,.0f} minutes"
    return f"{seconds / 3600:,.1f} hours"
