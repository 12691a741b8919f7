"""Summarize rounds by the median CPU time per million rows, with the start-up counted once."""

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
    """One round of a client: a process with few rows (mostly start-up), and one with many."""

    client: Client
    scenario: Scenario
    turn: int
    start_rows: int
    start: Cost
    rows: int
    cost: Cost

    def cpu_per_million(self, start_cpu: float) -> float:
        """Extrapolate the CPU seconds of a process that imports a million rows.

        `start_cpu`: median CPU seconds of the process with few rows, over all rounds.
        """
        each = (self.cost.cpu - start_cpu) / (self.rows - self.start_rows)
        return start_cpu + (MILLION - self.start_rows) * each

    @property
    def rows_per_second(self) -> float:
        """Rows per second between the first request and the last."""
        return self.rows / self.cost.sending if self.cost.sending > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all measurements as JSON."""
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
    """Medians of a client's rounds in one scenario."""

    client: Client
    scenario: Scenario
    rows: int
    cpu_per_million: float
    least: float
    most: float
    """Maximum CPU seconds per million rows over all rounds; `least` is the minimum."""
    start_cpu: float
    rows_per_second: float
    peak_mb: float
    times_less: float | None = None
    """CPU time of the baseline divided by this client's; None without a baseline."""

    def to_json(self) -> dict[str, Any]:
        """Return the medians, client and scenario as JSON."""
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


def client_medians(rounds: Sequence[Round]) -> list[ClientMedians]:
    """Compute the medians of one scenario for each client, sorted by CPU."""
    grouped: dict[Client, list[Round]] = {}
    for each in rounds:
        grouped.setdefault(each.client, []).append(each)
    made = [_client_medians(own) for own in grouped.values()]
    plain = next((each.cpu_per_million for each in made if each.client.name == BASELINE), None)
    if plain is not None:
        made = [replace(each, times_less=plain / each.cpu_per_million) for each in made]
    return sorted(made, key=lambda figure: figure.cpu_per_million)


def _client_medians(rounds: Sequence[Round]) -> ClientMedians:
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


def table(figures: Sequence[ClientMedians]) -> str:
    """Format one scenario as a table with a line per client."""
    names = (
        f"  {'client':16}{'CPU-s/M':>9}{'least':>8}{'most':>8}{'start':>7}"
        f"{'less':>8}{'rows/s':>10}{'MB':>6}{'rows':>10}"
    )
    lines = [figures[0].scenario.title, names]
    for figure in figures:
        less = "" if figure.times_less is None else f"{figure.times_less:.1f} x"
        lines.append(
            f"  {figure.client.label:16}{figure.cpu_per_million:9.2f}{figure.least:8.2f}"
            f"{figure.most:8.2f}{figure.start_cpu:7.2f}{less:>8}{figure.rows_per_second:10,.0f}"
            f"{figure.peak_mb:6.0f}{figure.rows:10,}"
        )
    return "\n".join(lines)
