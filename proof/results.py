"""Figures of a proof, as JSON and as a table, each beside what was expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MEASURED, LEFT_OUT, FAILED = "measured", "left out", "FAILED"
_COLUMNS = ("part", "figure", "measured", "expected", "expected by")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, or why there is none."""

    part: str
    name: str
    status: str
    value: str
    """What was measured; otherwise the reason."""
    expected: str = ""
    source: str = ""
    """Page, simulation or rule that the expectation is from."""

    @property
    def cells(self) -> tuple[str, ...]:
        value = self.value if self.status == MEASURED else f"{self.status}: {self.value}"
        return self.part, self.name, value, self.expected, self.source


@dataclass(slots=True)
class Results:
    """All figures, and facts about the proof."""

    facts: dict[str, Any]
    figures: list[Figure] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(figure.status == FAILED for figure in self.figures)

    def page(self) -> str:
        """Return the figures as a table in Markdown."""
        rows: list[tuple[str, ...]] = [_COLUMNS, ("---",) * len(_COLUMNS)]
        rows += [tuple(cell.replace("|", "/") for cell in each.cells) for each in self.figures]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def write(self, folder: Path, more: Mapping[str, Any]) -> Path:
        """Write aws-proof.json and aws-proof.md; return the path of the first."""
        path = folder / "aws-proof.json"
        value = {**self.facts, **more, "figures": [asdict(each) for each in self.figures]}
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
        (folder / "aws-proof.md").write_text(self.page(), "utf-8")
        return path
