"""Draw tables and run progress in the terminal with rich."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ddbload.errors import visible
from ddbload.runs.progress import (
    CHECKING,
    DONE_PERCENT,
    FAILED_CHUNK,
    IMPORTING,
    WAITING,
    ChunkStates,
    RunProgress,
    percent,
    progress_figures,
    short_duration,
)

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

STATUS_STYLES = {
    **dict.fromkeys(("FINE", "SUCCEEDED", "ALREADY_LOADED"), "bold green"),
    **dict.fromkeys(("REJECTS", "SUCCEEDED_WITH_REJECTS", "CANCELLED", "INTERRUPTED"), "yellow"),
    **dict.fromkeys(("FAILS", "FAILED", "LedgerDamaged"), "bold red"),
    "RUNNING": "cyan",
}
"""Color of each status of a plan or run."""
PIPE_COLUMNS = 4000
"""Width of a table in a pipe; wide enough that no cell is cut."""
_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)


def draw(drawn: RenderableType, *, whole_lines: bool = False) -> None:
    """Draw on standard output. With `whole_lines`, lines in a pipe are never wrapped."""
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
    """Make a table. Control characters in cells are escaped, and columns without cells left out.

    Args:
        head: Column titles.
        rows: Cells of each row.
        right: Columns aligned to the right.
        flexible: Column that takes the remaining width. With it, long cells are cut instead of
            wrapped.
        whole: Columns whose cells are never cut.
    """
    cells = [
        [each if isinstance(each, Text) else Text(visible(each)) for each in row] for row in rows
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


MAX_GRID_LINES, MAX_GRID_COLUMNS = 8, 120
_LINES_AROUND = 8
"""Terminal lines reserved for the rest of the view and for earlier output."""
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆", "123456789"
"""Symbols of a partly imported cell, from empty to full."""
_SIGNS = {"waiting": "·", "done": "▇", "failed": "✗"}
_ASCII_SIGNS = {"waiting": ".", "done": "#", "failed": "x"}
_STYLES = {
    "waiting": "bright_black",
    "running": "cyan",
    "done": "green",
    "failed": "bold white on red",
}


Cell = tuple[str, float]
"""State of a cell of the grid (`waiting`, `running`, `done` or `failed`), and its imported share.

A cell is one chunk, or several consecutive ones.
"""


def grid_cells(chunks: ChunkStates, most: int) -> tuple[int, list[Cell]]:
    """Group chunks into at most `most` cells; return the chunks per cell, and the cells."""
    count = len(chunks)
    each = max(1, -(-count // max(1, most)))
    return each, [_cell(chunks.slice(n, min(n + each, count))) for n in range(0, count, each)]


def _cell(states: bytes) -> Cell:
    counts = Counter(states)
    if counts[FAILED_CHUNK]:
        return "failed", 0.0
    if counts[DONE_PERCENT] == len(states):
        return "done", 1.0
    if counts[WAITING] == len(states):
        return "waiting", 0.0
    return "running", sum(states) / (DONE_PERCENT * len(states))


class ProgressView:
    """Live view of a run's progress, redrawn several times a second."""

    def __init__(self) -> None:
        self._progress: RunProgress | None = None

    def show(self, progress: RunProgress) -> None:
        """Set the progress to draw next."""
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the view within the terminal's lines and columns."""
        progress = self._progress
        if progress is None or not progress.size or not len(progress.chunks):
            yield _bar(CHECKING, None, "")
            return
        left = progress.seconds_left
        is_importing = progress.step == IMPORTING
        words = percent(progress)
        if left is not None and is_importing:
            words += f", about {short_duration(left)} left"
        yield _bar(progress.step, progress, words)
        yield Text(", ".join(progress_figures(progress)), overflow="ellipsis", no_wrap=True)
        lines = min(MAX_GRID_LINES, console.size.height - _LINES_AROUND)
        if len(progress.chunks) > 1 and lines >= 1:
            yield from _grid(progress.chunks, options, lines)


def _bar(label: str, progress: RunProgress | None, words: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column()
    row.add_column(no_wrap=True)
    bar = ProgressBar(
        total=1.0,
        completed=0.0 if progress is None else progress.share,
        width=32,
        pulse=progress is None,
        complete_style="cyan",
        finished_style="cyan",
        pulse_style="cyan",
    )
    row.add_row(Text(label, style="bold"), bar, words)
    return row


def _grid(chunks: ChunkStates, options: ConsoleOptions, lines: int) -> Iterator[Text]:
    width = min(options.max_width, MAX_GRID_COLUMNS)
    ascii_only = options.ascii_only
    # Signs with a gap between them are easier to count, while there is room.
    gap = 1 if len(chunks) <= width else 0
    most = (width + gap) // (1 + gap)
    each, cells = grid_cells(chunks, most * lines)
    # Lines of about equal length.
    columns = -(-len(cells) // -(-len(cells) // most))
    for first in range(0, len(cells), columns):
        line = Text(no_wrap=True, overflow="crop")
        for cell in cells[first : first + columns]:
            line.append(_sign(cell, ascii_only), _STYLES[cell[0]]).append(" " * gap)
        yield line
    yield _legend(chunks, each, options.max_width, ascii_only)


def _legend(chunks: ChunkStates, each: int, width: int, ascii_only: bool) -> Text:
    """Return the number of chunks in each state, with the state's symbol."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{len(chunks):,} chunks: ")
    counts = [(kind, getattr(chunks, kind)) for kind in ("failed", "done", "running", "waiting")]
    shown = [(kind, count) for kind, count in counts if count]
    for number, (kind, count) in enumerate(shown):
        line.append(", " if number else "")
        line.append(_sign((kind, 0.5), ascii_only), _STYLES[kind])
        line.append(f" {count:,} {kind}")
    more = f" ({each:,} in a cell)"
    if each > 1 and line.cell_len + len(more) <= width:
        line.append(more)
    return line


def _sign(cell: Cell, ascii_only: bool) -> str:
    kind, share = cell
    if kind == "running":
        levels = _ASCII_LEVELS if ascii_only else _LEVELS
        return levels[min(int(share * len(levels)), len(levels) - 1)]
    return (_ASCII_SIGNS if ascii_only else _SIGNS)[kind]
