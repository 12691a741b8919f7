"""What a run of an experiment found: tables, charts, and what its servers used. Plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

PUBLISHED, OURS, RIVAL = "published", "ours", "rival"
"""Kinds of figures: printed in the experiment's source, measured here of ddbload, and measured here
of another program."""


class CountsDiffer(Exception):
    """Error for a way whose objects, items, messages or keys did not all arrive, or not once."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table of texts. The first column is a name, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its value, its kind, and more to say after the value."""

    label: str
    value: float
    kind: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Chart with a bar for each way, on a scale that begins at zero."""

    title: str
    unit: str
    bars: Sequence[Bar]
    logarithmic: bool = False
    """The scale begins at a power of ten instead, so that small bars can be told apart."""

    def part(self, value: float) -> float:
        """Return the share of the longest bar that a value's bar has."""
        most = max((bar.value for bar in self.bars), default=0.0)
        if value <= 0 or most <= 0:
            return 0.0
        if not self.logarithmic:
            return value / most
        powers = math.log10(most) - math.log10(self.least_power())
        return (math.log10(value) - math.log10(self.least_power())) / powers

    def least_power(self) -> float:
        """Return the power of ten below all values, at which a logarithmic scale begins."""
        least = min((bar.value for bar in self.bars if bar.value > 0), default=1.0)
        return 10.0 ** (math.ceil(math.log10(least)) - 1)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart, as (x, y) points."""

    label: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Lines:
    """Chart of lines whose axes are logarithmic."""

    title: str
    x: str
    """Name of the horizontal axis."""
    unit: str
    """Unit of the vertical axis."""
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Span:
    """Stretch of time in which something was done, in seconds from the beginning."""

    begin: float
    end: float
    what: str


@dataclass(frozen=True, slots=True)
class Lane:
    """Spans of one way, which may overlap."""

    label: str
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Picture of what was done when, a lane for each way."""

    title: str
    lanes: Sequence[Lane]


Chart = Bars | Lines | Timeline


@dataclass(frozen=True, slots=True)
class ServerCost:
    """CPU seconds that a server of the experiment used, and how long it served.

    A server that is busy for most of the time is what limits the ways that it answers.
    """

    server: str
    cpu: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of one run of an experiment."""

    tables: Sequence[Table]
    charts: Sequence[Chart]
    servers: Sequence[ServerCost]
    notes: Sequence[str] = ()
    """What a reader must know to judge the figures, a sentence or two each, in Markdown."""

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON; each chart says what it is."""
        charts = [{"chart": type(each).__name__, **asdict(each)} for each in self.charts]
        return {**asdict(self), "charts": charts}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Findings:
        """Read what `to_json` returned."""
        return cls(
            tables=[Table(**each) for each in value["tables"]],
            charts=[_chart(each) for each in value["charts"]],
            servers=[ServerCost(**each) for each in value["servers"]],
            notes=value["notes"],
        )


def _chart(value: Mapping[str, Any]) -> Chart:
    match value["chart"]:
        case "Bars":
            bars = [Bar(**each) for each in value["bars"]]
            return Bars(value["title"], value["unit"], bars, value.get("logarithmic", False))
        case "Lines":
            series = [
                Series(each["label"], each["kind"], [(x, y) for x, y in each["points"]])
                for each in value["series"]
            ]
            return Lines(value["title"], value["x"], value["unit"], series)
        case "Timeline":
            lanes = [
                Lane(each["label"], [Span(**span) for span in each["spans"]])
                for each in value["lanes"]
            ]
            return Timeline(value["title"], lanes)
        case other:
            raise ValueError(f"unknown chart {other!r}")


def require_count(what: str, due: int, arrived: int) -> None:
    """Raise `CountsDiffer` unless as many arrived as were due."""
    if arrived != due:
        raise CountsDiffer(f"{what}: {arrived:,} of {due:,} arrived; no figure of this run counts")
