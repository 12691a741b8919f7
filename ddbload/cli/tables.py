"""Draw tables and run progress in the terminal with rich."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ddbload.cli.terminal import EXIT_DONE, EXIT_FAILED, exit_status
from ddbload.errors import visible
from ddbload.runs.progress import (
    CHECKING,
    DONE_CHUNK,
    FAILED_CHUNK,
    IMPORTING,
    RUNNING_CHUNK,
    WAITING,
    ChunkStates,
    RunProgress,
    percent,
    progress_figures,
    short_duration,
)

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

_STYLES = {EXIT_DONE: "bold green", EXIT_FAILED: "bold red"}
PIPE_COLUMNS = 4000
"""Width of a table in a pipe; wide enough that no cell is cut."""
_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)


def status_style(status: str) -> str:
    """Return the color of a plan's or run's status, by the exit status that it gives."""
    return "cyan" if status == "RUNNING" else _STYLES.get(exit_status(status), "yellow")


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


_CHUNK_STYLES = {
    FAILED_CHUNK: ("failed", "bold white on red"),
    DONE_CHUNK: ("done", "green"),
    RUNNING_CHUNK: ("running", "cyan"),
    WAITING: ("waiting", "bright_black"),
}
"""Name and color of each state of a chunk."""


class ProgressView:
    """Live view of a run's progress, redrawn several times a second."""

    def __init__(self) -> None:
        self._progress: RunProgress | None = None

    def show(self, progress: RunProgress) -> None:
        """Set the progress to draw next."""
        self._progress = progress

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        """Draw a bar, figures, and the number of chunks in each state."""
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
        if len(progress.chunks) > 1:
            yield _chunk_counts(progress.chunks)


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


def _chunk_counts(chunks: ChunkStates) -> Text:
    """Return the number of chunks in each state."""
    shown = [
        Text(f"{count:,} {name}", style)
        for state, (name, style) in _CHUNK_STYLES.items()
        if (count := chunks.count(state))
    ]
    line = Text(f"{len(chunks):,} chunks: ", no_wrap=True, overflow="ellipsis")
    return line.append_text(Text(", ").join(shown))
