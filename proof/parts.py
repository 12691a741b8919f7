"""The parts of the proof, as parts.toml lists them, with the functions that measure them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddbload.contracts.run_record import CAPACITY_HOUR
from proof import loads, service
from proof.budget import STANDING, Work
from proof.session import Session

_MEASURES: Mapping[str, Callable[[Session], None]] = {
    "deploy": service.deploy,
    "uploads": service.tiny_uploads,
    "csv": loads.load_csv,
    "insert": loads.insert_twice,
    "last-wins": loads.last_wins,
    "cancel": loads.limit_and_cancel,
    "stop": loads.stop_and_resume,
    "redrive": service.redrive,
    "500-wcu": loads.beside_boto3,
    "four": loads.four_at_once,
    "burst": service.burst,
    "permissions": service.permissions,
    "cold-starts": service.cold_starts,
    "log-key": service.log_key,
    "destroy": service.destroy,
}
# Of csv, room below its limit; of 500-wcu an hour, where a read unit costs a fifth of a write unit.
_HOUR = (loads.WCU + loads.RCU / 5) * CAPACITY_HOUR
_FIXED = {"deploy": STANDING, "csv": 0.01, "500-wcu": _HOUR}
ALWAYS = ("deploy", "destroy")
"""Parts without which no other can run."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the proof."""

    name: str
    text: str
    """What it does; `{}` is its size."""
    figures: Mapping[str, Sequence[str]]
    """Figures that it measures: expectation, its source, and why the emulation cannot."""
    least: int = 1
    most: int = 1
    runs: int | str = 0
    rows: int | str = 0
    seconds: float = 0.0
    workers: int = 1
    not_emulated: str | None = None

    def size(self, scale: float) -> int:
        """Return the size at a scale from 0 to 1."""
        return max(self.least, round(self.most * scale))

    def work(self, scale: float) -> Work:
        """Return the work at a scale, at most."""
        size = self.size(scale)
        sizes: dict[int | str, int] = {"size": size, "2 size": 2 * size}
        runs, rows = (sizes.get(each) or int(each) for each in (self.runs, self.rows))
        return Work(runs, rows, self.seconds, self.workers, _FIXED.get(self.name, 0.0))

    def measure(self, session: Session) -> None:
        _MEASURES[self.name](session)


def _read() -> list[Part]:
    text = Path(__file__).with_name("parts.toml").read_text("utf-8")
    return [Part(name=name, **fields) for name, fields in tomllib.loads(text).items()]


PARTS: Sequence[Part] = _read()


def chosen(names: Sequence[str]) -> list[Part]:
    """Return the parts of these names, and those that are always needed; all without names."""
    return [part for part in PARTS if not names or part.name in (*names, *ALWAYS)]


def price(parts: Sequence[Part], scale: float) -> float:
    """Return the most that parts may cost at a scale."""
    return sum(part.work(scale).dollars for part in parts)
