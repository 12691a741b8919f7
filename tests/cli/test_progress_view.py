"""The view of a run's progress: bar, figures and chunks, at several sizes; and the plain line."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import click
import pytest
from rich.console import Console
from rich.segment import Segment

from ddbload.cli import progress as cli_progress
from ddbload.cli import terminal as cli_terminal
from ddbload.cli.tables import ProgressView
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.runs.progress import (
    CHECKING,
    DONE_CHUNK,
    FAILED_CHUNK,
    IMPORTING,
    REPORTING,
    RUNNING_CHUNK,
    ChunkStates,
    RunProgress,
    progress_line,
)


def states_of(count: int, done: int, running: int, failed: tuple[int, ...] = ()) -> ChunkStates:
    states = ChunkStates(count)
    for number in range(done):
        states[number] = DONE_CHUNK
    for number in range(done, done + running):
        states[number] = RUNNING_CHUNK
    for number in failed:
        states[number] = FAILED_CHUNK
    return states


def progress_of(states: ChunkStates, step: str = IMPORTING) -> RunProgress:
    size = 1000 * len(states)
    rows, work = RowCounts(1_234_567, 1_234_567), WriteStats(throttled=3, consumed_wcu=5000.0)
    totals = WorkTotals(rows, work, int(size * 0.41))
    return RunProgress(step, totals, size, states, 0, 52_000.0, 800.0, 125.0)


def drawn(
    progress: RunProgress | None, width: int = 80, height: int = 24, encoding: str = "utf-8"
) -> list[list[Segment]]:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(file=file, width=width, height=height, force_terminal=True)
    view = ProgressView()
    if progress is not None:
        view.show(progress)
    lines = console.render_lines(view, pad=False)
    file.close()
    return lines


def text(lines: list[list[Segment]]) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


RUN_OF_40 = progress_of(states_of(40, 14, 8, failed=(9,)))


def test_view_of_40_chunks():
    assert text(drawn(RUN_OF_40)) == [
        "importing ━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━━━━ 41 %, about 2 min left",
        "1,234,567 rows, 52,000 rows/s, 800 WCU/s, 3 throttled",
        "40 chunks: 1 failed, 13 done, 8 running, 18 waiting",
    ]


@pytest.mark.parametrize("count", [1, 2, 40, 79, 81, 640, 641, 20_000])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (20, 5)])
def test_view_fits_the_terminal_and_shows_a_failure(count, width, height):
    progress = progress_of(states_of(count, count // 2, min(count // 4, 1000), failed=(count - 1,)))
    lines = drawn(progress, width, height)
    assert len(lines) <= height - 2
    assert max(len(line) for line in text(lines)) <= width
    styles = {
        str(piece.style.bgcolor.name)
        for line in lines
        for piece in line
        if piece.style is not None and piece.style.bgcolor is not None
    }
    assert ("red" in styles) == (count > 1)


def test_view_names_what_the_run_is_doing():
    assert text(drawn(None))[0].startswith(CHECKING)
    checking = RunProgress(CHECKING, WorkTotals(), 0, ChunkStates(), 0)
    assert text(drawn(checking))[0].startswith(CHECKING)
    assert text(drawn(replace(RUN_OF_40, step=REPORTING)))[0].startswith(REPORTING)


def test_line_for_a_log():
    assert progress_line(progress_of(states_of(40, 14, 8))) == (
        "41 % 1,234,567 rows, 52,000 rows/s, 800 WCU/s, 3 throttled, about 2 min left"
    )
    assert "3 throttled, 1 chunk failed, about" in progress_line(RUN_OF_40)
    assert progress_line(replace(RUN_OF_40, step=REPORTING)).startswith("reporting, 41 % ")
    assert progress_line(None) == CHECKING


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("drawing", ["progress", "reading"])
def test_drawing_is_cleared_before_a_message_is_written(monkeypatch, drawing):
    terminal = Terminal()
    console = Console(file=terminal, width=80, height=24, force_terminal=True)
    for module in (cli_terminal, cli_progress):
        monkeypatch.setattr(module, "live_console", lambda: console)
    monkeypatch.setattr(click, "echo", lambda text, err=False: terminal.write(f"{text}\n"))
    if drawing == "progress":
        shown = cli_progress.show_progress(cli_terminal.Output())
    else:
        shown = cli_terminal.live_reading(cli_terminal.Output())
    with shown:
        before = len(terminal.getvalue())
        cli_terminal.print_stderr("ddbload: warning: the message")
        cli_terminal.print_notice("another one")
    screen = rows_of(terminal.getvalue(), 80)
    assert before
    assert "ddbload: warning: the message" in screen
    assert "ddbload: warning: another one" in screen
    # Nothing of what was drawn is left.
    assert [row for row in screen if row and not row.startswith("ddbload")] == []


def rows_of(written: str, width: int) -> list[str]:
    """Return what a terminal shows: it knows line ends, moves up, erased lines and no colours."""
    rows, row, column = [[" "] * width], 0, 0
    for code, text in re.findall(r"\x1b\[([?0-9;]*[A-Za-z])|([^\x1b])", written):
        if code == "2K":
            rows[row] = [" "] * width
        elif code.endswith("A"):
            row -= int(code[:-1] or 1)
        elif text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0
            if row == len(rows):
                rows.append([" "] * width)
        elif text:
            rows[row][column] = text
            column += 1
    return ["".join(each).rstrip() for each in rows]
