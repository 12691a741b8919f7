"""Tables in the terminal, drawn by rich."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ddbload.cli.output import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

STATUS_STYLES = {
    **dict.fromkeys(("FINE", "SUCCEEDED", "ALREADY_LOADED"), "bold green"),
    **dict.fromkeys(("REJECTS", "SUCCEEDED_WITH_REJECTS", "CANCELLED", "INTERRUPTED"), "yellow"),
    **dict.fromkeys(("FAILS", "FAILED", "LedgerDamaged"), "bold red"),
    "RUNNING": "cyan",
}
"""Colors of a plan's and a run's status."""
PIPE_COLUMNS = 4000
"""Width of a table for a program: no cell is cut."""
_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)


def draw(drawn: RenderableType, *, whole_lines: bool = False) -> None:
    """Draw on standard output. With `whole_lines`, a pipe gets lines of any width."""
    width = PIPE_COLUMNS if whole_lines and not sys.stdout.isatty() else None
    console = Console(highlight=False, soft_wrap=False, width=width)
    with console.capture() as captured:
        console.print(drawn, crop=False)
    # rich pads cells with spaces; a file should not have them.
    sys.stdout.write(_TRAILING.sub("", captured.get()))


def make_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    flexible: str | None = None,
    whole: Sequence[str] = (),
) -> Table:
    """Make a table; control characters in cells are escaped.

    Columns without a cell are left out. Those in `right` are aligned to the right. Long cells are
    wrapped; with `flexible`, the column that takes the width that is left, they are cut instead,
    but for the columns in `whole`.
    """
    cells = [
        [each if isinstance(each, Text) else Text(printable(each)) for each in row] for row in rows
    ]
    shown = [place for place in range(len(head)) if any(row[place].plain for row in cells)]
    table = Table(box=None, pad_edge=False, expand=flexible is not None)
    for place in shown:
        name = head[place]
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=flexible is not None,
            overflow="fold" if flexible is None else "ellipsis",
            min_width=max(len(row[place].plain) for row in cells) if name in whole else None,
            ratio=1 if name == flexible else None,
        )
    for row in cells:
        table.add_row(*(row[place] for place in shown))
    return table
