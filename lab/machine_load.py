"""Measure the CPU time of other processes, and run a way again that they have disturbed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

SHARE, SLACK_SECONDS = 0.1, 0.05
"""CPU time that others may use: a tenth of a core, and two readings' imprecision."""
WINDOW_SECONDS = 1.0
"""Time for which others are measured before each way."""
WINDOWS, TRIES = 10, 3
"""Windows until the machine is idle, and runs of a way until none is disturbed."""

_PROC = Path("/proc")
_Found = TypeVar("_Found")


class MachineBusy(Exception):
    """Error for a machine on which other processes disturb what is measured."""


@dataclass(frozen=True, slots=True)
class Process:
    """CPU seconds of a process so far."""

    parent: int
    name: str
    cpu: float
    waited: float
    """CPU seconds of its children that have ended, and of theirs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds of the machine so far, and of each process."""

    time: float
    """Seconds of a clock that is never set."""
    busy: float
    """CPU seconds of all cores in which they were not idle, as far as this machine sees."""
    processes: Mapping[int, Process]


@dataclass(frozen=True, slots=True)
class Others:
    """CPU time of all processes but one and its descendants, between two readings."""

    seconds: float
    cpu: float
    busiest: str | None
    """Name and process number of the busiest of them; None if no process was seen to work."""
    busiest_cpu: float

    @classmethod
    def between(cls, begin: Reading, end: Reading, root: int) -> Others:
        """Compare the machine's CPU time with that of `root` and its descendants."""
        own = _family(end.processes, root)
        before = sum(map(_total, _family(begin.processes, root).values()))
        used = {
            pid: each.cpu - (begin.processes[pid].cpu if pid in begin.processes else 0.0)
            for pid, each in end.processes.items()
            if pid not in own
        }
        pid = max(used, key=lambda each: used[each], default=0)
        seen = used.get(pid, 0.0) > 0
        return cls(
            end.time - begin.time,
            max(0.0, end.busy - begin.busy - (sum(map(_total, own.values())) - before)),
            f"{end.processes[pid].name} (process {pid})" if seen else None,
            used[pid] if seen else 0.0,
        )

    @property
    def are_idle(self) -> bool:
        """Whether the others used too little to disturb."""
        return self.cpu <= SHARE * self.seconds + SLACK_SECONDS

    def __str__(self) -> str:
        cores = f"other processes used {self.cpu / self.seconds:.2f} cores"
        if self.busiest is None:
            return f"{cores} (not seen from here: another container or machine)"
        return f"{cores} (most: {self.busiest}, {self.busiest_cpu / self.seconds:.2f})"


def read_machine() -> Reading:
    """Read the CPU times of Linux. Raises `MachineBusy` where the system does not tell them."""
    tick = os.sysconf("SC_CLK_TCK")
    try:
        counts = [int(each) for each in (_PROC / "stat").read_text().split("\n")[0].split()[1:]]
    except OSError:
        raise MachineBusy(
            "this system has no /proc/stat, so nobody can tell whether other processes disturb"
            " what is measured: run make lab-page on Linux"
        ) from None
    # Interrupts are left out: much of their time is the loopback traffic of the ways.
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = counts[:8]
    return Reading(time.monotonic(), (user + nice + system + steal) / tick, dict(processes()))


def processes() -> Iterator[tuple[int, Process]]:
    """Yield all processes by number; none where the system has no /proc."""
    tick = os.sysconf("SC_CLK_TCK")
    for folder in _PROC.glob("[0-9]*"):
        # A process may end at any time.
        with suppress(OSError):
            # The name of the program is in parentheses, and may contain spaces.
            begin, _, end = (folder / "stat").read_text("utf-8", "replace").rpartition(")")
            fields = end.split()
            user, system, waited_user, waited_system = (int(each) for each in fields[11:15])
            yield (
                int(folder.name),
                Process(
                    *(int(fields[1]), begin.partition("(")[2]),
                    *((user + system) / tick, (waited_user + waited_system) / tick),
                ),
            )


def _family(processes: Mapping[int, Process], root: int) -> dict[int, Process]:
    """Return a process and its descendants."""
    found = {root: processes[root]} if root in processes else {}
    while more := {
        pid: each for pid, each in processes.items() if each.parent in found and pid not in found
    }:
        found |= more
    return found


def _total(process: Process) -> float:
    return process.cpu + process.waited


@dataclass(frozen=True, slots=True)
class IdleMachine:
    """Machine on which nothing but this process and its children may be busy."""

    say: Callable[[str], None]
    read: Callable[[], Reading] = read_machine
    sleep: Callable[[float], None] = time.sleep
    root: int = field(default_factory=os.getpid)

    def undisturbed(self, label: str, way: Callable[[], _Found]) -> _Found:
        """Run a way until no other process was busy before and beside it.

        Raises `MachineBusy` if others do not become idle, or have disturbed every run.
        """
        for left in reversed(range(TRIES)):
            self._wait_until_idle(label)
            begin = self.read()
            found = way()
            others = Others.between(begin, self.read(), self.root)
            if others.are_idle:
                return found
            if not left:
                raise MachineBusy(
                    f"{TRIES} runs of {label} were disturbed: beside the last {others}; end"
                    " them, and run it again"
                )
            self.say(f"{label}, again: {others} beside it")
        raise AssertionError

    def _wait_until_idle(self, label: str) -> None:
        for left in reversed(range(WINDOWS)):
            begin = self.read()
            self.sleep(WINDOW_SECONDS)
            others = Others.between(begin, self.read(), self.root)
            if others.are_idle:
                return
            if not left:
                raise MachineBusy(
                    f"before {label}: {others}; docs/lab.md is measured on an idle machine only:"
                    " end them, and run it again"
                )
