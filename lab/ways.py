"""Run the ways of an experiment as processes of their own, and measure them."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clients import RIVALS_PYTHON, ROOT, isolated_environment
from bench.rounds import Cores, ResourceUsage, run_measured

LIMIT_SECONDS = 3600.0
"""Longest time that one way may take."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way cost as a whole process, and the JSON that it printed."""

    seconds: float
    """From the start of the process to its end; a program reports the time of its work itself."""
    cpu: float
    """CPU seconds, child processes included."""
    printed: Mapping[str, Any]


def published(program: str, *arguments: str) -> list[str]:
    """Build the command for a program of `lab.published`, which prints one object of JSON."""
    return [str(RIVALS_PYTHON), "-m", f"lab.published.{program}", *arguments]


def ddbload(*arguments: str) -> list[str]:
    """Build a command of ddbload."""
    return [sys.executable, "-m", "ddbload", *arguments]


def run(command: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Run one way. Raises `bench.rounds.InvalidRound` if its process fails."""
    used, out = measure(command, environment)
    printed = json.loads(out) if out.strip() else {}
    return Measured(used.wall, used.ru_utime + used.ru_stime, printed)


def measure(command: Sequence[str], environment: Mapping[str, str]) -> tuple[ResourceUsage, str]:
    """Run a command; return what it used and its standard output. Raises as `run`."""
    with tempfile.TemporaryDirectory(prefix="ddbload-lab-") as folder:
        no_cores = Cores(None, None)
        return run_measured(list(command), dict(environment), Path(folder), no_cores, LIMIT_SECONDS)


def environment(**endpoints: str) -> dict[str, str]:
    """Build the environment that directs AWS clients to servers of the lab, and nowhere else.

    `endpoints`: addresses by service, such as `dynamodb="http://127.0.0.1:8000"`.
    """
    urls = {f"AWS_ENDPOINT_URL_{name.upper()}": url for name, url in endpoints.items()}
    return {
        **isolated_environment(),
        **urls,
        # Every way finds compiled modules, whatever PYTHON variables are set here.
        "PYTHONPYCACHEPREFIX": str(ROOT / ".bench-build" / "bytecode"),
        "PYTHONPATH": str(ROOT),
    }
