"""From rounds to figures: medians, with start-up counted once for a million rows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.clients import BASELINE, Client
from bench.rounds import Cost, Scenario

MILLION = 1_000_000


def _labels(client: Client, scenario: Scenario) -> dict[str, Any]:
    return {
        "client": client.label,
        "shape": scenario.shape.name,
        "tls": scenario.tls,
        "latency_ms": scenario.latency * 1000,
    }


@dataclass(frozen=True, slots=True)
class Round:
    """A client's two processes: one for a few rows only, which is nearly all start-up."""

    client: Client
    scenario: Scenario
    turn: int
    start_rows: int
    start: Cost
    rows: int
    cost: Cost

    def cpu_per_million(self, start_cpu: float) -> float:
        """Seconds of a process that imports a million rows, start-up counted once.

        `start_cpu`: of the process for a few rows, in the median of all rounds.
        """
        each = (self.cost.cpu - start_cpu) / (self.rows - self.start_rows)
        return start_cpu + (MILLION - self.start_rows) * each

    @property
    def rows_per_second(self) -> float:
        """While it was sending."""
        return self.rows / self.cost.sending if self.cost.sending > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """All that was measured."""
        return {
            **_labels(self.client, self.scenario),
            "turn": self.turn,
            "start_rows": self.start_rows,
            "start": asdict(self.start),
            "rows": self.rows,
            "cost": asdict(self.cost),
        }


@dataclass(frozen=True, slots=True)
class ClientMedians:
    """A client in a scenario: medians over all rounds."""

    client: Client
    scenario: Scenario
    rows: int
    cpu_per_million: float
    least: float
    most: float
    """Of the rounds' CPU seconds a million rows."""
    start_cpu: float
    rows_per_second: float
    peak_mb: float
    times_less: float | None = None
    """CPU, against the plain loop in the same scenario; None where that did not run."""

    def to_json(self) -> dict[str, Any]:
        """The figures, and whose they are."""
        return {
            **_labels(self.client, self.scenario),
            "rows": self.rows,
            "cpu_seconds_per_million_rows": round(self.cpu_per_million, 3),
            "least": round(self.least, 3),
            "most": round(self.most, 3),
            "start_cpu_seconds": round(self.start_cpu, 3),
            "rows_per_second": round(self.rows_per_second),
            "peak_mb": round(self.peak_mb, 1),
            "times_less_cpu_than_batch_writer": (
                None if self.times_less is None else round(self.times_less, 2)
            ),
        }


def figures(rounds: Sequence[Round]) -> list[ClientMedians]:
    """Of one scenario: a figure for each client, the least CPU first."""
    grouped: dict[Client, list[Round]] = {}
    for each in rounds:
        grouped.setdefault(each.client, []).append(each)
    made = [_figure(own) for own in grouped.values()]
    plain = next((each.cpu_per_million for each in made if each.client.name == BASELINE), None)
    if plain is not None:
        made = [replace(each, times_less=plain / each.cpu_per_million) for each in made]
    return sorted(made, key=lambda figure: figure.cpu_per_million)


def _figure(rounds: Sequence[Round]) -> ClientMedians:
    start_cpu = statistics.median(each.start.cpu for each in rounds)
    cpu = [each.cpu_per_million(start_cpu) for each in rounds]
    return ClientMedians(
        client=rounds[0].client,
        scenario=rounds[0].scenario,
        rows=rounds[0].rows,
        cpu_per_million=statistics.median(cpu),
        least=min(cpu),
        most=max(cpu),
        start_cpu=start_cpu,
        rows_per_second=statistics.median(each.rows_per_second for each in rounds),
        peak_mb=max(each.cost.peak_mb for each in rounds),
    )
