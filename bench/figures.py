"""From rounds to figures: medians, with start-up counted once for a million rows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.clients import PLAIN_LOOP, Client
from bench.rounds import Cost, Scenario

MILLION = 1_000_000


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

    @property
    def cpu_per_row(self) -> float:
        """Seconds, start-up left out."""
        return (self.cost.cpu - self.start.cpu) / (self.rows - self.start_rows)

    @property
    def cpu_per_million(self) -> float:
        """Seconds of a process that imports a million rows, start-up counted once."""
        return self.start.cpu + (MILLION - self.start_rows) * self.cpu_per_row

    @property
    def rows_per_second(self) -> float:
        """While it was sending."""
        return self.rows / self.cost.sending if self.cost.sending > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """All that was measured."""
        return {
            "client": self.client.label,
            "shape": self.scenario.shape.name,
            "tls": self.scenario.tls,
            "latency_ms": self.scenario.latency * 1000,
            "turn": self.turn,
            "start_rows": self.start_rows,
            "start": asdict(self.start),
            "rows": self.rows,
            "cost": asdict(self.cost),
        }


@dataclass(frozen=True, slots=True)
class Figure:
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
    times_less: float | None
    """CPU, against the plain loop in the same scenario; None where that did not run."""

    def to_json(self) -> dict[str, Any]:
        """The figures, and whose they are."""
        return {
            "client": self.client.label,
            "shape": self.scenario.shape.name,
            "tls": self.scenario.tls,
            "latency_ms": self.scenario.latency * 1000,
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


def figures(rounds: Sequence[Round]) -> list[Figure]:
    """Of one scenario: a figure for each client, the least CPU first."""
    grouped: dict[Client, list[Round]] = {}
    for each in rounds:
        grouped.setdefault(each.client, []).append(each)
    medians = {
        client: statistics.median(each.cpu_per_million for each in own)
        for client, own in grouped.items()
    }
    plain = next((cpu for client, cpu in medians.items() if client.name == PLAIN_LOOP), None)
    made = [
        Figure(
            client=client,
            scenario=own[0].scenario,
            rows=own[0].rows,
            cpu_per_million=medians[client],
            least=min(each.cpu_per_million for each in own),
            most=max(each.cpu_per_million for each in own),
            start_cpu=statistics.median(each.start.cpu for each in own),
            rows_per_second=statistics.median(each.rows_per_second for each in own),
            peak_mb=max(each.cost.peak_mb for each in own),
            times_less=None if plain is None else plain / medians[client],
        )
        for client, own in grouped.items()
    ]
    return sorted(made, key=lambda figure: figure.cpu_per_million)
