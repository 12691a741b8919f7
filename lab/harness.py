"""Run the ways of an experiment as processes, and hold their results."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.clients import RIVALS_PYTHON, ROOT, isolated_environment
from bench.rounds import Cores, ResourceUsage, run_measured

PUBLISHED, BOTO3, ASYNCIO, OURS = "published", "boto3", "asyncio", "ddbload"
"""Kinds of figures, each with one color in all charts.

They are published with the experiment, or measured here with boto3, an asyncio client, or ddbload.
"""
LIMIT_SECONDS = 3600.0
"""Maximum seconds of one way."""
IDLE_SHARE, IDLE_WINDOWS = 0.1, 10
"""Share of a core that other processes may use before a way begins; seconds to wait for it."""
_Found = TypeVar("_Found")


class CountsDiffer(Exception):
    """Raised if objects, items, messages or keys did not all arrive exactly once."""


class MachineBusy(Exception):
    """Raised if other processes disturb the measurement."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table of texts. The first column holds names, the others figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    detail: bool = False
    """True to print and record the table, but leave it out of the page."""


@dataclass(frozen=True, slots=True)
class Series:
    """One bar, line or lane of a chart."""

    label: str
    kind: str
    points: Sequence[Any]
    """Bar: its value. Line: (x, y) points. Lane: (start, end, activity) in seconds."""
    note: str = ""
    """Text after a bar's value."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart to be drawn by `lab.draw`."""

    form: str
    """`bars`, `lines` or `timeline`."""
    title: str
    unit: str
    series: Sequence[Series]
    x: str = ""
    """Label of the horizontal axis of a line chart."""
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """Results of one run of an experiment."""

    tables: Sequence[Table]
    charts: Sequence[Chart]
    notes: Sequence[str]
    """Remarks that depend on the results, in Markdown."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of one run of an experiment."""

    size: int
    """Number of books, rows, messages, objects or keys; see the experiment's `unit`."""
    latency: float
    """Seconds between a request and its response."""
    seed: int
    folder: Path
    """Folder for the run's files, removed afterwards."""
    say: Callable[[str], None] = lambda _: None
    """Called with one line before each way is run."""
    needs_idle_machine: bool = False

    def measured(self, label: str, way: Callable[[], _Found]) -> _Found:
        """Announce a way and run it. Raises `MachineBusy` if the machine must be idle and is not.

        CPU time of other processes is measured before the way runs, not meanwhile.
        """
        self.say(label)
        if self.needs_idle_machine:
            require_idle_machine(label)
        return way()


@dataclass(frozen=True, slots=True)
class Experiment:
    """Published experiment that can be run here.

    Its text is in the Markdown file beside its module: a description and, after a line `---`, notes
    on the figures.
    """

    name: str
    title: str
    source: str
    """Title of the publication, with its year if known."""
    unit: str
    size: int
    """Size for `make lab`; small, so that all experiments take less than 5 minutes."""
    published_size: int
    latency_ms: float
    run: Callable[[Setup], Findings]
    """Runs all ways. Raises `CountsDiffer` unless everything arrived exactly once."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Cost of one way as a whole process, and the JSON that it printed."""

    seconds: float
    """From start to end of the process. A program reports the time of its work itself."""
    cpu: float
    """CPU seconds, including child processes."""
    printed: Mapping[str, Any]


def published(program: str, *arguments: str) -> list[str]:
    """Return the command for a program of `lab.published`, which prints one JSON object."""
    return [str(RIVALS_PYTHON), "-m", f"lab.published.{program}", *arguments]


def ddbload(*arguments: str) -> list[str]:
    """Return a ddbload command with these arguments."""
    return [sys.executable, "-m", "ddbload", *arguments]


def run(command: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Run one way. Raises `bench.rounds.InvalidRound` if its process fails."""
    used, out = run_text(command, environment)
    return Measured(used.wall, used.cpu, json.loads(out) if out.strip() else {})


def run_text(command: Sequence[str], environment: Mapping[str, str]) -> tuple[ResourceUsage, str]:
    """Run a command; return its resource usage and its standard output. Raises as `run`."""
    with tempfile.TemporaryDirectory(prefix="ddbload-lab-") as folder:
        cores = Cores(None, None)
        return run_measured(list(command), dict(environment), Path(folder), cores, LIMIT_SECONDS)


def environment(**endpoints: str) -> dict[str, str]:
    """Return an environment that directs AWS clients to the lab's servers only.

    `endpoints`: addresses by service, such as `dynamodb="http://127.0.0.1:8000"`.
    """
    urls = {f"AWS_ENDPOINT_URL_{name.upper()}": url for name, url in endpoints.items()}
    return {
        **isolated_environment(),
        **urls,
        # Drop PYTHON variables, so that every way uses compiled modules.
        "PYTHONPYCACHEPREFIX": str(ROOT / ".bench-build" / "bytecode"),
        "PYTHONPATH": str(ROOT),
    }


def require_count(label: str, due: int, arrived: int) -> None:
    """Raise `CountsDiffer` unless exactly `due` arrived."""
    if arrived != due:
        raise CountsDiffer(f"{label}: {arrived:,} of {due:,} arrived; no figure of this run counts")


def require_idle_machine(label: str) -> None:
    """Wait until other processes use less than a tenth of a core. Raises `MachineBusy`."""
    for _ in range(IDLE_WINDOWS):
        begin = _busy_seconds()
        time.sleep(1.0)
        cores = _busy_seconds() - begin
        if cores <= IDLE_SHARE:
            return
    raise MachineBusy(
        f"before {label}, other processes used {cores:.2f} cores; docs/contributing/lab.md is"
        " measured on an idle machine only: end them, and run it again"
    )


def _busy_seconds() -> float:
    """Return the CPU seconds used by all cores so far. Raises `MachineBusy` without /proc/stat."""
    try:
        counts = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    except OSError:
        raise MachineBusy("this system has no /proc/stat: run make lab-page on Linux") from None
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = map(int, counts[:8])
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def number(value: float) -> str:
    """Format a figure with three digits, or all digits before the decimal point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}"


def busy(server: str, cpu: float, seconds: float) -> str:
    """Describe the server's CPU use: near a whole core, the server limits the ways."""
    return (
        f"The {server} used {number(cpu)} CPU seconds in {number(seconds)} seconds of serving:"
        f" {cpu / seconds:.0%} of a core."
    )
