"""What an experiment is: where it was published, what it measures, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.findings import Findings
from lab.machine_load import IdleMachine

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of one run of an experiment."""

    size: int
    """Number of books, rows, messages, objects or keys: what the experiment's `unit` says."""
    latency: float
    """Seconds between a request and its response."""
    seed: int
    folder: Path
    """Folder for the run's files; it is removed afterwards."""
    say: Callable[[str], None] = lambda _: None
    """Called with one line before each way is run."""
    machine: IdleMachine | None = None
    """Machine that must be idle; None: whatever runs beside the ways."""

    def measured(self, label: str, way: Callable[[], _Found]) -> _Found:
        """Run a way, which begins with resetting its server: again if others disturb it.

        Raises `MachineBusy`.
        """
        return way() if self.machine is None else self.machine.undisturbed(label, way)


@dataclass(frozen=True, slots=True)
class Experiment:
    """Experiment that was published, and can be run here."""

    name: str
    title: str
    source: str
    """Title of what was published, as it is quoted, with its year if that is known."""
    measures: str
    """What the experiment measures, and what it does not: a paragraph in Markdown."""
    unit: str
    size: int
    """Size for `make lab`; small, so that all experiments take less than 5 minutes."""
    published_size: int
    latency_ms: float
    """Usual latency of the servers, in milliseconds."""
    run: Callable[[Setup], Findings]
    """Run all ways. Raises `CountsDiffer` if not everything arrived, exactly once."""
