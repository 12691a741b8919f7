"""Write `lab.md` from what the runs found: a section for each experiment, with its charts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.draw import number, svg
from lab.experiment import Experiment
from lab.findings import Findings, ServerCost, Table

PAGE, FOLDER = "lab.md", "lab"
"""The page, and the folder beside it with findings and charts."""
_BEGIN = """\
# The lab

For those who read one of five published experiments, or doubt a figure. Each runs here with one
command, beside ddbload:

```text
make lab
make lab EXPERIMENT=writers SIZE=10000 LATENCY_MS=8
```

The ways as published are small programs in [`lab/published`](../lab/published), written afresh
after the descriptions; ddbload is run as a command, and its reader and lister, which are parts of
commands, in processes of their own. All servers are on 127.0.0.1 and answer after a stated latency:
nothing here was measured on AWS, so compare ratios, not seconds, with what was published. A run
whose counts of what arrived do not match prints no table.

`make lab` writes a page like this one, build/lab.md. `make lab-page` writes this page, from
[the findings](lab): it reads the CPU time of other processes before and after each way, runs a way
again if they used more than a tenth of a core beside it, and refuses if they stay busy.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an experiment: its settings, when and where it ran, and what it found."""

    experiment: str
    size: int
    latency_ms: float
    seed: int
    machine: str
    date: str
    findings: Findings

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON."""
        return {
            "experiment": self.experiment,
            "size": self.size,
            "latency_ms": self.latency_ms,
            "seed": self.seed,
            "machine": self.machine,
            "date": self.date,
            "findings": self.findings.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Run:
        """Read what `to_json` returned."""
        return cls(**{**value, "findings": Findings.from_json(value["findings"])})


def write_run(run: Run, docs: Path, experiments: Sequence[Experiment]) -> list[Path]:
    """Write a run's findings and charts, and the page anew. Returns the files of its charts."""
    folder = docs / FOLDER
    drawings = [svg(chart) for chart in run.findings.charts]
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{run.experiment}-*.svg"):
        old.unlink()
    text = json.dumps(run.to_json(), indent=1, ensure_ascii=False)
    (folder / f"{run.experiment}.json").write_text(text + "\n", encoding="utf-8")
    charts = []
    for at, drawing in enumerate(drawings):
        charts.append(folder / _chart_name(run.experiment, at))
        charts[-1].write_text(drawing, encoding="utf-8")
    (docs / PAGE).write_text(page(docs, experiments), encoding="utf-8")
    return charts


def page(docs: Path, experiments: Sequence[Experiment]) -> str:
    """Return the page: a section for each experiment whose findings are in `docs`."""
    sections = [_BEGIN]
    for experiment in experiments:
        found = docs / FOLDER / f"{experiment.name}.json"
        if found.exists():
            run = Run.from_json(json.loads(found.read_text(encoding="utf-8")))
            sections.append(_section(experiment, run))
    return "\n".join(sections)


def _section(experiment: Experiment, run: Run) -> str:
    findings = run.findings
    lines = [
        f"## {experiment.title}",
        "",
        f"Published as *{experiment.source}*. {experiment.measures}",
        "",
        f"{_circumstances(experiment, run)}: `{_command(run)}`.",
        "",
    ]
    for table in findings.tables:
        lines += [*_table(table), ""]
    for at, chart in enumerate(findings.charts):
        lines += [f"![{chart.title}]({FOLDER}/{_chart_name(experiment.name, at)})", ""]
    lines += [f"- {note}" for note in findings.notes]
    lines += [f"- {server_text(each)}." for each in findings.servers]
    return "\n".join([*lines, ""])


def server_text(server: ServerCost) -> str:
    """Say how busy a server was."""
    share = f"{server.cpu / server.seconds:.0%}" if server.seconds else "none"
    return (
        f"The {server.server} used {number(server.cpu)} CPU seconds in {number(server.seconds)}"
        f" seconds of serving: {share} of a core"
    )


def _circumstances(experiment: Experiment, run: Run) -> str:
    return (
        f"{run.date}, {run.machine}, seed {run.seed}, {run.size:,} {experiment.unit}"
        f" (published: {experiment.published_size:,}), {run.latency_ms:g} ms a request"
    )


def _command(run: Run) -> str:
    settings = f"SIZE={run.size} LATENCY_MS={run.latency_ms:g} SEED={run.seed}"
    return f"make lab EXPERIMENT={run.experiment} {settings}"


def _table(table: Table) -> list[str]:
    cells = [table.columns, *table.rows]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, "|" + "---|" + "---:|" * (len(table.columns) - 1))
    return [f"{table.title}:", "", *lines]


def _chart_name(experiment: str, at: int) -> str:
    return f"{experiment}-{at + 1}.svg"
