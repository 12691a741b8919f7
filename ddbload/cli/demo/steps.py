"""What the demo is doing, and how long each part took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ddbload.cli.progress import live_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddbload.pipeline.conductor import Totals


@contextmanager
def step(doing: str) -> Iterator[list[str]]:
    """Say what is done, and when it is, how long it took.

    What is put into the list that this gives is said then.
    """
    began = time.monotonic()
    words: list[str] = []
    with _spinner(doing):
        yield words
    said = "".join(f": {each}" for each in words)
    click.echo(f"{time.monotonic() - began:5.1f} s  {doing}{said}")


@contextmanager
def _spinner(doing: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


@contextmanager
def progress() -> Iterator[Callable[[Totals], None]]:
    """A bar on a terminal; elsewhere a line whenever there is news."""
    if sys.stderr.isatty():
        with live_progress(enabled=True) as draw:
            yield draw
        return
    said = ""

    def say(totals: Totals) -> None:
        nonlocal said
        share = 100 * totals.bytes // max(1, totals.size)
        now = f"{share:>7} %  {totals.rows.read:,} rows settled"
        now += f", {totals.rows.rejected:,} rejected" if totals.rows.rejected else ""
        if now != said:
            said = now
            click.echo(now)

    yield say
